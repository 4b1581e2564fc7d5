"""What every stage of one call shares: the machine, the clock, the log, and what was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_library.budget import Deadline
from gpu_library.environment import environment
from gpu_library.machine import Machine
from gpu_library.peers import ACCELERATED
from gpu_library.program import Command, Ended, Log, run, run_all

Result = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """Options of the call."""

    collectives: tuple[str, ...] = ACCELERATED
    smallest: int = 1 << 10
    largest: int = 4 << 30
    rounds: int = 2
    cycles: int = 3
    per_run_limit_s: float = 90.0
    calls: int = 100_000
    seed: int = 1
    starts: int = 5
    sides: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()


@dataclass
class Session:
    machine: Machine
    deadline: Deadline
    log: Log
    base: Mapping[str, str]
    wanted: Wanted = field(default_factory=Wanted)

    def patient(self, limit_s: float) -> Session:
        """The same, for a run that may take longer than others."""
        return replace(self, wanted=replace(self.wanted, per_run_limit_s=limit_s))

    def environment(self, *changes: Mapping[str, str]) -> dict[str, str]:
        merged: dict[str, str] = {}
        for each in changes:
            merged.update(each)
        return environment(self.base, merged)

    def fits(self, kind: str, guess_s: float) -> bool:
        """Whether there is time; says so where there is not."""
        if self.deadline.allows(kind, guess_s):
            return True
        print(f"no time left for {kind}", flush=True)
        return False

    def run(self, label: str, command: Command) -> Ended:
        """One program, bounded, in the log."""
        ended = run(command, self.deadline.limit(self.wanted.per_run_limit_s))
        self.note(label, command, [ended])
        return ended

    def run_ranks(self, label: str, commands: Sequence[Command]) -> list[Ended]:
        """One program per rank, bounded, in the log."""
        ended = run_all(commands, self.deadline.limit(self.wanted.per_run_limit_s))
        self.note(label, commands[0], ended)
        return ended

    def note(self, label: str, command: Command, ended: Sequence[Ended]) -> None:
        for each in ended:
            self.log.add(label if len(ended) == 1 else f"{label}, process {each.process}", command, each)
        worst = next((each for each in ended if each.code != 0), ended[0])
        print(f"{label}: exit {worst.code}, {worst.seconds:.1f} s", flush=True)
        if worst.code != 0:
            print("    " + "\n    ".join(worst.text.strip().splitlines()[-5:]), flush=True)


def in_turn(rounds: int, count: int) -> Iterator[tuple[int, int]]:
    """Number of the round and of the item: forwards, then backwards, so that drift meets all of them alike."""
    for number in range(rounds):
        for position in range(count):
            yield number, position if number % 2 == 0 else count - 1 - position
