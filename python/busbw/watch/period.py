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
_MOST_TRIED = 24
_ENOUGH = 0.8
"""So many calls must be followed by an equal one after a step; what comes every tenth step is none of it."""
_LARGE = 0.01
"""Calls that together have this share of all bytes belong to the step, however rarely they come."""
_COVERED = 0.5
"""So much of the calls from the first repetition to the last one is in them."""
_LEAST = 3
"""So often a step must be there."""
_AGAIN = 3
"""So often a call comes between repetitions that it belongs to them; once or twice is another part of the job."""
_MOST_ALIKE = 64
"""Equal calls that are told apart by the pauses before them alone."""


def find_period(signatures: Sequence[Hashable], sizes: Sequence[int], gaps: Sequence[float]) -> tuple[list[int], int]:
    """Where each step begins, and how many calls it has. `gaps` are the pauses before the calls."""
    numbers: dict[Hashable, int] = {}
    signs = [numbers.setdefault(each, len(numbers)) for each in signatures]
    tail = signs[-_LOOKED_AT:]
    shares = _shares(tail, sizes[-len(tail) :])
    # A short job's first calls are those that set it up.
    glance = min(_GLANCE, 2 * len(tail) // 3)
    glances = [(lag, _followed(tail, lag, glance)) for lag in range(1, min(len(tail) // 3, LONGEST) + 1)]
    best = max((share for _, share in glances), default=0.0)
    if best < 0.5:
        raise UserError("the recordings hold no step that is repeated: their calls come in no order that returns")
    for enough in (_ENOUGH, 0.5):  # of two parts of a job that are as long each returns half of the time
        tried = [lag for lag, share in glances if share >= enough * best][:_MOST_TRIED]
        for length in tried:
            window = _usual(tail, length)
            missed = _missed(tail, window, shares)
            if missed:  # the step is as long as what it lacks is apart
                length_of_missed = _apart(tail, missed)
                window = _usual(tail, length_of_missed)
                missed = _missed(tail, window, shares) if length_of_missed <= len(tail) // 3 else None
            if missed is not None and not missed:
                return _told_apart(signs, tail, gaps, window)
    raise UserError("the recordings hold no step that is repeated with all of its large calls")


def _told_apart(
    signs: Sequence[int], tail: Sequence[int], gaps: Sequence[float], window: tuple[int, ...]
) -> tuple[list[int], int]:
    """The step, or several that only the pauses tell apart."""
    longer = _usual(tail, _by_pauses(tail, gaps[-len(tail) :], len(window)))
    return _starts(signs, gaps, longer if len(_places(tail, longer)) > _LEAST else window)


def _apart(signs: Sequence[int], missed: set[int]) -> int:
    """How many calls lie most often between two of the rarest of these."""
    times = Counter(signs)
    rarest = min(missed, key=lambda sign: (times[sign], sign))
    places = [at for at, sign in enumerate(signs) if sign == rarest]
    return Counter(after - before for before, after in pairwise(places)).most_common(1)[0][0]


def _shares(signs: Sequence[int], sizes: Sequence[int]) -> dict[int, float]:
    """Of each call the share of all bytes that it moves."""
    moved: Counter[int] = Counter()
    for sign, size in zip(signs, sizes, strict=True):
        moved[sign] += size
    whole = max(1, sum(moved.values()))
    return {sign: size / whole for sign, size in moved.items()}


def _missed(signs: Sequence[int], window: tuple[int, ...], shares: dict[int, float]) -> set[int] | None:
    """Calls that come between its repetitions again and again and are large, as gradients are behind microbatches.

    None where it is hardly repeated.
    """
    places = _places(signs, window)
    if len(places) < _LEAST or len(places) * len(window) < _COVERED * (places[-1] + len(window) - places[0]):
        return None
    others = set(shares) - set(window)
    between: Counter[int] = Counter()
    for before, after in pairwise(places):
        between.update(others.intersection(signs[before + len(window) : after]))
    missed = {sign for sign, times in between.items() if times >= _AGAIN}
    return missed if sum(shares[sign] for sign in missed) >= _LARGE else set()


def _places(signs: Sequence[int], window: tuple[int, ...]) -> list[int]:
    """Where it begins, each behind the one before; from the end, as it is steady there."""
    length, at = len(window), len(signs) - len(window)
    found = []
    while at >= 0:
        if signs[at] == window[0] and tuple(signs[at : at + length]) == window:
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
    if len(found) < _LEAST:
        raise UserError("the recordings hold no step that is repeated three times")
    pauses = [median(gaps[start + place] for start in found) for place in range(length)]
    turn = max(range(length), key=pauses.__getitem__)
    turned = [start + turn for start in found]
    return [start for start in turned if start + length <= len(signs)], length
