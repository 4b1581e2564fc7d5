"""Figures in Prometheus' text format (version 0.0.4), in a file that node_exporter's textfile collector reads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw.base.errors import UserError

Sample = tuple[Mapping[str, str], float]
"""Labels and value."""


@dataclass(frozen=True)
class Family:
    """One name: `kind` is gauge or counter."""

    name: str
    kind: str
    help: str
    samples: Sequence[Sample]


def exposition(families: Sequence[Family]) -> str:
    """The text, with label values escaped as the format says."""
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escaped(family.help).replace(chr(34), chr(39))}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for labels, value in family.samples:
            words = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(f"{family.name}{{{words}}} {value:.10g}" if words else f"{family.name} {value:.10g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def write_exposition(path: Path, families: Sequence[Family]) -> None:
    """Replace the file at once, for the user alone; a reader never sees half of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(exposition(families))
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
