"""How the timed calls of a case are cut into samples, as the engine cuts them: six, without taking longer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

SAMPLES = 6
"""What an interval of a run by itself needs: docs/decisions/0053-six-samples-and-one-verdict.md."""
SHARE_US = 5000.0
"""A sixth of the calls that lasts so long is a sample that launching and waiting do not make slower."""

Timed = Callable[[int, bool], Sequence[float]]
"""(calls, whether calls warm up before them) -> microseconds per call of every rank."""


def sample(calls: int, batches: int | None, timed: Timed) -> tuple[list[Sequence[float]], float]:
    """The samples, each with a time of every rank, and the time of the case: the mean over the ranks.

    Long cases share their calls among the samples. Of short ones the batch of all calls is alone in the time of the
    case. A number of batches that was asked for is that many whole batches.
    """
    if batches is not None:
        whole = [timed(calls, True) for _ in range(batches)]
        return whole, mean(whole)
    part = max(1, calls // SAMPLES)
    first = timed(part, True)
    # By the rank that waited for nobody; all ranks know all times, so that all decide alike.
    if min(first) * part >= SHARE_US:
        shared = [first, *(timed(part, False) for _ in range(SAMPLES - 1))]
        return shared, mean(shared)
    reported = timed(calls, True)
    return [reported, first, *(timed(part, False) for _ in range(SAMPLES - 2))], mean([reported])


def mean(samples: Sequence[Sequence[float]]) -> float:
    """Over batches and ranks."""
    return sum(map(sum, samples)) / sum(map(len, samples))
