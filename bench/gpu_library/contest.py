"""Several libraries alive at once that take turns size by size, so that a drifting clock meets all of them alike."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_library.figures import Sample, read_samples
from gpu_library.machine import REPOSITORY
from gpu_library.program import Command, Log, Started, start_all

sys.path.insert(0, str(REPOSITORY / "python"))

from busbw.launch.turns import VARIABLE, Turns


@dataclass(frozen=True)
class Player:
    """One library's processes and where their figures go."""

    name: str
    command: Command
    record: Path


@dataclass(frozen=True)
class Outcome:
    """What one player measured; the reason where it ended badly. Figures taken before that stand."""

    name: str
    code: int
    samples: tuple[Sample, ...]
    reason: str = ""


def play(players: Sequence[Player], limit_s: float, log: Log, label: str) -> list[Outcome]:
    """Runs all players to their end, or until the time is up; whoever still runs then is ended."""
    end = time.monotonic() + limit_s
    with Turns(len(players)) as turns:
        commands = [
            _with_turns(player.command, setting) for player, setting in zip(players, turns.settings, strict=True)
        ]
        started = start_all(commands)
        try:
            there = turns.gather(lambda number: _still_runs(started, number, end))
            while any(map(turns.waits, there)):
                turns.cycle(there, lambda number: _still_runs(started, number, end), limit_s)
        finally:
            _finish(started, end)
    outcomes = []
    for player, command, each in zip(players, commands, started, strict=True):
        ended = each.end()
        log.add(f"{label}, {player.name}", command, ended)
        reason = "" if ended.code == 0 else last_words(ended.text)
        outcomes.append(Outcome(player.name, ended.code, tuple(read_samples(player.record)), reason))
    return outcomes


def _with_turns(command: Command, setting: str) -> Command:
    return Command(command.argv, {**command.environment, VARIABLE: setting})


def _still_runs(started: Sequence[Started], number: int, end: float) -> bool:
    if time.monotonic() > end:
        for each in started:
            each.stop()
    return started[number].runs()


def _finish(started: Sequence[Started], end: float) -> None:
    # All have had their last turn: what is left is the end of communicators.
    patience = min(end, time.monotonic() + 20)
    while any(each.runs() for each in started) and time.monotonic() < patience:
        time.sleep(0.02)
    for each in started:
        each.stop()


def last_words(text: str) -> str:
    """The line that says why, of what a program printed before it failed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith(("busbw:", "busbw_stress:"))]
    return (said or lines or ["it said nothing"])[-1][:300]


def scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="busbw-gpu-library-")


def as_json(outcome: Outcome) -> dict[str, Any]:
    return {"peer": outcome.name, "exit": outcome.code, "reason": outcome.reason}
