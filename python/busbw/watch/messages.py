"""Messages between two ranks that a process has called lately, and where they stand among its collectives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from busbw.watch.recording import COLLECTIVES, KINDS, Shape, shape_of

SEND, RECV = KINDS.index("send"), KINDS.index("recv")
_COLLECTIVES = frozenset(KINDS.index(kind) for kind in COLLECTIVES)
_GAPS, _ALIKE, _TIMES = 256, 32, 2
"""So many distances are looked at, so many have to be alike at most, and so often the next one."""
MOST_MARKS = 32
"""Collectives of a communicator by which the calls of two processes are laid side by side."""
_CAPTURED = 1 << 13
Called = tuple[int, Shape]
"""The number of a call in its process, and what it was."""


@dataclass(frozen=True)
class Messages:
    """Of one process; by the communicator's place and the peer, in their order."""

    is_whole: bool = False
    """From the process's first call on."""
    sent: Mapping[tuple[int, int], tuple[Called, ...]] = field(default_factory=dict)
    received: Mapping[tuple[int, int], tuple[Called, ...]] = field(default_factory=dict)
    marks: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Of each place, of some collectives their numbers and those of the calls. Other processes have the same ones."""
    newest: int = 0
    """The number of the newest call, whatever it is."""


NONE = Messages()


def messages_of(calls: Iterable[tuple[int, tuple[int, ...]]], first: int) -> Messages:
    """From a process's newest calls as they are recorded, which were read from number `first` on; NONE without any."""
    sent: dict[tuple[int, int], list[Called]] = defaultdict(list)
    received: dict[tuple[int, int], list[Called]] = defaultdict(list)
    collectives: dict[int, dict[int, int]] = defaultdict(dict)
    oldest = number = 0
    for number, (_, sequence, what, _, how) in calls:
        oldest = oldest or number
        kind = how & 0x1F
        if kind in _COLLECTIVES:
            collectives[what >> 48][sequence] = number
        elif kind in {SEND, RECV} and not how & _CAPTURED:
            shape = shape_of(what, how)
            if shape.root is not None:
                (sent if kind == SEND else received)[what >> 48, shape.root].append((number, shape))
    if not sent and not received:
        return NONE
    return Messages(
        oldest <= 1 and first <= 1,
        {key: tuple(found) for key, found in sent.items()},
        {key: tuple(found) for key, found in received.items()},
        {place: _some(found) for place, found in collectives.items()},
        number,
    )


def has_passed(called: Sequence[Called], newest: int) -> bool | None:
    """Whether a rank has gone on past where it usually calls the next message to a peer; None where that is not known.

    Usual is what came after the same distances between such calls before, counted in its own calls.
    """
    if not newest:
        return None
    gaps = [after - before for (before, _), (after, _) in pairwise(called)][-_GAPS:]
    for length in range(min(_ALIKE, len(gaps) - _TIMES), 0, -1):
        then = gaps[len(gaps) - length :]
        usual = [gaps[at] for at in range(length, len(gaps)) if gaps[at - length : at] == then]
        if len(usual) >= _TIMES and min(usual) == max(usual):
            return newest >= called[-1][0] + usual[0]
    return None


def _some(numbers: Mapping[int, int]) -> dict[int, int]:
    """Multiples of a power of two, so that processes with other newest calls keep the same ones."""
    stride = 1
    while len(numbers) > MOST_MARKS * stride:
        stride *= 2
    return {number: call for number, call in numbers.items() if number % stride == 0}


def side_by_side(
    one: Messages, other: Messages, places: Mapping[int, int], sends: tuple[int, int], receives: tuple[int, int]
) -> tuple[tuple[Called, ...], tuple[Called, ...]] | None:
    """What `one` sent and `other` received from the same moment on: the start, or a collective of both.

    `places` are those of `one` and `other` of the same communicators, `sends` and `receives` place and peer. None where
    no such moment is known.
    """
    sent, received = one.sent.get(sends, ()), other.received.get(receives, ())
    if one.is_whole and other.is_whole:
        return sent, received
    # Where most is called is what the messages belong to.
    for place in sorted(places, key=lambda each: -len(one.marks.get(each, ()))):
        mine, theirs = one.marks.get(place, {}), other.marks.get(places[place], {})
        if common := mine.keys() & theirs.keys():
            first = min(common)
            return (
                tuple(each for each in sent if each[0] > mine[first]),
                tuple(each for each in received if each[0] > theirs[first]),
            )
    return None
