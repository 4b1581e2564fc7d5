"""Starts groups side by side on behalf of a round, and reads what each measured or why it did not."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from busbw.base.errors import UserError
from busbw.base.files import read_text
from busbw.base.secrets import hide
from busbw.base.text import clean
from busbw.fleet.results import MOST_SAMPLES
from busbw.fleet.trial import Outcome, Trial
from busbw.fleet.words import Launching
from busbw.launch.execute import prepare
from busbw.launch.plan import LaunchPlan
from busbw.launch.supervise import Child, Patience, Process, Rules, Supervisor
from busbw.records import read_records

MOST_LOG = 64 << 10  # of which the last line is told
RULE = re.compile(r"[-=*_#~\s]+")
WARNS = re.compile(r"(\[\S*\] )?\W*warning\b|\*\* ", re.IGNORECASE)
"""What OpenSSH and Open MPI say although they go on: a new host key, a weak key exchange, an unused device."""
ERRS = re.compile(
    r"^ssh: |error|unable to|denied|could not|cannot|no such|not found|killed|failed|lost|refused", re.IGNORECASE
)
TOO_LONG = "it did not end within its time"


class Step(NamedTuple):
    """A trial, or this node's part of it, as a launch that writes `output`; another node's part may do so instead."""

    trial: Trial
    plan: LaunchPlan
    output: Path
    needed: bool = True


class Running(NamedTuple):
    """Steps under way, for who looks at them meanwhile: the processes of each stand in its range."""

    supervisor: Supervisor
    of: list[range]

    def failed(self) -> list[int]:
        """Steps of which a process has ended badly."""
        return [number for number, mine in enumerate(self.of)
                if any(self.supervisor.processes[at].popen.returncode for at in mine)]  # fmt: skip

    def stop(self, number: int) -> None:
        """End a step; from any thread."""
        for at in self.of[number]:
            self.supervisor.stop(at)


def carry_out(
    steps: Sequence[Step], how: Launching, limit_s: float, beside: Callable[[Running], object] | None = None
) -> list[Outcome]:
    """All of them at the same time, to their end; `beside` runs in a thread of its own meanwhile."""
    with ExitStack() as stack:
        children: list[Child] = []
        of: list[range] = []
        listeners: list[socket.socket] = []
        grace = 0.0
        for step in steps:
            log = step.output.with_suffix(".log")
            for path in (step.output, log):
                path.unlink(missing_ok=True)
                stack.callback(path.unlink, missing_ok=True)
            grace = max(grace, step.plan.grace)
            mine, listener = prepare(step.plan, stack)
            listeners += [listener] if listener else []
            target = stack.enter_context(log.open("wb"))
            of.append(range(len(children), len(children) + len(mine)))
            children += [replace(child, output=target, labelled=False, any_cpu=how.any_cpu) for child in mine]
        rules = Rules(limit_s, Patience(after_terminate=grace), together=False, quiet=True)
        supervisor = Supervisor(children, rules)
        running = Running(supervisor, of)
        supervisor.run(beside=(lambda: beside(running)) if beside else None, started=lambda: _close(listeners))
        if supervisor.interrupted is not None:
            raise KeyboardInterrupt
        return [
            _outcome(step, [supervisor.processes[i] for i in of[number]], how, supervisor.timed_out)
            for number, step in enumerate(steps)
        ]


def _close(listeners: Sequence[socket.socket]) -> None:
    for listener in listeners:
        listener.close()


def _outcome(step: Step, processes: Sequence[Process], how: Launching, timed_out: bool) -> Outcome:
    trial = step.trial
    failed = [process for process in processes if process.code != 0]
    if failed:
        if timed_out and any(process.popen.returncode < 0 or process.code >= 124 for process in failed):
            return Outcome(trial, (), TOO_LONG + _waited(step.output.with_suffix(".log"), how))
        return Outcome(
            trial, (), f"{failed[0].name} ended with {failed[0].code}{_last_words(step.output.with_suffix('.log'))}"
        )
    if not step.needed and not step.output.exists():
        return Outcome(trial, ())
    try:
        samples = (
            _of_program(step.output) if how.program else _of_record(step.output, trial.channel.startswith("latency"))
        )
    except UserError as problem:
        return Outcome(trial, (), hide(clean(problem))[:500])
    return Outcome(trial, samples, "" if samples else "it measured nothing")


def _lines(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - MOST_LOG))
            lines = file.read(MOST_LOG).decode(errors="replace").split("\n")
    except OSError:
        return []
    return [line.strip() for line in lines if line.strip()]


def _waited(log: Path, how: Launching) -> str:
    """What a scheduler said last of a job that waited, or of a part of it."""
    said = [line for line in _lines(log) if how.by_turns and ("waits for its pods" in line or "a pod waits" in line)]
    return f": {hide(clean(said[-1].removeprefix('busbw run: ')))[:300]}" if said else ""


def _last_words(log: Path) -> str:
    said = _lines(log)
    # What fails first is told; the others only say that it is not there. Ours begin with our name. Frames of boxes and
    # what a launcher or ssh only warns of is no reason where anything else was said.
    said = [line for line in said if not RULE.fullmatch(line)] or said
    said = [line for line in said if not WARNS.match(line)] or said
    telling = [line for line in said if line.startswith("busbw:") or ERRS.search(line)]
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
