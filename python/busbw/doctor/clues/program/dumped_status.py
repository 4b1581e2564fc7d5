"""Dumps of PyTorch's flight recorder within a log, one a line: the rank whose last collective is an earlier one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_DUMP = re.compile(
    # What the watchdog says of a process group is of that group's ranks, and read elsewhere.
    r"^(?!.{0,400}\bPG status:).{0,80}?(?:trace_(?:rank_)?|\"rank\": ?\"?|\brank ?)(?P<rank>\d{1,6})\b.{0,600}?"
    r"\blast[_ ]enqueued(?:[_ ](?:collective|work))?\"?[:=]? ?(?P<last>\d{1,12})\b",
    re.MULTILINE,
)
_MOST = 20_000
_CURE = (
    "take the stack of that rank while it stands (py-spy dump --pid PID, and of its loader workers): it never called "
    "that collective. It reads data, saves, evaluates, compiles or waits for a lock. A longer time does not help, and "
    "the network has no part in it"
)


def lagging(texts: Sequence[Text]) -> tuple[str, int, int, Evidence] | None:
    """The one rank that enqueued less than all others, its last number, theirs at least, and the line."""
    last: dict[str, tuple[int, Text, int]] = {}
    for text in texts:
        for found in islice(_DUMP.finditer(text.text), _MOST):
            last.setdefault(found["rank"], (int(found["last"]), text, found.start()))
    if len(last) < 2:
        return None
    rank = min(last, key=lambda each: last[each][0])
    others = min(number for each, (number, _, _) in last.items() if each != rank)
    number, text, at = last[rank]
    return (rank, number, others, text.evidence(at)) if number < others else None


def lags_by_dumps(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The dumps tell who lags, where the watchdog's own words do not."""
    told = lagging(texts)
    if told is None:
        return None
    rank, number, others, seen = told
    return Sharper(
        f"rank {rank} lags: the last collective that it enqueued is {number}, and {others} on those who wait for it",
        _CURE,
        (seen,),
    )
