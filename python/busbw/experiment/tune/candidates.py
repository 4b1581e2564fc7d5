"""What is measured against NCCL: each kernel with the shape that it takes by itself and with some that are forced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.base.errors import UsageError
from busbw.experiment.factors import Factor, Level
from busbw.experiment.plan import Limits, Plan

NOISE = 0.03
"""Single runs of the same thing on four H200 differ by up to this: what is no closer to the best is no better rule."""

TRIAL_S = 120.0
NCCL = "nccl"
COPY = "direct/copy"
"""By copy engines, for calls whose output is in a symmetric window: measured with -R 2, and a rule of its own."""
KIB, MIB = 1 << 10, 1 << 20

COLLECTIVES: Mapping[str, str] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "alltoall",
    "broadcast": "broadcast",
}
"""As the library's table names them, and as the engine does."""

REDUCING = frozenset({"all_reduce", "reduce_scatter"})
ALIKE = ("half", "bfloat16", "float")
"""Types that a kernel treats alike: it moves the same packs and adds in fp32. What holds for one is kept for all."""


@dataclass(frozen=True)
class Candidate:
    """A way to do a collective, as BUSBW_ALGORITHM takes it, and the sizes in bytes at which it is worth a look."""

    use: str
    first: int = 0
    last: int = 1 << 62
    words: tuple[str, ...] = ()  # for the engine


def _with_shapes(kernel: str, shapes: str, first: int = 0, last: int = 1 << 62) -> tuple[Candidate, ...]:
    """The kernel's own shape first: it is the simplest rule, and holds between the sizes that are measured."""
    return tuple(Candidate(use, first, last) for use in (kernel, *(f"{kernel}@{shape}" for shape in shapes.split())))


_COPY = Candidate(COPY, first=MIB, words=("-R", "2"))
_DIRECT = (
    *_with_shapes("direct/ll", "8x128 32x128 64x256", last=4 * MIB),
    *_with_shapes("direct/sentinel", "32x256 64x256 128x512", first=64 * KIB, last=16 * MIB),
    *_with_shapes("direct/simple", "32x512 64x512 128x512", first=16 * KIB),
)
_KERNELS: Mapping[str, tuple[Candidate, ...]] = {
    "all_reduce": (
        *_with_shapes("one_shot/ll", "8x128 16x128 32x128 64x128 32x256", last=MIB),
        *_with_shapes("two_shot/ll", "16x512 32x512 64x512", first=8 * KIB, last=4 * MIB),
        *_with_shapes("two_shot/sentinel", "16x512 32x512 64x512 128x512", first=8 * KIB, last=16 * MIB),
        *_with_shapes("two_shot/simple", "32x512 64x512 128x512", first=64 * KIB),
    ),
    "all_gather": (*_DIRECT, _COPY),
    "reduce_scatter": _DIRECT,
    "all_to_all": (*_DIRECT, _COPY),
    "broadcast": (
        *_with_shapes("direct/ll", "8x128 32x128 64x256", last=MIB),
        *_with_shapes("direct/sentinel", "32x256 64x256 128x512", first=64 * KIB, last=8 * MIB),
        *_with_shapes("scatter_forward/simple", "32x512 64x512 128x512", first=16 * KIB),
        _COPY,
    ),
}


@dataclass(frozen=True)
class Asked:
    """What a person wants tuned: sizes in bytes from `first` to `last`, doubling."""

    collectives: tuple[str, ...]
    ranks: int
    first: int = KIB
    last: int = 256 * MIB
    type: str = "float"
    library: str = "busbw"
    seed: int = 1


def sizes(asked: Asked, candidate: Candidate) -> tuple[int, int] | None:
    """The first and last size of one candidate, from the doubling series; None where it has none."""
    series = [asked.first]
    while series[-1] * 2 <= asked.last:
        series.append(series[-1] * 2)
    wanted = [size for size in series if candidate.first <= size <= candidate.last]
    return (wanted[0], wanted[-1]) if wanted else None


def candidates(asked: Asked, collective: str) -> list[Candidate]:
    """NCCL, then what there is for the collective at these sizes, simplest first."""
    found = (Candidate(NCCL), *_KERNELS[collective])
    return [each for each in found if sizes(asked, each) is not None]


def plan_of(asked: Asked, collective: str) -> Plan:
    """The candidates of one collective as variants of an experiment: times of replayed graphs, results checked."""
    levels = []
    for each in candidates(asked, collective):
        first, last = sizes(asked, each) or (0, 0)
        # The table that an earlier tuning wrote must not answer for this one.
        environment = {"BUSBW_ALGORITHM": each.use, "BUSBW_TABLE": "/dev/null"}
        levels.append(Level(each.use, environment, asked.library, ("-b", str(first), "-e", str(last), *each.words)))
    words = (COLLECTIVES[collective], "-f", "2", "-d", asked.type, "-w", "5", "-n", "20", "-G", "20", "-c", "1")
    limits = Limits(margin=NOISE, trial_seconds=TRIAL_S)
    return Plan((Factor("algorithm", tuple(levels)),), words, asked.ranks, seed=asked.seed, limits=limits)


def types_of(asked: Asked, collective: str) -> tuple[str, ...]:
    """The types that a rule from this tuning holds for; () is any."""
    if collective not in REDUCING:
        return ()
    return ALIKE if asked.type in ALIKE else (asked.type,)


def collectives_of(names: Sequence[str]) -> tuple[str, ...]:
    """All five, or those named, by either spelling."""
    spelt = {name: ours for ours, engine in COLLECTIVES.items() for name in (ours, engine)}
    wrong = next((name for name in names if name not in spelt), None)
    if wrong is not None:
        raise UsageError(f"'{wrong}' has no kernels of ours; there are {', '.join(COLLECTIVES)}")
    return tuple(dict.fromkeys(spelt[name] for name in names)) or tuple(COLLECTIVES)
