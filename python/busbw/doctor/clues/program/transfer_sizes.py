"""Stages that send and receive tensors of different size, so that the receiver waits for the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text, named

_WORK = re.compile(
    r"^[^\n]{0,200}?Watchdog caught[^\n]{0,120}?OpType=(?P<op>SEND|RECV), NumelIn=(?P<in>\d{1,15}), "
    r"NumelOut=(?P<out>\d{1,15})",
    re.MULTILINE,
)
_SHAPE = re.compile(r"(?:torch\.Size\()?[(\[]{1,2}(?P<shape>\d{1,8}(?:, ?\d{1,8}){1,6}),?[)\]]{1,2}")
_MOST = 20_000
_CURE = (
    "give each transfer one size on both sides: drop_last=True in the loader of the first stage, or pad the last batch "
    "and mask what was added. Where sizes change, send the shape first and make the buffer of it. More time, the order "
    "of sends and receives, and the network change nothing"
)


@dataclass(frozen=True, slots=True)
class _Waits:
    op: str
    elements: int
    seen: Evidence


def unequal_transfers(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Two ranks wait for each other in a transfer, and in different sizes."""
    for text in texts:
        ranks, first = _waiting(text)
        if len(ranks) != 2:
            continue
        (one, a), (other, b) = sorted(ranks.items(), key=lambda each: each[1].elements)
        if a.elements == b.elements:
            continue
        small, large = (_shape(text, size, first) for size in (a.elements, b.elements))
        seen = tuple(each for each in (a.seen, b.seen, *(found[1] for found in (small, large) if found)))
        if a.op != b.op:
            sends, receives = (one, other) if a.op == "SEND" else (other, one)
            return Sharper(
                f"rank {sends} sends {ranks[sends].elements} elements, and rank {receives} receives "
                f"{ranks[receives].elements}: both sides of a transfer must have one size",
                _CURE, seen,
            )  # fmt: skip
        if small is not None and large is not None:
            return Sharper(
                f"a tensor was sent in another size than it is received: {small[0]} was sent and {large[0]} is "
                f"received (the watchdog's {a.elements} and {b.elements} elements). Rank {other} waits for the rest, "
                f"and rank {one} for the answer: a last batch that is shorter, as a rule",
                _CURE, seen,
            )  # fmt: skip
        return Sharper(
            f"{finding.title}. They wait in different sizes (rank {one} for {a.elements} elements, rank {other} for "
            f"{b.elements}): what was sent before may have had another size than its receiver's buffer",
            f"print the shapes of what each stage sends and receives, first those of the last batch. Then: {_CURE}. "
            f"Where sizes agree: {finding.fix}",
            seen,
        )
    return None


def _waiting(text: Text) -> tuple[Mapping[str, _Waits], int]:
    """By rank, the transfer in which it waits, and where the first of the watchdogs speaks."""
    found: dict[str, _Waits] = {}
    first = len(text.text)
    for each in islice(_WORK.finditer(text.text), _MOST):
        first = min(first, each.start())
        if rank := rank_of(each[0]):
            size = int(each["in"] if each["op"] == "SEND" else each["out"])
            found.setdefault(rank, _Waits(each["op"], size, text.evidence(each.start())))
    return found, first


def _shape(text: Text, elements: int, until: int) -> tuple[str, Evidence] | None:
    """The last shape of so many elements that the program printed before."""
    last = None
    for each in islice(_SHAPE.finditer(text.text, 0, until), _MOST):
        if prod(int(size) for size in each["shape"].replace(" ", "").split(",")) == elements:
            last = each
    return None if last is None else (f"({named(last['shape'])})", text.evidence(last.start()))
