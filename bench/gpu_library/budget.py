"""Seconds: of the whole call, of each stage, and whether one more run fits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

WEIGHTS: Mapping[str, float] = {
    "build": 3, "check": 3, "speed": 6, "cross": 1, "sweep": 5, "stress": 3, "training": 1.5, "beside": 4,
    "sanitizer": 1.5, "faults": 1,
}  # fmt: skip
"""How what is left is shared out between the stages still to come."""

_UNKNOWN_S = 8.0


class Deadline:
    """A point in time, and how long runs of each kind have taken before it."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self._longest: dict[str, float] = {}

    def left(self) -> float:
        return self._end - self._clock()

    def allows(self, kind: str, guess: float = _UNKNOWN_S) -> bool:
        """Whether a run of this kind would end in time; `guess` is what it takes where none has run yet."""
        return self.left() > self._longest.get(kind, guess) * 1.1

    def limit(self, most: float) -> float:
        """Seconds that a run may take at most: never so short that it could not even start."""
        return max(1.0, min(most, self.left()))

    def took(self, kind: str, seconds: float) -> None:
        self._longest[kind] = max(seconds, self._longest.get(kind, 0.0))


def share(left: float, remaining: Sequence[str]) -> float:
    """Seconds for the first of the remaining stages: its part by weight. What it does not use goes to the others."""
    return left * WEIGHTS[remaining[0]] / sum(WEIGHTS[name] for name in remaining)
