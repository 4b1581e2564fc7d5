"""A data loader that gave up waiting: which of its workers began to read a file and never came back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text, named

_GAVE_UP = re.compile(r"DataLoader timed out after \d{1,6} seconds")
_WORKER = re.compile(
    r"(?:\brank\W{0,2}(?P<rank>\d{1,6})\b[^\n]{0,12}?)?\b(?:data ?loader[ _-]?)?worker\W{0,2}(?P<worker>\d{1,4})\b",
    re.IGNORECASE,
)
_BEGINS = re.compile(
    r"\b(?:open(?:s|ing)?|read(?:s|ing)?|load(?:s|ing)?|fetch(?:es|ing)?|download(?:s|ing)?|decod(?:e|es|ing)|start"
    r"(?:s|ing)?)\b(?! (?:done|took|finished))[^\n]{0,60}?(?P<file>[\w./:@=-]{0,200}[\w-]\.[A-Za-z]\w{0,8}\b)",
    re.IGNORECASE,
)
_DONE = re.compile(r"\b(?:done|finished|closed|took|loaded|opened|ok|\d+(?:\.\d+)? ?m?s)\b", re.IGNORECASE)
_RANK = re.compile(r"\brank (?P<rank>\d{1,6})'s own program")
_MOST = 20_000
_CURE = (
    "look at that file and what it lies on, from that host: ls -l (a regular file?), a read by dd under timeout, df, "
    "mount, processes in state D. Repair the file or leave it out, mend the storage. A longer timeout, more workers "
    "and /dev/shm do not mend it; the other ranks only waited"
)


@dataclass(frozen=True, slots=True)
class _Last:
    file: str
    at: int


def hangs_in_file(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The last line of one worker begins to read a file, and those of the others tell that they are through."""
    said = next((found for text in texts if (found := _GAVE_UP.search(text.text))), None)
    if said is None or not any(_GAVE_UP.search(seen.fact) for seen in finding.evidence):
        return None
    named_rank = _RANK.search(finding.title)
    for text in texts:
        gave_up = _GAVE_UP.search(text.text)
        last = _last(text, gave_up.start() if gave_up else len(text.text))
        hung = {who: each for who, each in last.items() if each is not None}
        mine = {who: each for who, each in hung.items() if named_rank is None or who[0] in ("", named_rank["rank"])}
        # Where all workers were at a file, lines tell of nobody who came back.
        if len(mine) != 1 or len(hung) == len(last):
            continue
        (who, each) = next(iter(mine.items()))
        whose = f"worker {who[1]} of rank {who[0]}'s data loader" if who[0] else f"worker {who[1]} of a data loader"
        return Sharper(
            f"{whose} hangs in {named(each.file, 80)}: it began to read that file and never came back, so that the "
            "loader gave up waiting. Workers that read other files came back",
            _CURE,
            (text.evidence(each.at),),
        )
    return None


def _last(text: Text, until: int) -> dict[tuple[str, str], _Last | None]:
    """By rank and worker, the file that its last line begins to read; None where it tells of something else."""
    found: dict[tuple[str, str], _Last | None] = {}
    place = 0
    for line in islice(text.text[:until].split("\n"), _MOST):
        at, place = place, place + len(line) + 1
        if (worker := _WORKER.search(line[:200])) is None:
            continue
        begins = _BEGINS.search(line, worker.end())
        through = begins is None or _DONE.search(line, begins.end()) is not None
        who = (worker["rank"] or rank_of(line), worker["worker"])
        found[who] = None if begins is None or through else _Last(begins["file"], at)
    return found
