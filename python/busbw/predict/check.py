"""Predicted against measured: every published figure of the catalogue for which there is a machine type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from busbw import catalogue
from busbw.expected import machines
from busbw.expected.fabric import Fabric
from busbw.predict.calibrate import calibrate, sweep_of
from busbw.predict.model import Prediction, Question, predict
from busbw.predict.terms import Terms, general
from busbw.records import Case

LARGE_BYTES = 64 << 20


class Role(Enum):
    """What agreement with an entry proves."""

    FORECAST = "forecast"
    REPEAT = "repeat"
    SHARE = "share"
    FIT = "fit"


@dataclass(frozen=True)
class Entry:
    """A catalogue entry, the machine it was measured on, and where the terms for it come from."""

    name: str
    machine: str
    gpus: int
    nodes: int = 1
    calibrated_on: str = ""
    role: Role = Role.FORECAST
    channels: int | None = None
    note: str = ""


ENTRIES: tuple[Entry, ...] = (
    Entry("ndv4-2node", "ndv4", 8, 2, calibrated_on="ndv4-1node"),
    Entry("nc96v4-graph-file", "nc96v4", 4, role=Role.REPEAT, note="its graph file changes nothing"),
    Entry("v100-2gpu-mpi", "nc12v3", 2, role=Role.REPEAT),
    Entry("nc48v4-graph-file", "nc48v4", 2, role=Role.SHARE, channels=4, note="4 channels, as its graph file has"),
    Entry("ndmv4-1x8-nccl", "ndmv4", 8, role=Role.SHARE),
    Entry("ndmv4-2x1-nccl", "ndmv4", 1, 2, role=Role.SHARE, note="one GPU a node"),
    Entry("ndmv4-2x8-nccl", "ndmv4", 8, 2, role=Role.FIT, note="its 1 KiB gave the hop between nodes"),
    Entry("nc48v4-no-graph-file", "nc48v4", 2, role=Role.FIT),
    Entry("nc96v4-no-graph-file", "nc96v4", 4, role=Role.FIT),
    Entry("v100-2gpu", "nc12v3", 2, role=Role.FIT),
    Entry("ndv4-1node", "ndv4", 8, role=Role.FIT),
)


@dataclass(frozen=True)
class Compared:
    """One measured figure (the mean of its placements) beside its prediction."""

    collective: str
    bytes: int
    measured_us: float
    prediction: Prediction

    @property
    def deviation(self) -> float:
        """Predicted time over measured, less one: 0.1 is predicted 10 % too slow."""
        return self.prediction.time_us.value / self.measured_us - 1

    @property
    def inside(self) -> bool:
        return self.prediction.time_us.low <= self.measured_us <= self.prediction.time_us.high


def entry_terms(entry: Entry) -> tuple[Fabric, Terms]:
    """The fabric and the terms with which an entry is predicted."""
    fabric = replace(machines.require(entry.machine), channels=entry.channels)
    terms = general(fabric.sm)
    if entry.calibrated_on:
        sweep = sweep_of(catalogue.load(entry.calibrated_on)[0], f"catalogue:{entry.calibrated_on}")
        terms = calibrate(sweep, fabric, terms)
    return fabric, terms


def compare(entry: Entry) -> list[Compared]:
    """Every figure of the entry beside its prediction, by collective and size."""
    fabric, terms = entry_terms(entry)
    (record,) = catalogue.load(entry.name)
    found = []
    for (collective, size), times in sorted(_times(record.cases).items()):
        question = Question(collective, size, entry.gpus, entry.nodes)  # type: ignore[arg-type]
        found.append(Compared(collective, size, sum(times) / len(times), predict(question, fabric, terms)))
    return found


def _times(cases: Sequence[Case]) -> dict[tuple[str, int], list[float]]:
    by: dict[tuple[str, int], list[float]] = {}
    for case in cases:
        if case.time_us and case.variant is None:
            by.setdefault((case.collective, case.bytes), []).append(case.time_us)
    return by


def worst(compared: Sequence[Compared], least_bytes: int = 0) -> float:
    """The largest deviation, either way, from that size on; 0 where nothing is that large."""
    return max((abs(each.deviation) for each in compared if each.bytes >= least_bytes), default=0.0)


def all_entries() -> Iterator[tuple[Entry, list[Compared]]]:
    """Every entry with its figures."""
    for entry in ENTRIES:
        yield entry, compare(entry)
