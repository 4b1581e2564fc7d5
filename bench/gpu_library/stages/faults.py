"""A rank is killed in the middle of a run: every other one must end within ten seconds and name it."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_library.machine import Machine
from gpu_library.peers import COPIES, IN_WINDOWS
from gpu_library.program import Command, Ended, as_ranks, free_port, start_all
from gpu_library.session import Result, Session

PATIENCE_S = 10.0
"""How long the others may take."""

_RUNNING_S = 3.0
"""How long a run is left alone once it says that it measures."""


@dataclass(frozen=True)
class Fault:
    """A run that would last for minutes, and what it prints once all ranks are at work."""

    name: str
    argv: tuple[str, ...]
    under_way: str
    table: str = ""  # BUSBW_TABLE


def faults(machine: Machine) -> list[Fault]:
    """The engine, whose rendezvous sees lost ranks too, and a program that leaves it to the library."""
    library = ("--library", str(machine.ours))
    largest = ("--largest", "64K") if machine.host else ()
    endless = ("-b", "1M", "-e", "1M", "-N", "0", "-c", "0")
    in_windows = ("--windows", "--collectives", ",".join(IN_WINDOWS))
    alone = (*library, "--trust-library", "--calls", "1000000000", "--timeout", "60", *largest)
    found = [
        Fault("engine", (str(machine.engine), "all_reduce", *endless, *library), "float"),
        Fault("library alone", (str(machine.stress), *alone), "none wrong"),
    ]
    if not machine.host:
        copying = (str(machine.engine), "all_gather", *endless, "-R", "2", *library)
        found += [
            Fault("engine, copies into windows", copying, "float", COPIES),
            Fault(
                "library alone, copies into windows", (str(machine.stress), *alone, *in_windows), "none wrong", COPIES
            ),
        ]
    return found


@dataclass(frozen=True)
class Survivor:
    """How one of the other ranks ended."""

    rank: int
    code: int
    seconds: float  # after the kill
    names_it: bool
    said: str


def names_rank(text: str, rank: int) -> bool:
    """Whether a message names the lost rank: `rank 2`, `process 2` or `rank #2`."""
    return re.search(rf"\b(rank|process)\s*[#:]?\s*{rank}\b", text, re.IGNORECASE) is not None


def judge(survivors: Sequence[Survivor]) -> bool:
    """All ended by themselves, in time, with a failure and the name of the lost rank."""
    return bool(survivors) and all(
        each.code not in {0, 124} and each.seconds <= PATIENCE_S and each.names_it for each in survivors
    )


def stage(session: Session) -> list[Result]:
    results: list[Result] = []
    for fault in faults(session.machine):
        if session.fits(f"fault {fault.name}", 14):
            results.append(_one(session, fault))
    return results


def _one(session: Session, fault: Fault) -> Result:
    machine = session.machine
    victim = machine.gpus - 1
    table = {"BUSBW_TABLE": fault.table} if fault.table else {}
    base = session.environment({"BUSBW_REAL_NCCL": str(machine.nccl), **table})
    commands = as_ranks(fault.argv, base, machine.gpus, free_port())
    began, ended, after = kill_one(commands, victim, fault.under_way, session.deadline.limit(60))
    survivors = [_survivor(each, victim, after[each.process]) for each in ended if each.process != victim]
    session.note(f"fault {fault.name}", commands[0], ended)
    result = {
        "fault": fault.name, "lost": victim, "began": began, "passed": began and judge(survivors),
        "survivors": [vars(each) for each in survivors],
    }  # fmt: skip
    print(f"    rank {victim} killed: {'passed' if result['passed'] else 'NOT passed'}", flush=True)
    return result


def _survivor(ended: Ended, victim: int, seconds: float) -> Survivor:
    lines = [line for line in ended.text.splitlines() if names_rank(line, victim)]
    said = lines[-1] if lines else next(iter(ended.text.strip().splitlines()[-1:]), "")
    return Survivor(ended.process, ended.code, round(seconds, 2), bool(lines), said[:300])


def kill_one(
    commands: Sequence[Command], victim: int, under_way: str, limit_s: float, *, settle_s: float = _RUNNING_S
) -> tuple[bool, list[Ended], Mapping[int, float]]:  # fmt: skip
    """Starts all ranks, kills one once rank 0 says that the run is under way, and waits for the others.

    Gives whether it came so far, how all ended, and how long each lived on.
    """
    started = start_all(commands)
    end = time.monotonic() + limit_s
    began = False
    while not began and time.monotonic() < end and all(each.runs() for each in started):
        time.sleep(0.1)
        began = under_way in started[0].printed()
    if began:
        time.sleep(min(settle_s, max(0.0, end - time.monotonic())))
    os.kill(started[victim].process.pid, signal.SIGKILL)
    killed = time.monotonic()
    after: dict[int, float] = {}
    # Twice the allowed time: how late a late one is tells more than that it was late.
    while len(after) < len(started) and time.monotonic() < killed + 2 * PATIENCE_S:
        for rank, each in enumerate(started):
            if rank not in after and not each.runs():
                after[rank] = time.monotonic() - killed
        time.sleep(0.02)
    for rank, each in enumerate(started):
        after.setdefault(rank, time.monotonic() - killed)
        each.stop()
    return began, [each.end(rank) for rank, each in enumerate(started)], after
