"""A rank that left the training loop by a value of its own, while others went on and wait for it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.program.ended_before import waiting_ranks
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_FAILED = re.compile(r"Watchdog caught")
_RANK = re.compile(r"\brank[ =:]{0,2}(?P<rank>\d{1,6})\b", re.IGNORECASE)
_EPOCH = re.compile(
    r"\b(?:epoch|eval|step|round)[ =:#]{0,3}(?P<n>\d{1,9})\b[^\n]{0,80}?"
    r"\b(?:val\w{0,12}|loss|\w{0,12}loss|ppl|acc\w{0,5}|score|metric|wer|f1)[ =:]{1,3}(?P<value>\d{1,9}\.\d{1,8})\b"
    r"[^\n]{0,60}?\bbest(?: so far)?[ =:(]{1,3}(?P<best>\d{1,9}\.\d{1,8})\b",
    re.IGNORECASE,
)
_LEFT = re.compile(
    r"\b(?:wrote|written|saved|early|stopp(?:ed|ing)|stops|finished|done|patience|no improvement|converged"
    r"|exit\w{0,3})\b",
    re.IGNORECASE,
)
_FAILS = re.compile(r"\b(?:error|fail\w*|exception|traceback|killed)\b", re.IGNORECASE)
_CURE = (
    "let all ranks decide the same. All-reduce the value (loss, score) before it is compared, or let rank 0 decide and "
    "broadcast a stop flag each time. All must then leave the loop in the same epoch. A longer timeout and the network "
    "change nothing"
)


def stops_for_itself(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The last words of the rank that does not wait: no new best of its own for a while, and that it is through."""
    for text in texts:
        failed = _FAILED.search(text.text)
        if failed is None:
            continue
        last: dict[str, tuple[str, int]] = {}
        values: dict[str, tuple[re.Match[str], int]] = {}
        at = 0
        for line in text.text[: failed.start()].split("\n"):
            if (who := _RANK.search(line[:160])) is not None:
                last[who["rank"]] = line, at
                if (said := _EPOCH.search(line)) is not None:
                    values[who["rank"]] = said, at
            at += len(line) + 1
        waiting = waiting_ranks(text, failed.start())
        # Values that are the same on all ranks were shared; then no rank decides alone.
        if len(values) < 2 or len({told["best"] for told, _ in values.values()}) < 2:
            continue
        for rank, (told, place) in values.items():
            line, end = last[rank]
            if rank in waiting or told["value"] == told["best"] or end == place:
                continue
            if _LEFT.search(line) is None or _FAILS.search(line):
                continue
            others = sorted(waiting & values.keys(), key=int)
            if not others:
                continue
            return Sharper(
                f"rank {rank} left the training loop by a value of its own: {named(told['value'])} in "
                f"{named(told[0].partition(' ')[0])} {told['n']} is not better than its best, {told['best']}. "
                f"Rank {', '.join(others[:6])} went on, and waits for it: each rank decides alone when to stop",
                _CURE,
                (text.evidence(place), text.evidence(end)),
            )
    return None
