"""Bars of progress of the ranks: some have ended their epoch in its usual time, and others stand in the midst of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from busbw.doctor.clues.program.ended_before import UNEVEN_CURE, listed, waiting_ranks
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_BAR = re.compile(
    r"^(?P<front>[^\n]{0,120}?\brank\W{0,2}(?P<rank>\d{1,6})\b[^\n\[]{0,160}?)"
    r"\b(?P<number>\d{1,9})(?:/(?P<total>\d{1,9}))? ?(?:batch(?:es)?|it(?:er)?s?|steps?)? ?"
    r"\[(?:(?P<h>\d{1,3}):)?(?P<m>\d{1,2}):(?P<s>\d\d)[,<]",
    re.IGNORECASE | re.MULTILINE,
)
"""As tqdm writes it behind a text with the rank: `Epoch 2, Rank 1: 40it [00:12, 3.30it/s]`."""
_EPOCH = re.compile(r"\bepoch\W{0,3}(?P<n>\d{1,6})\b", re.IGNORECASE)
_MOST, _FEWEST_S, _SHARE = 20_000, 60, 0.5


@dataclass(frozen=True, slots=True)
class _Bar:
    number: int
    total: int
    seconds: int
    at: int


def bars_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks that have ended an epoch with more batches than those have that stand in it."""
    for text in texts:
        epoch, bars = _last(text)
        if len(bars) < 2:
            continue
        longest = max(each.seconds for each in bars.values())
        waiting = waiting_ranks(text, 0)
        stand = {rank: each for rank, each in bars.items() if each.seconds >= _SHARE * longest or rank in waiting}
        ended = {rank: each for rank, each in bars.items() if rank not in stand}
        if longest < _FEWEST_S or not ended or not stand:
            continue
        if not _are_uneven(tuple(ended.values()), tuple(stand.values())):
            continue
        most = max(each.number for each in ended.values())
        places = ", ".join(str(stand[rank].number) for rank in sorted(stand, key=int)[:6])
        has = "had" if len(ended) < 2 else "have"
        stood = f"stands at {places} and waits" if len(stand) < 2 else f"stand at {places} and wait"
        return Sharper(
            f"{listed(ended)} {has} ended {f'epoch {epoch}' if epoch else 'the epoch'} after {most} batches, while "
            f"{listed(stand)} {stood} for them in a collective: ranks do different numbers of steps",
            UNEVEN_CURE,
            tuple(text.evidence(each[min(each, key=int)].at) for each in (ended, stand)),
        )
    return None


def _are_uneven(ended: Sequence[_Bar], stand: Sequence[_Bar]) -> bool:
    """Whether those that ended had other numbers: of one length for all, the last is only slow."""
    totals = {each.total for each in (*ended, *stand)}
    if totals != {0}:
        return len(totals) > 1 and all(each.number == each.total for each in ended)
    return min(each.number for each in ended) > max(each.number for each in stand)


def _last(text: Text) -> tuple[str, Mapping[str, _Bar]]:
    """The newest epoch of which bars tell, and the last bar of each rank in it."""
    newest, bars = "", dict[str, _Bar]()
    for found in islice(_BAR.finditer(text.text), _MOST):
        named = _EPOCH.search(found["front"])
        epoch = named["n"] if named else ""
        if epoch != newest and (not newest or int(epoch or -1) > int(newest)):
            newest, bars = epoch, {}
        if epoch == newest:
            seconds = int(found["h"] or 0) * 3600 + int(found["m"]) * 60 + int(found["s"])
            rank, total = str(int(found["rank"])), int(found["total"] or 0)
            bars[rank] = _Bar(int(found["number"]), total, seconds, found.start("rank"))
    return newest, bars
