"""The table of algorithms that libbusbw_gpu.so reads: its rules, its text, and where it lies.

The text is described in library/gpu/choose/choice_table.h, which reads the same; tuned-table.txt in its tests is one
that this module wrote.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.files import read_text
from busbw.base.secrets import shortened

FIRST_LINE = "busbw-table 1"
MAX_BYTES = 1 << 20
ANY_GPU = "any"
_RULE = re.compile(
    r"(?P<collective>[a-z_]+)(?: ranks=(?P<ranks>[2-8]))?(?: type=(?P<types>[a-z0-9,]+))?(?: from=(?P<first>\d{1,20}))?"
    r"(?: to=(?P<last>\d{1,20}))?(?: calls=(?P<calls>beside|gradients|windows))? (?P<use>[a-z_/]+(?:@\d+x\d+)?)"
)


@dataclass(frozen=True)
class Rule:
    """Calls of `first` to `last` bytes, both included, are done as `use` says; None, () and "" stand for any."""

    collective: str
    use: str
    ranks: int | None = None
    types: tuple[str, ...] = ()
    first: int = 0
    last: int | None = None
    gpu: str = ANY_GPU
    calls: str = ""

    def __str__(self) -> str:
        words = [self.collective]
        words += [f"ranks={self.ranks}"] if self.ranks is not None else []
        words += [f"type={','.join(self.types)}"] if self.types else []
        words += [f"from={self.first}"] if self.first else []
        words += [f"to={self.last}"] if self.last is not None else []
        words += [f"calls={self.calls}"] if self.calls else []
        return " ".join([*words, self.use])


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the library looks for a table that BUSBW_TABLE does not name."""
    config = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    return Path(config) / "busbw" / "gpu-table.txt"


def table_text(rules: Sequence[Rule], remarks: Iterable[str] = ()) -> str:
    """The rules in their order; a GPU's name stands before those that hold for it."""
    lines = [FIRST_LINE, *(f"# {remark}" for remark in remarks)]
    gpu = ANY_GPU
    for rule in rules:
        if rule.gpu != gpu:
            gpu = rule.gpu
            lines.append(f"gpu {gpu}")
        lines.append(str(rule))
    return "\n".join(lines) + "\n"


def parse_table(text: str, where: str) -> list[Rule]:
    """The rules of a table; UserError names the line that is none."""
    lines = text.split("\n")
    if lines[0] != FIRST_LINE:
        raise UserError(f"{where} is no table of algorithms: its first line is not '{FIRST_LINE}'")
    gpu = ANY_GPU
    rules = []
    for number, line in enumerate(lines[1:], start=2):
        if line.startswith("gpu "):
            gpu = line.removeprefix("gpu ")
        elif line and not line.startswith("#"):
            rules.append(_rule(line, gpu, f"{where}:{number}"))
    return rules


def _rule(line: str, gpu: str, where: str) -> Rule:
    found = _RULE.fullmatch(line)
    if found is None:
        raise UserError(
            f"{where}: {shortened(line, 60)!r} is no rule, such as `all_reduce ranks=4 from=0 to=65536 one_shot/ll`"
        )
    first, last, ranks = (None if found[key] is None else int(found[key]) for key in ("first", "last", "ranks"))
    types = tuple(found["types"].split(",")) if found["types"] else ()
    calls = "beside" if found["calls"] == "gradients" else found["calls"] or ""  # its name before 2026-12
    return Rule(found["collective"], found["use"], ranks, types, first or 0, last, gpu, calls)


def read_table(path: Path) -> list[Rule]:
    """The rules that lie there already; none where there is no file."""
    if not path.exists():
        return []
    return parse_table(read_text(path, MAX_BYTES, what="the table", hint="name another with --output"), str(path))


def merged(old: Sequence[Rule], new: Sequence[Rule]) -> list[Rule]:
    """The new rules, before the old ones that are about something else: another GPU, collective, type or rank count."""
    about = {(rule.gpu, rule.collective, rule.ranks, rule.types, rule.calls) for rule in new}
    kept = [rule for rule in old if (rule.gpu, rule.collective, rule.ranks, rule.types, rule.calls) not in about]
    return [*new, *kept]
