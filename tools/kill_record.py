"""Whether a measurement that was killed kept what it had shown: each case on the screen, in whole lines on disk."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

RECORD = "record.jsonl"  # in a trial's own TMPDIR
_FIELDS_OF_A_SIZE = 5  # size, count, type, redop, root; then four of each of the two ways
_FIELDS_OF_A_WAY = 4
_SIZE = re.compile(r"\s*\d+ +\d+ +[a-z]\w* +[a-z]+ +-?\d+(?:\s|$)")


@dataclass(frozen=True)
class Kept:
    """What a screen and the record behind it hold."""

    shown: int  # cases whose figures are all on the screen
    recorded: int
    ended: bool  # the record says how the run ended
    torn: int  # lines that are no JSON; the last one may be cut by SIGKILL

    @property
    def fault(self) -> str | None:
        """What was lost; None: nothing."""
        if self.shown > self.recorded:
            return f"{self.shown - self.recorded} of {self.shown} cases on the screen are not in the record"
        return f"{self.torn} lines of the record are cut in their middle" if self.torn else None


def kept(output: Path, record: Path) -> Kept:
    """Compare the rows of a table in nccl-tests' form with the lines of a record, which may not exist yet."""
    kinds, torn = [], 0
    lines = record.read_bytes().split(b"\n") if record.exists() else []
    for line in lines[:-1]:  # what stands behind the last newline was being written
        try:
            kinds.append(json.loads(line)["kind"])
        except (ValueError, KeyError, TypeError):
            torn += 1
    return Kept(cases_shown(output.read_text(errors="replace")), kinds.count("case"), "end" in kinds, torn)


def cases_shown(screen: str) -> int:
    """Cases with all four figures; the in-place half of a row comes later, on the same line. N/A: it was given up."""
    shown = 0
    for line in screen.splitlines():
        words = line.split()
        if _SIZE.match(line):
            ways = (words[_FIELDS_OF_A_SIZE:][start : start + _FIELDS_OF_A_WAY] for start in (0, _FIELDS_OF_A_WAY))
            shown += sum(len(way) == _FIELDS_OF_A_WAY and way[0] != "N/A" for way in ways)
    return shown
