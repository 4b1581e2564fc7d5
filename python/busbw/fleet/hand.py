"""A rank of a fleet on its node: starts there what rank 0 asks for, and ends when rank 0 does.

Every rank was given the same words. Rank 0 sends which trials are next and nothing else: what is run is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from busbw.base.errors import UserError
from busbw.fleet.results import check_trial
from busbw.fleet.steps import Running, Step, carry_out
from busbw.fleet.trial import Trial
from busbw.fleet.wire import Line, LostError, listed
from busbw.fleet.words import Launching, launch, part

LOOK_EVERY_S = 0.1
MOST_LIMIT_S = 7 * 86400.0


def serve(line: Line, how: Launching, folder: Path) -> None:
    """Wave after wave until rank 0 says that it is done, or is gone."""
    with suppress(LostError):
        while True:
            message = line.first(0.5)
            if message and message.get("do") == "end":
                return
            if message and message.get("do") == "wave":
                do_wave(line, message, how, folder)


def do_wave(line: Line, message: Mapping[str, Any], how: Launching, folder: Path) -> None:
    """This node's part of a wave, and what became of it."""
    limit = message.get("limit")
    if not isinstance(limit, int | float) or not 0 < limit <= MOST_LIMIT_S:
        raise LostError("it sent a wave without a limit")
    numbers, steps = [], []
    for number, task in enumerate(listed(message, "tasks")):
        trial, seat, address, secret = read_task(task)
        output = folder / f"{number}.out"
        plan = part(launch(trial, how, output), seat, address, secret)
        steps.append(Step(trial, plan, output, _needed(how, trial, seat)))
        numbers.append(task.get("id"))
    outcomes = carry_out(steps, how, limit, lambda running: _look(line, running, numbers))
    line.send({"done": [[number, outcome.reason, outcome.samples]
                        for number, outcome in zip(numbers, outcomes, strict=True)]})  # fmt: skip
    while not line.flush():
        line.read(LOOK_EVERY_S)


def _needed(how: Launching, trial: Trial, seat: int) -> bool:
    """The engine's process 0 has the record; any process of another program may have the samples."""
    return seat == 0 if how.program is None else len(trial.nodes) == 1


def _look(line: Line, running: Running, numbers: list[Any]) -> None:
    """While steps run: tell what fails, end what rank 0 has given up, end all when it is gone."""
    told: set[int] = set()
    try:
        while running.supervisor.alive():
            for number in set(running.failed()) - told:
                told.add(number)
                line.send({"failed": numbers[number]})
            while (message := line.first(LOOK_EVERY_S)) is not None:
                if message.get("do") == "stop" and message.get("id") in numbers:
                    running.stop(numbers.index(message["id"]))
                if message.get("do") == "end":
                    raise LostError("it has ended")
    except LostError:
        for number in range(len(numbers)):
            running.stop(number)


def read_task(task: object) -> tuple[Trial, int, str, str]:
    """A task of rank 0's; LostError where it is none."""
    if not isinstance(task, dict):
        raise LostError("it sent what is no task")
    seat, repeats = task.get("seat"), task.get("repeats")
    address, secret = task.get("address"), task.get("secret")
    try:
        kind, nodes, channel = check_trial(task, "the task")
    except UserError as problem:
        raise LostError(str(problem)) from None
    if not isinstance(seat, int) or not isinstance(repeats, int) or not (0 <= seat < len(nodes) and 0 < repeats < 1e5):
        raise LostError("it sent a task without a seat")
    if not all(isinstance(text, str) and text.isprintable() for text in (address, secret)):
        raise LostError("it sent a task without a place to meet")
    return Trial(kind, nodes, channel, repeats), seat, str(address), str(secret)
