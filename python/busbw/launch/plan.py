"""A launch as a value: it can be shown, compared in a test, and executed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ProcessPlan:
    """One process to start on this machine."""

    name: str  # as people are told: "rank 2", "mpirun"
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    cpus: frozenset[int] = frozenset()  # empty: wherever the system puts it
    listens: bool = False  # inherits the socket on which the ranks meet


@dataclass(frozen=True)
class LaunchPlan:
    """Every process of a launch. The address and the secret of the meeting are made at start and never shown."""

    processes: tuple[ProcessPlan, ...]
    meets: bool = False  # the executor provides an address and a secret

    def lines(self) -> Iterator[str]:
        """One shell line per process, for people; what only exists at start appears as <...>."""
        for process in self.processes:
            environment = dict(process.environment)
            if self.meets:
                environment |= {"BUSBW_ADDRESS": "<chosen at start>", "BUSBW_SECRET": "<made at start>"}
            if process.listens:
                environment["BUSBW_LISTEN_FD"] = "<inherited>"
            words = [f"{name}={_shown(value)}" for name, value in environment.items()]
            if process.cpus:
                words += ["taskset", "-c", ",".join(map(str, sorted(process.cpus)))]
            yield " ".join([*words, shlex.join(process.argv)])


def _shown(value: str) -> str:
    return value if value.startswith("<") else shlex.quote(value)
