"""The crossings as a table for people, and what would be measured."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.analysis.units import format_bytes
from busbw.base.text import columns, sentences
from busbw.experiment.tune.candidates import COLLECTIVES, Asked, candidates, sizes
from busbw.experiment.tune.choose import Crossing
from busbw.experiment.tune.measure import Collected

TYPICAL_TRIAL_S = 6.0
"""Starting four ranks with NCCL and sweeping: a guess for --dry-run, made before anything is measured."""


def crossings_text(collected: Collected, found: Sequence[Crossing], title: str, into_windows: Crossing | None) -> str:
    """A row per range of sizes with the gain over NCCL, then what calls into windows take, then what failed."""
    rows = [
        [format_bytes(min(each.times)), format_bytes(max(each.times)), each.use, *_at_first(each), _gain(each)]
        for each in [*found, *([into_windows] if into_windows else [])]
    ]
    table = columns(["from", "to", "algorithm", "us", "NCCL", "speed"], rows, left=(2,))
    said = [f"{use} was left out: {reason}" for use, reason in collected.out.items()]
    unsure = sorted(size for each in found for size in each.unsure)
    if unsure:
        listed = ", ".join(map(format_bytes, unsure))
        said.append(f"Another may be as good or better at {listed}: more rounds would tell.")
    return "\n".join([f"{collected.collective}, {title}", *(f"  {line}" for line in table), *sentences(said)]) + "\n"


FOOTNOTE = "\n".join(sentences([
    "us and NCCL: microseconds per call at the first size of the range. speed: how many times NCCL's, least and most. "
    "direct/copy: where the output is in a symmetric window (-R 2)."
], bullet="")) + "\n"  # fmt: skip


def _at_first(crossing: Crossing) -> list[str]:
    return [f"{value:.4g}" for value in crossing.times[min(crossing.times)]]


def _gain(crossing: Crossing) -> str:
    low, high = (f"{value:.2f}" for value in crossing.gains)
    return low if low == high else f"{low} - {high}"


def plan_text(asked: Asked, rounds: int, budget_s: float) -> str:
    """What --dry-run shows: candidates and sizes, how many processes are started, about how long that takes."""
    lines = []
    number = 0
    for collective in asked.collectives:
        lines.append(f"{collective} (busbw run --ranks {asked.ranks} {COLLECTIVES[collective]} -d {asked.type}):")
        for each in candidates(asked, collective):
            first, last = sizes(asked, each) or (0, 0)
            lines.append(f"  {each.use:30} {format_bytes(first)} to {format_bytes(last)}")
            number += 1
    least = number * TYPICAL_TRIAL_S
    lines += sentences([
        f"The first round measures {number} candidates, about {least / 60:.0f} min; up to {rounds - 1} more rounds "
        f"measure those that may be the best somewhere. Nothing is begun that would end after {budget_s / 60:g} min."
    ], bullet="")  # fmt: skip
    return "\n".join(lines) + "\n"
