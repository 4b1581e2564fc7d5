"""A figure with the range in which well-run machines fall."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """`value` is what to expect; `low` and `high` enclose what well-run machines reach (about 95 of 100)."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"{self.value} lies outside its own range {self.low} to {self.high}")

    def __mul__(self, factor: float | Span) -> Span:
        if isinstance(factor, Span):
            return Span(self.value * factor.value, self.low * factor.low, self.high * factor.high)
        return Span(self.value * factor, self.low * factor, self.high * factor)

    @classmethod
    def exactly(cls, value: float) -> Span:
        """A figure that is known."""
        return cls(value, value, value)


def least(spans: Iterable[Span]) -> Span:
    """What limits: the least value, the least of the lows and of the highs."""
    every = list(spans)
    return Span(min(s.value for s in every), min(s.low for s in every), min(s.high for s in every))
