"""A launch as a value: it can be shown, compared in a test, and executed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from busbw.base.secrets import HIDDEN, hide, hide_variable


@dataclass(frozen=True)
class ProcessPlan:
    """One process to start on this machine."""

    name: str  # as people are told: "rank 2", "mpirun"
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    cpus: frozenset[int] = frozenset()  # empty: wherever the system puts it
    listens: bool = False  # inherits the socket on which the ranks meet
    loud: bool = False  # answers a signal with a traceback: busbw.launch.loud ends it


@dataclass(frozen=True)
class FilePlan:
    """A file that is written before anything starts."""

    path: Path
    text: str


@dataclass(frozen=True)
class Submission:
    """A job that is handed to a scheduler, which starts it when and where it likes."""

    scheduler: str  # the module that watches and cancels it: "slurm" or "kubernetes"
    submit: tuple[str, ...]
    output: Path | None = None  # files that the job writes and people want to see
    error: Path | None = None
    name: str = ""
    record: Path | None = None  # where what was measured belongs, if the job does not write there itself
    awaited: Path | None = None  # the record that the job writes itself, on a folder that may show it late
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)  # variables that stand in no file


@dataclass(frozen=True)
class LaunchPlan:
    """Everything a launch starts. The address and the secret of the meeting are made at start and never shown."""

    processes: tuple[ProcessPlan, ...] = ()
    meets: bool = False  # the executor provides an address and a secret
    secret: bool = False  # a secret only: where the ranks meet is known, or the launcher's matter
    scratch: str = ""  # the variable that names a folder for what the launcher writes beside: made and removed by us
    grace: float = 1.5  # seconds between being asked to end and being killed: a launcher has ranks of its own to end
    files: tuple[FilePlan, ...] = ()
    submission: Submission | None = None

    def written(self) -> Iterator[Path]:
        """Every file that comes about by this launch, but the record."""
        yield from (file.path for file in self.files)
        if self.submission:
            yield from (path for path in (self.submission.output, self.submission.error) if path)

    def lines(self) -> Iterator[str]:
        """For people: each file with its text, then a shell line for each process; <...> exists only at start."""
        for file in self.files:
            yield f"# {shlex.quote(str(file.path))}:"
            yield from hide(file.text).splitlines()
            yield ""
        if self.submission:
            yield hide(shlex.join(self.submission.submit))
        for process in self.processes:
            yield self._line(process)

    def _line(self, process: ProcessPlan) -> str:
        environment = dict(process.environment)
        if self.meets:
            environment["BUSBW_ADDRESS"] = "<chosen at start>"
        if self.meets or self.secret:
            environment["BUSBW_SECRET"] = "<made at start>"
        if process.listens:
            environment["BUSBW_LISTEN_FD"] = "<inherited>"
        words = [f"{name}={_shown(name, value)}" for name, value in environment.items()]
        if process.cpus:
            words += ["taskset", "-c", ",".join(map(str, sorted(process.cpus)))]
        return " ".join([*words, hide(shlex.join(process.argv))])


def _shown(name: str, value: str) -> str:
    if value in {"<chosen at start>", "<made at start>", "<inherited>"}:
        return value
    shown = hide_variable(name, value)
    return HIDDEN if shown == HIDDEN else shlex.quote(shown)
