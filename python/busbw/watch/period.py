"""Which part of a long order of calls is the step that is repeated: by what is called, else by the pauses between."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise
from statistics import median

from busbw.base.errors import UserError

LONGEST = 8192
"""Calls of a step."""
_LOOKED_AT = 65_536
_GLANCE = 1024
"""So many of the last calls tell which lengths are worth a look."""
_MOST_TRIED = 400
_ENOUGH = 0.8
"""So many calls must be followed by an equal one after a step; what comes every tenth step is none of it."""
_LARGE = 0.01
"""A call with this share of all bytes belongs to the step, however rarely it comes."""
_AGAIN = 3
"""So often a call comes between repetitions that it belongs to them; once or twice is another part of the job."""
_MOST_ALIKE = 64
"""Equal calls that are told apart by the pauses before them alone."""


def find_period(signatures: Sequence[Hashable], sizes: Sequence[int], gaps: Sequence[float]) -> tuple[list[int], int]:
    """Where each step begins, and how many calls it has. `gaps` are the pauses before the calls."""
    numbers: dict[Hashable, int] = {}
    signs = [numbers.setdefault(each, len(numbers)) for each in signatures]
    tail = signs[-_LOOKED_AT:]
    large = _large(tail, sizes[-len(tail) :])
    glances = [(lag, _followed(tail, lag, _GLANCE)) for lag in range(1, min(len(tail) // 3, LONGEST) + 1)]
    best = max((share for _, share in glances), default=0.0)
    if best < 0.5:
        raise UserError("the recordings hold no step that is repeated: their calls come in no order that returns")
    tried = [lag for lag, share in glances if share >= 0.6 * best][:_MOST_TRIED]
    for length in tried:
        if _followed(tail, length, max(4096, 4 * length)) >= _ENOUGH * best and _holds(
            tail, _usual(tail, length), large
        ):
            whole = _by_pauses(tail, gaps[-len(tail) :], length)
            return _starts(signs, gaps, _usual(tail, whole))
    raise UserError("the recordings hold no step that is repeated with all of its large calls")


def _large(signs: Sequence[int], sizes: Sequence[int]) -> set[int]:
    """Calls that carry a share of the bytes."""
    moved: Counter[int] = Counter()
    for sign, size in zip(signs, sizes, strict=True):
        moved[sign] += size
    return {sign for sign, size in moved.items() if size >= _LARGE * sum(sizes)}


def _holds(signs: Sequence[int], window: tuple[int, ...], large: set[int]) -> bool:
    """Whether no large call comes between the repetitions again and again, as gradients do behind microbatches."""
    others = large - set(window)
    between: Counter[int] = Counter()
    for before, after in pairwise(_places(signs, window)):
        between.update(others.intersection(signs[before + len(window) : after]))
    return max(between.values(), default=0) < _AGAIN


def _places(signs: Sequence[int], window: tuple[int, ...]) -> list[int]:
    """Where it begins, each behind the one before; from the end, as it is steady there."""
    length, at = len(window), len(signs) - len(window)
    found = []
    while at >= 0:
        if tuple(signs[at : at + length]) == window:
            found.append(at)
            at -= length
        else:
            at -= 1
    return found[::-1]


def _followed(signs: Sequence[int], lag: int, most: int) -> float:
    """Which part of the last calls is followed by an equal one so many calls later."""
    last = signs[-(most + lag) :]
    same: int = sum(map(operator.eq, last, last[lag:]))
    return same / max(1, len(last) - lag)


def _usual(signs: Sequence[int], length: int) -> tuple[int, ...]:
    """The order of so many calls that comes most often, from the rarest call on that comes in each."""
    last = signs[-max(8 * length, 4096) :]
    times = Counter(last)
    least = min(max(times.values()), len(last) / length / 2)
    begins = min((sign for sign in times if times[sign] >= least), key=lambda sign: (times[sign], sign))
    windows = Counter(
        tuple(last[at : at + length]) for at, sign in enumerate(last[: len(last) - length + 1]) if sign == begins
    )
    return max(windows, key=lambda each: windows[each], default=tuple(last[-length:]))


def _by_pauses(signs: Sequence[int], gaps: Sequence[float], length: int) -> int:
    """A multiple of the length where the pauses return only then, as where all buckets of a step are alike."""
    pauses = [math.log(each + 1.0) for each in gaps][-4096:]
    most = min(_MOST_ALIKE, len(pauses) // (4 * length))
    spreads = {}
    for times in range(1, most + 1):
        classes = [sorted(pauses[at :: times * length]) for at in range(times * length)]
        spreads[times] = sum(abs(each - some[len(some) // 2]) for some in classes for each in some)
    least = min(spreads.values(), default=0.0)
    if not spreads or least > 0.5 * spreads[1]:
        return length
    return length * next(times for times, spread in spreads.items() if spread <= 1.3 * least)


def _starts(signs: Sequence[int], gaps: Sequence[float], window: tuple[int, ...]) -> tuple[list[int], int]:
    """Every place where the step begins: behind its longest pause."""
    length, found = len(window), _places(signs, window)
    if len(found) < 3:
        raise UserError("the recordings hold no step that is repeated three times")
    pauses = [median(gaps[start + place] for start in found) for place in range(length)]
    turn = max(range(length), key=pauses.__getitem__)
    turned = [start + turn for start in found]
    return [start for start in turned if start + length <= len(signs)], length
