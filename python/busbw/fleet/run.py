"""Measures round after round through launchers; what does not start, hangs or dies is a result."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, NamedTuple

from busbw.base.errors import UserError
from busbw.base.files import read_text, writing
from busbw.base.secrets import hide
from busbw.base.text import clean
from busbw.fleet.fabric import Fabric
from busbw.fleet.options import Options
from busbw.fleet.plan import next_round
from busbw.fleet.results import MOST_SAMPLES, Results, head_line, result_line, unfinished
from busbw.fleet.trial import INSIDE, Knowledge, Outcome, Trial
from busbw.fleet.words import Launching, launch, traffic
from busbw.launch.execute import prepare
from busbw.launch.supervise import Child, Patience, Process, Rules, Supervisor
from busbw.records import read_records

MOST_LOG = 64 << 10  # of which the last line is told


@dataclass(frozen=True)
class Limits:
    """What a fleet may cost."""

    seconds: float = 3600.0  # nothing is begun after these
    trial_seconds: float = 180.0
    nodes_at_once: int = 100_000
    steps_at_once: int = 256
    traffic: float = float("inf")  # bytes that nodes send to each other; nothing is begun that would pass it


class Asked(NamedTuple):
    """What is to be known, and what is there of it."""

    fabric: Fabric
    options: Options
    results: Results


class StoppedError(UserError):
    """Not everything was measured; what was is in the file."""


def measure(asked: Asked, how: Launching, file: Path, limits: Limits, say: Callable[[str], object]) -> Knowledge:
    """All rounds; those that the results have are not measured again. The file has each group when it has ended."""
    fabric, options, results = asked
    deadline, sent = time.monotonic() + limits.seconds, 0
    known = Knowledge()
    with writing(file, update=True), file.open("a", encoding="utf-8") as stream:
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
                waiting += _measure(wave, how, file, limits)
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


def _measure(wave: Sequence[Trial], how: Launching, file: Path, limits: Limits) -> list[Outcome]:
    folder = file.with_name(file.name + ".work")
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        children: list[Child] = []
        of: list[range] = []
        listeners: list[socket.socket] = []
        grace = 0.0
        for number, trial in enumerate(wave):
            output, log = folder / f"{number}.out", folder / f"{number}.log"
            for path in (output, log):
                path.unlink(missing_ok=True)
                stack.callback(path.unlink, missing_ok=True)
            plan = launch(trial, how, output)
            grace = max(grace, plan.grace)
            mine, listener = prepare(plan, stack)
            listeners += [listener] if listener else []
            target = stack.enter_context(log.open("wb"))
            of.append(range(len(children), len(children) + len(mine)))
            children += [replace(child, output=target, labelled=False) for child in mine]
        rules = Rules(limits.trial_seconds, Patience(after_terminate=grace), together=False, quiet=True)
        supervisor = Supervisor(children, rules)
        supervisor.run(started=lambda: _close(listeners))
        if supervisor.interrupted is not None:
            raise KeyboardInterrupt
        outcomes = [
            _outcome(
                trial, [supervisor.processes[i] for i in of[number]], folder / f"{number}", how, supervisor.timed_out
            )
            for number, trial in enumerate(wave)
        ]
    with suppress(OSError):
        folder.rmdir()
    return outcomes


def _outcome(trial: Trial, processes: Sequence[Process], stem: Path, how: Launching, timed_out: bool) -> Outcome:
    failed = [process for process in processes if process.code != 0]
    if failed:
        if timed_out and any(process.popen.returncode < 0 or process.code >= 124 for process in failed):
            return Outcome(trial, (), "it did not end within its time")
        return Outcome(
            trial, (), f"{failed[0].name} ended with {failed[0].code}{_last_words(stem.with_suffix('.log'))}"
        )
    try:
        out = stem.with_suffix(".out")
        samples = _of_program(out) if how.program else _of_record(out, trial.channel.startswith("latency"))
    except UserError as problem:
        return Outcome(trial, (), hide(clean(problem))[:500])
    return Outcome(trial, samples, "" if samples else "it measured nothing")


def _close(listeners: Sequence[socket.socket]) -> None:
    for listener in listeners:
        listener.close()


def _last_words(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - MOST_LOG))
            lines = file.read(MOST_LOG).decode(errors="replace").split("\n")
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip()]
    # What fails first is told; the others only say that it is not there. Ours begin with our name.
    telling = [line for line in said if line.startswith("busbw:") or "error" in line.lower()]
    return f": {hide(clean((telling or said[-1:])[0]))[:200]}" if said else ""


def _of_record(path: Path, late: bool) -> tuple[float, ...]:
    """Bandwidths in GB/s, or of small messages how many a second."""
    cases = [case for record in read_records(path) for case in record.cases]
    usual = [c for c in cases if c.outcome == "measured" and c.placement != "in_place"]
    if late:
        return tuple(1e6 / c.time_us for c in usual if c.time_us)[:MOST_SAMPLES]
    chosen = [c.busbw_GBps for c in usual if c.busbw_GBps]
    return tuple(chosen[:MOST_SAMPLES])


def _of_program(path: Path) -> tuple[float, ...]:
    text = read_text(path, 1 << 20, hint="it holds one bandwidth in GB/s a line")
    try:
        found = tuple(float(word) for word in text.split()[:MOST_SAMPLES])
    except ValueError:
        raise UserError("its file does not hold one bandwidth in GB/s a line") from None
    if not all(0 < sample < 1e6 for sample in found):
        raise UserError("its file holds what is no bandwidth in GB/s")
    return found
