"""A clue of ranks that wait in neighbouring collectives of one group: all are alive, and call what does not fit."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_TITLE = re.compile(
    r"(?P<head>.{0,300}?): rank [\d, ]{1,80} lags: it waits in collective number (?P<low>\d{1,12}), "
    r"others number (?P<high>\d{1,12})$"
)
_WAITS = re.compile(
    r"(?:\[rank(?P<who>\d{1,7})\][^\n]{0,90}?)?\[(?:PG [^\]\n]{1,90} )?Rank (?P<rank>\d{1,7})\][^\n]{0,200}?"
    r"WorkNCCL\(SeqNum=(?P<seq>\d{1,12}), OpType=(?P<op>\w{1,40})(?:, NumelIn=(?P<size>\d{1,18}))?"
)
_OF_ALL = re.compile(r"_?(?:ALLREDUCE|ALLGATHER|REDUCE_SCATTER|ALLTOALL|BARRIER)\w{0,20}")
"""Calls that end on no rank before all ranks have come: a root or a sender of others may be far ahead."""
_NAMED = re.compile(r"\[PG (?:ID )?\d")
_MOST, _NEAR, _SHOWN = 4000, 2, 4


@dataclass(slots=True)
class _Place:
    """A collective by its number: the call, its elements, the ranks that wait in it."""

    op: str
    size: str
    text: Text
    at: int
    ranks: set[int] = field(default_factory=set)


def out_of_step(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Those in front have the collective behind them in which the others wait, though no rank can end it alone."""
    title = _TITLE.match(finding.title)
    if title is None:
        return None
    low, high = int(title["low"]), int(title["high"])
    places = _places(texts)
    behind, front = places.get(low), places.get(high)
    if behind is None or front is None or not _OF_ALL.fullmatch(behind.op) or behind.ranks & front.ranks:
        return None
    if (behind.op, behind.size) == (front.op, front.size):
        return None  # one call of many alike is missing: who lags is all that is known
    # Old logs name no group, and numbers of two groups may stand side by side.
    if high - low > _NEAR and not any(_NAMED.search(text.text) for text in texts):
        return None
    return Sharper(
        f"{title['head']}: ranks are out of step, and each waits in a call of its own: {_said(low, behind)}, "
        f"{_said(high, front)} with number {low} behind it",
        f"find what rank {_ranks(front)} calls that rank {_ranks(behind)} does not, or the other way round. It may be "
        "a branch by data, an empty or shorter batch, a log, a metric, a save or an evaluation. "
        "TORCH_DISTRIBUTED_DEBUG=DETAIL names the call that differs; TORCH_NCCL_TRACE_BUFFER_SIZE=2000 (flight "
        "recorder) keeps what each rank called. These ranks live, and a longer time changes "
        f"nothing. Where all call the same, look at the GPU and the links of rank {_ranks(behind)}",
        (behind.text.evidence(behind.at), front.text.evidence(front.at)),
    )


def _places(texts: Sequence[Text]) -> dict[int, _Place]:
    """The collectives in which ranks wait."""
    found: dict[int, _Place] = {}
    calls: defaultdict[int, set[tuple[str, str]]] = defaultdict(set)
    for text in texts:
        for each in islice(_WAITS.finditer(text.text), _MOST):
            number, size = int(each["seq"]), each["size"] or ""
            place = found.setdefault(number, _Place(each["op"], size, text, each.start("rank")))
            place.ranks.add(int(each["who"] or each["rank"]))
            calls[number].add((each["op"], size))
    # Of one number all ranks call the same, or it is of several groups.
    return {number: place for number, place in found.items() if len(calls[number]) == 1}


def _said(number: int, place: _Place) -> str:
    elements = f" of {place.size} elements" if place.size else ""
    if place.size == "1":
        elements = " of one element, such as a loss, a flag or a count"
    return f"rank {_ranks(place)} in number {number} ({place.op}{elements})"


def _ranks(place: _Place) -> str:
    return ", ".join(map(str, sorted(place.ranks)[:_SHOWN])) + (" ..." if len(place.ranks) > _SHOWN else "")
