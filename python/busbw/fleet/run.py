"""Measures round after round through launchers; what does not start, hangs or dies is a result."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from busbw.base.errors import UserError
from busbw.base.files import writing
from busbw.fleet.fabric import Fabric
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.plan import next_round
from busbw.fleet.results import MOST_LINE, Results, head_line, result_line, unfinished
from busbw.fleet.steps import Step, carry_out
from busbw.fleet.trial import INSIDE, Outcome, Trial
from busbw.fleet.words import Launching, launch, traffic

LEAST_FREE = 64 << 10


@dataclass(frozen=True)
class Limits:
    """What a fleet may cost."""

    seconds: float = 3600.0  # nothing is begun after these
    trial_seconds: float = 180.0
    nodes_at_once: int = 100_000
    steps_at_once: int = 256
    traffic: float = float("inf")  # bytes that nodes send to each other; nothing is begun that would pass it


Measurer = Callable[[Sequence[Trial], Launching, Path, Limits], list[Outcome]]
"""Measures groups at the same time, given the file of results and the limits."""


class Asked(NamedTuple):
    """What is to be known, what is there of it, and who measures where launchers do not."""

    fabric: Fabric
    options: Options
    results: Results
    by: Measurer | None = None


class StoppedError(UserError):
    """Not everything was measured; what was is in the file."""


def measure(asked: Asked, how: Launching, file: Path, limits: Limits, say: Callable[[str], object]) -> Knowledge:
    """All rounds; those that the results have are not measured again. The file has each group when it has ended."""
    fabric, options, results, by = asked
    deadline, sent = time.monotonic() + limits.seconds, 0
    known = Knowledge()
    with writing(file, update=True), file.open("a", encoding="utf-8") as stream:
        alone_with(file, stream)
        _end_torn_line(file)
        if not file.stat().st_size:
            _write(stream, [head_line(fabric, options)])
        while trials := next_round(fabric, known, options):
            number = known.rounds
            if number == len(results.rounds):
                results.rounds.append([])
            done = results.rounds[number]
            waiting: list[Outcome] = []  # what fails before anything was measured may be the launch
            left = list(unfinished(trials, done))
            if left:
                say(f"round {number + 1}: {len(left)} groups of up to {max(len(t.nodes) for t in left)} nodes")
            for wave in waves(left, limits, by_turns=how.by_turns):
                if time.monotonic() >= deadline:
                    raise StoppedError(f"the budget of {limits.seconds:g} s has passed in round {number + 1}; "
                                       f"the same command goes on from {file}", exit_code=124)  # fmt: skip
                sent += sum(traffic(trial, how) for trial in wave)
                if sent > limits.traffic:
                    raise StoppedError(f"the next groups would pass the limit of traffic in round {number + 1}; "
                                       f"the same command goes on from {file}", exit_code=124)  # fmt: skip
                waiting += (by or _measure)(wave, how, file, limits)
                if number or any(each.samples for each in (*done, *waiting)):
                    _write(stream, [result_line(number, outcome) for outcome in waiting])
                    done += waiting
                    waiting = []
            if not number:
                _refuse_failed_launch([*done, *waiting])
            _write(stream, [result_line(number, outcome) for outcome in waiting])
            done += waiting
            known.learn(done)
    return known


def alone_with(path: Path, stream: IO[Any] | int) -> None:
    """Refuse to go on where another busbw measures into this file or folder; it is free again once that has ended.

    What a killed one was just starting holds the file a moment longer.
    """
    for wait in (*[0.05] * 20, 0.0):
        try:
            return fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(wait)
        except OSError:
            return None  # a file system without locks
    raise UserError(f"another busbw measures into {path} now; wait for it, or give another name")


def _end_torn_line(file: Path) -> None:
    """Cut off what a kill or a full disk left of a last line, which was not read: the next would be a part of it."""
    with file.open("rb+") as stream:
        end = stream.seek(0, os.SEEK_END)
        start = max(0, end - MOST_LINE)
        stream.seek(start)
        tail = stream.read()
        if not tail or tail.endswith(b"\n"):
            return
        line = tail[tail.rfind(b"\n") + 1 :]
        try:
            json.loads(line)
        except ValueError:
            stream.truncate(end - len(line))
        else:
            stream.write(b"\n")


def _refuse_failed_launch(outcomes: Sequence[Outcome]) -> None:
    """Several groups that all failed accuse how they were started, not every node."""
    if len(outcomes) > 1 and not any(each.samples for each in outcomes):
        raise UserError(
            f"nothing was measured: all {len(outcomes)} groups failed, the first because {outcomes[0].reason}; "
            "no node is accused and nothing is kept, see to the launch and start again"
        )


def _write(stream: IO[str], lines: Sequence[str]) -> None:
    stream.write("".join(f"{line}\n" for line in lines))
    stream.flush()
    os.fsync(stream.fileno())


def waves(trials: Sequence[Trial], limits: Limits, *, by_turns: bool = False) -> Iterator[list[Trial]]:
    """Trials that run at the same time: one channel inside a node at a time, all rails together, within the limits.

    `by_turns`: no node is in two of them, so that rails are measured one after another.
    """
    for channel in dict.fromkeys(t.channel if t.kind == INSIDE else "" for t in trials):
        wave: list[Trial] = []
        busy: set[str] = set()
        for trial in (t for t in trials if (t.channel if t.kind == INSIDE else "") == channel):
            after = busy | set(trial.nodes)
            full = len(after) > limits.nodes_at_once or len(wave) == limits.steps_at_once
            if wave and (full or (by_turns and busy & set(trial.nodes))):
                yield wave
                wave, after = [], set(trial.nodes)
            wave.append(trial)
            busy = after
        if wave:
            yield wave


def _refuse_full_disk(folder: Path) -> None:
    """Groups that failed beside a full disk could not write what they measured: no node is to blame."""
    with suppress(OSError):
        free = os.statvfs(folder)
        if free.f_bavail * free.f_frsize < LEAST_FREE or (free.f_files and not free.f_favail):
            raise StoppedError(f"{folder} is full, so that groups failed; make room there, and the same command "
                               "goes on")  # fmt: skip


def _measure(wave: Sequence[Trial], how: Launching, file: Path, limits: Limits) -> list[Outcome]:
    folder = file.with_name(file.name + ".work")
    folder.mkdir(exist_ok=True)
    outputs = [folder / f"{number}.out" for number in range(len(wave))]
    steps = [Step(trial, launch(trial, how, output), output) for trial, output in zip(wave, outputs, strict=True)]
    outcomes = carry_out(steps, how, limits.trial_seconds)
    with suppress(OSError):
        folder.rmdir()
    if any(not each.samples for each in outcomes):
        _refuse_full_disk(file.absolute().parent)
    return outcomes
