"""What a flight recorder's report says of one rank: it called something else than the others at that number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_CULPRIT = re.compile(
    r"Culprit ranks?:? (?P<rank>\d[\d, ]{0,60})[;,]? [^\n]{0,40}?(?P<kind>[A-Z_]{4,40}_MISMATCH)[^\n]{0,20}?"
    r"Expected (?P<what>[\w ]{3,30}): '?(?P<want>[^'\n]{1,120}?)'? does(?: not|n't) match found [\w ]{3,30}: "
    r"'?(?P<got>[^'\n]{1,120}?)'?\s*$",
    re.MULTILINE,
)
_NUMBER = re.compile(r"Collective sequence number: (?P<n>\d{1,12}) has errors")
_FRAME = re.compile(r"[\"'](?P<call>[\w<>]{1,60} (?:[\w.-]{1,60}/){0,8}[\w.-]{1,60}\.py:\d{1,7})[\"']")
_CLOCK = re.compile(
    r"^[ \t]{0,60}(?:el)?if [^\n]{0,80}"
    r"\b(?:time\.(?:time|monotonic|perf_counter)\(\)|datetime\.now\(\)|perf_counter\(\))"
    r"[^\n]{0,60}[<>][^\n]{0,60}:",
    re.MULTILINE,
)
"""A branch by the rank's own clock."""
_CURE = (
    "let all ranks take the same branches: {clock}call the same collectives in the same order and sizes, outside of "
    "conditions of one rank. Look at what rank {rank} did there{at}. The other ranks' later mismatches follow from it; "
    "no GPU, node or link is at fault"
)
_OF_CLOCK = (
    "decide by the step number, or let rank 0 decide and broadcast it, as each rank's clock passes that limit at "
    "another step. "
)
_BACK = 3000


@dataclass(frozen=True, slots=True)
class _Frames:
    """What the culprit's entry holds of its stack, with its place."""

    said: str
    seen: tuple[Evidence, ...]


def culprit_of_report(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The first mismatch of a report: which rank gave what where the others gave something else."""
    for text in texts:
        found = _CULPRIT.search(text.text)
        if found is None:
            continue
        numbers = list(_NUMBER.finditer(text.text, max(0, found.start() - _BACK), found.start()))
        number = f" as number {numbers[-1]['n']}" if numbers else ""
        rank = found["rank"].strip(" ,")
        frames = _frames(text, rank, numbers[-1]["n"] if numbers else "")
        clock = next(((each, at) for each in texts if (at := _CLOCK.search(each.text))), None)
        by_clock = f"; the script decides by the rank's own clock ({named(clock[1][0], 60)})" if clock else ""
        seen = (text.evidence(found.start()), *frames.seen)
        seen += (clock[0].evidence(clock[1].end() - 1),) if clock else ()
        return Sharper(
            f"rank {rank} calls something else than the others{number}: {found['what']} {named(found['got'], 40)}, "
            f"where the others have {named(found['want'], 40)}"
            f"{f' (at {frames.said})' if frames.said else ''}{by_clock}",
            _CURE.format(clock=_OF_CLOCK if clock else "", rank=rank, at=f" ({frames.said})" if frames.said else "")
            .replace("branches: decide", "branches. Decide")
            .replace("step. call", "step. Call"),
            seen,
        )
    return None


def _frames(text: Text, rank: str, number: str) -> _Frames:
    """The innermost frames of the rank's own entry, where somebody printed it."""
    if not number or not rank.isdecimal():
        return _Frames("", ())
    entry = re.search(
        rf"^[^\n]{{0,20}}\br(?:ank)?[ _]?{rank}\b[^\n]{{0,200}}\b{number}\b"
        rf"[^\n]{{0,400}}?[\"']frames[\"']: \[(?P<all>[^\n]{{1,600}})",
        text.text,
        re.MULTILINE,
    )
    if entry is None:
        return _Frames("", ())
    calls = [each["call"] for each in _FRAME.finditer(entry["all"])][:2]
    return _Frames(named(" in ".join(calls), 70), (text.evidence(entry.start()),))
