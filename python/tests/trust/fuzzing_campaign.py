"""Feeds readers of the table of fuzzing.py: one after the other, or pieces of all of them in several processes."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fuzzing import ENTRIES, Entry
from fuzzing_changes import changed

from busbw.base.effort import ALLOWED, EFFORT
from busbw.base.errors import UserError
from busbw.base.sentences import visible

LONGEST_SENTENCE = 1600  # characters, where nothing has to be spelled out
MOST_CPU_S = 5.0
MOST_WALL_S = 60.0  # one that waits for something uses no processor
MOST_MIB = 500  # above what a process of the campaign holds before it reads anything


class TooSlowError(Exception):
    """One input took longer than it may."""


class TooLargeError(Exception):
    """One input took more memory than it may."""


@contextmanager
def armed(wall: float = MOST_WALL_S) -> Iterator[Callable[[float], None]]:
    """Handlers for many inputs: what is yielded starts the limits of the next one, and 0 ends them.

    Processor time has a clock of its own: the readers' own bound (SIGPROF) is lower for most inputs.
    """
    limit = [0.0]

    def over(number: int, _: object) -> None:
        virtual = number == signal.SIGVTALRM
        raise TooSlowError(f"more than {limit[0]:g} s of processor time" if virtual else f"no end within {wall:g} s")

    def start(seconds: float) -> None:
        limit[0] = seconds
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        signal.setitimer(signal.ITIMER_REAL, wall if seconds else 0)

    before = [signal.signal(each, over) for each in (signal.SIGVTALRM, signal.SIGALRM)]
    try:
        yield start
    finally:
        start(0)
        signal.signal(signal.SIGVTALRM, before[0])
        signal.signal(signal.SIGALRM, before[1])


@contextmanager
def limited(seconds: float, wall: float = MOST_WALL_S) -> Iterator[None]:
    """The limits for one piece of work."""
    with armed(wall) as start:
        start(seconds)
        yield


@dataclass
class Outcome:
    """What a campaign over one reader came to."""

    inputs: int = 0
    sentences: int = 0
    slowest: float = 0.0
    spent: float = 0.0
    peak_mib: int = 0
    problems: list[tuple[str, str, bytes]] = field(default_factory=list)
    """Kind ("bounds", "sentence" or "traceback"), what it said, and the input."""

    def add(self, other: Outcome) -> None:
        self.inputs += other.inputs
        self.sentences += other.sentences
        self.spent += other.spent
        self.slowest = max(self.slowest, other.slowest)
        self.peak_mib = max(self.peak_mib, other.peak_mib)
        self.problems += other.problems


class InputError(Exception):
    """An input that ended in something else than a value or a sentence."""

    def __init__(self, name: str, number: int, data: bytes, problem: BaseException) -> None:
        super().__init__(f"{name}: input {number}: {type(problem).__name__}: {str(problem)[:200]}")
        self.name, self.number, self.data, self.problem = name, number, data, problem

    @property
    def kind(self) -> str:
        if isinstance(self.problem, (TooSlowError, TooLargeError, MemoryError)):
            return "bounds"
        return "sentence" if isinstance(self.problem, UserError) else "traceback"


def feed(
    entry: Entry, name: str, number: int, data: bytes, folder: Path, outcome: Outcome, start: Callable[[float], None]
) -> None:
    """One input to one reader, within what `start` limits; InputError where it ends in no value and no sentence."""
    before = time.process_time()
    EFFORT.left = ALLOWED  # as a call of busbw has it
    try:
        try:
            start(MOST_CPU_S)
            entry.read(data, folder)
        finally:
            start(0)
    except UserError as sentence:
        outcome.sentences += 1
        said = str(sentence)
        if "\n" in said or len(said) > LONGEST_SENTENCE or visible(said) != said:
            raise InputError(name, number, data, sentence) from sentence
    except (Exception, SystemExit) as problem:
        raise InputError(name, number, data, problem) from problem
    finally:
        outcome.inputs += 1
        outcome.slowest = max(outcome.slowest, time.process_time() - before)


def campaign(name: str, folder: Path, chance: random.Random, go_on: Callable[[int], bool]) -> Outcome:
    """Feed one reader until `go_on` says no; raises InputError with the input that broke it."""
    entry, outcome = ENTRIES[name], Outcome()
    seeds = entry.seeds(folder)
    with armed() as start:
        while go_on(outcome.inputs):
            data = seeds[outcome.inputs] if outcome.inputs < len(seeds) else changed(chance, seeds)
            feed(entry, name, outcome.inputs, data, folder, outcome, start)
    return outcome


class Worker:
    """One process's part: pieces of a few seconds of any reader. What breaks a reader is kept, and it goes on."""

    MOST_PROBLEMS = 5  # of one piece

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.seeds: dict[str, list[bytes]] = {}
        _forget_peak()
        self.before_mib = _peak_mib()

    def piece(self, name: str, piece: int, seconds: float, at: Callable[[int], None] = lambda _: None) -> Outcome:
        """Piece 0 begins with the seeds as they are; an input depends on reader, seed, piece and its number in it."""
        outcome, began = Outcome(), time.process_time()
        entry, chance, wall = ENTRIES[name], random.Random(f"{name} {self.seed} {piece}"), time.monotonic()
        with tempfile.TemporaryDirectory(prefix="busbw-fuzz-") as made, armed() as start:
            folder = Path(made)
            if name not in self.seeds:
                self.seeds[name] = entry.seeds(folder)
            seeds = self.seeds[name]
            while time.process_time() - began < seconds and time.monotonic() - wall < 4 * seconds:
                number = outcome.inputs
                at(number)
                data = seeds[number] if piece == 0 and number < len(seeds) else changed(chance, seeds)
                try:
                    feed(entry, name, number, data, folder, outcome, start)
                    self._within_memory(name, number, data, outcome)
                except InputError as problem:
                    outcome.problems.append((problem.kind, f"{problem} (piece {piece})", problem.data))
                    if len(outcome.problems) >= self.MOST_PROBLEMS:
                        break
        outcome.spent = time.process_time() - began
        return outcome

    def _within_memory(self, name: str, number: int, data: bytes, outcome: Outcome) -> None:
        peak = _peak_mib() - self.before_mib
        outcome.peak_mib = max(outcome.peak_mib, peak)
        if peak > MOST_MIB:
            _forget_peak()
            self.before_mib = max(self.before_mib, _peak_mib() - MOST_MIB)
            raise InputError(name, number, data, TooLargeError(f"{peak} MiB"))


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _forget_peak() -> None:
    """Else every input after it would be blamed."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
