"""What a clue makes of a finding, and words of a log as its title may hold them."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.doctor.finding import Evidence


@dataclass(frozen=True, slots=True)
class Sharper:
    """Title and cure that a clue gives a finding, and the lines of the clue."""

    title: str
    fix: str
    evidence: tuple[Evidence, ...] = ()
    fails: bool = False
    """Whether a call failed by it, though NCCL goes on after it in other cases."""
