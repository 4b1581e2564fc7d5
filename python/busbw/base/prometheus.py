"""Figures in Prometheus' text format (version 0.0.4), in a file that node_exporter's textfile collector reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.files import whole

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
    try:
        with whole(path, 0o600) as part:
            part.write_text(exposition(families), encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
