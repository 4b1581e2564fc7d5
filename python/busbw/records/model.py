"""The record of a run as immutable values: one class per line of the JSON schema, attributes named as its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA = 1

Collective = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "alltoallv", "gather", "scatter",
    "sendrecv", "hypercube", "barrier",
]  # fmt: skip
Placement = Literal["out_of_place", "in_place"]
CaseOutcome = Literal["measured", "skipped", "failed", "timed_out"]
EndOutcome = Literal["completed", "failed", "interrupted", "timed_out"]
Average = Literal["rank0", "mean", "min", "max"]
DeviceKind = Literal["gpu", "cpu"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where an imported line was read."""

    file: str
    format: str
    line: int | None = None
    heading: str | None = None
    command: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """What measured: busbw itself, or the tool whose output was imported."""

    name: str
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Lack:
    """A feature that the loaded library does not have, with the reason."""

    feature: str
    reason: str


@dataclass(frozen=True, slots=True)
class Library:
    """The collective library under test."""

    name: str
    path: str | None = None
    version: str | None = None
    version_code: int | None = None
    sha256: str | None = None
    cuda_version: str | None = None
    lacks: tuple[Lack, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """What one rank ran on."""

    kind: DeviceKind
    index: int
    name: str
    bus_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank of the run and its place in the machine."""

    rank: int
    host: str
    group: int | None = None
    process: int | None = None
    thread: int | None = None
    pid: int | None = None
    device: Device | None = None
    cpus: str | None = None  # processors near its GPU that its thread was bound to: 0-15,64


@dataclass(frozen=True, slots=True)
class Interval:
    """Confidence interval of the median of the timed batches."""

    of: Literal["median"]
    level: float
    median_us: float
    low_us: float
    high_us: float
    batches: int
    reached: bool


@dataclass(frozen=True, slots=True)
class ConfSetting:
    """A line of an nccl.conf that sets a variable, or a plugin that does: then `file` is its name in NCCL's messages.

    `in_force`: neither the environment nor an earlier line sets it.
    """

    name: str
    value: str
    file: str
    line: int | None = None
    in_force: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """The first line of a record: who measured what, with which library, where."""

    run: str
    started: str | None
    tool: Tool
    library: Library | None
    ranks: tuple[Rank, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    program: str | None = None
    arguments: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    launcher: str | None = None
    processes: int | None = None
    threads_per_process: int | None = None
    devices_per_thread: int | None = None
    machine: str | None = None
    system: Mapping[str, str] = field(default_factory=dict)
    """The hosts' `kernel`, `driver` and `hardware`, where they are known."""
    conf: tuple[ConfSetting, ...] = ()
    """What the files nccl.conf set on the host of rank 0, in NCCL's order; of a log, what plugins said they set."""
    tags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: Source | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def settings(self) -> dict[str, str]:
        """The variables that acted, by whichever way they were set."""
        return {**{each.name: each.value for each in self.conf if each.in_force}, **self.environment}

    @property
    def files(self) -> dict[str, str]:
        """Of those the ones that came from an nccl.conf, and from which."""
        known = self.settings
        return {each.name: each.file for each in self.conf if each.in_force and known[each.name] == each.value}


@dataclass(frozen=True, slots=True)
class Case:
    """One measured case in one placement. Times are microseconds per call, bandwidths 1e9 bytes per second."""

    run: str
    case: int
    collective: Collective
    bytes: int
    placement: Placement | None
    outcome: CaseOutcome
    time_us: float | None = None
    algbw_GBps: float | None = None
    busbw_GBps: float | None = None
    cycle: int | None = None
    type: str | None = None
    op: str | None = None
    root: int | None = None
    ranks: int | None = None
    requested_bytes: int | None = None
    count: int | None = None
    reason: str | None = None
    cpu_time_us: float | None = None
    range: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    average: Average | None = None
    wrong: float | None = None
    checks: int | None = None
    iterations: int | None = None
    aggregated: int | None = None
    graph_launches: int | None = None
    batches_us: tuple[tuple[float, ...], ...] = ()
    iterations_us: tuple[tuple[float, ...], ...] = ()
    interval: Interval | None = None
    algorithm: str | None = None
    variant: str | None = None
    timestamp: str | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Any] = field(default_factory=dict)
    conversion: str | None = None
    best: bool | None = None
    source: Source | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


def place(case: Case, run: str, index: int, ranks: int | None) -> None:
    """Give a case that nobody else holds yet its place in a run: importers make millions, and copies cost more."""
    object.__setattr__(case, "run", run)
    object.__setattr__(case, "case", index)
    object.__setattr__(case, "ranks", ranks)


@dataclass(frozen=True, slots=True)
class End:
    """The last line of a record: how the run ended."""

    run: str
    outcome: EndOutcome
    cases: int
    finished: str | None = None
    reason: str | None = None
    exit_code: int | None = None
    out_of_bounds: int | None = None
    average_busbw_GBps: float | None = None
    library_sha256: str | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)
    strangers: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


def place_end(end: End, run: str, cases: int) -> None:
    """As `place`, for the end of a run that nobody else holds yet."""
    object.__setattr__(end, "run", run)
    object.__setattr__(end, "cases", cases)


@dataclass(frozen=True, slots=True)
class Record:
    """One run with its cases; `end` is None when the run was cut off. `notes` say what the reader had to leave out."""

    run: Run
    cases: tuple[Case, ...]
    end: End | None = None
    notes: tuple[str, ...] = ()
