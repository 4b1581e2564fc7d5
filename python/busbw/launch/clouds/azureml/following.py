"""Follows a job to its end: its state, its log as it grows, the nodes it waits for, and the reason where it fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.base.errors import UserError

if TYPE_CHECKING:
    from busbw.launch.clouds.azureml.cloud import Cloud, Look

Say = Callable[[str], None]
FINISHED = {"Completed": 0, "Failed": 1, "Canceled": 130, "NotResponding": 1}
BEFORE_RUNNING = {"NotStarted", "Starting", "Provisioning", "Preparing", "Queued"}
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 30.0  # seconds between two questions about a job's state
LONGEST_RUNNING_PAUSE = 5.0  # while its log grows


@dataclass(frozen=True)
class Limits:
    """How long is waited: for the end, and for the start (None: as long as for the end)."""

    end: float
    start: float | None = None


@dataclass(frozen=True)
class Ended:
    """A job's end."""

    code: int
    nodes: int
    seconds: float | None  # that it ran, where that is known
    why: str = ""  # of a failure


def follow(cloud: Cloud, name: str, limits: Limits, say: Say, show: Callable[[str], None] = lambda _: None) -> Ended:
    """The end of a job; UserError where it cannot start, or where the time for it has passed."""
    begin = time.monotonic()
    pause, told, seen = FIRST_PAUSE, set[str](), 0
    while True:
        look = cloud.look(name)
        if look.log:
            text, seen = cloud.read_log(look.log, seen)
            show(text)
        if look.status in FINISHED:
            return _ended(name, look, say)
        sentence = f"job {name}: {look.status}"
        waits = look.status in BEFORE_RUNNING
        if waits and (nodes := cloud.nodes()) and nodes.errors:
            sentence += f"; {nodes}"
            if nodes.is_refused:
                _give_up(cloud, name, f"cannot start: {nodes}", say)
        if sentence not in told:
            told.add(sentence)
            say(sentence)
        passed = time.monotonic() - begin
        if waits and limits.start is not None and passed > limits.start:
            _give_up(cloud, name, f"did not start within {limits.start:g} s: {cloud.nodes() or look.status}", say)
        if passed + pause > limits.end:
            raise UserError(
                f"job {name} is still {look.status} after {limits.end:g} s and costs money: `busbw azureml collect "
                f"{name}` waits on, `busbw azureml cancel {name}` ends it"
            )
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE if waits else LONGEST_RUNNING_PAUSE)


def _ended(name: str, look: Look, say: Say) -> Ended:
    if look.status != "Completed":
        why = f" ({look.why})" if look.why else ""
        say(f"job {name} ended as {look.status}{why}; what was measured until then is kept")
    return Ended(FINISHED[look.status], look.nodes, look.seconds, look.why)


def _give_up(cloud: Cloud, name: str, why: str, say: Say) -> None:
    say(f"cancelling job {name}")
    cloud.cancel(name)
    raise UserError(f"job {name} {why}; it was cancelled, and nodes that came for it go back by themselves")
