"""Random calls, every result checked: processes, threads, groups and mixtures of them share out the calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_library.contest import last_words, scratch
from gpu_library.machine import Machine
from gpu_library.peers import COPIES, IN_WINDOWS
from gpu_library.program import Command, as_ranks, free_port
from gpu_library.session import Result, Session


@dataclass(frozen=True)
class Shape:
    """So many processes of so many threads with so many GPUs each, and their part of all calls."""

    processes: int
    threads: int
    devices: int
    part: float
    extra: tuple[str, ...] = ()
    table: str = ""  # BUSBW_TABLE

    @property
    def ranks(self) -> int:
        return self.processes * self.threads * self.devices

    @property
    def name(self) -> str:
        words = f"{self.processes} processes x {self.threads} threads x {self.devices} GPUs"
        return f"{words} {' '.join(self.extra)}".strip()


def shapes(gpus: int) -> list[Shape]:
    """Every way to hold the GPUs; their parts add up to one."""
    found = [Shape(gpus, 1, 1, 0.3), Shape(1, gpus, 1, 0.15), Shape(1, 1, gpus, 0.1)]
    ways = ((gpus, 1, 1, 0.1), (1, gpus, 1, 0.05), (1, 1, gpus, 0.05))
    # No other collective: NCCL 2.28.9 itself gives wrong results where buffers in windows are not aligned.
    found += [Shape(*way, ("--windows", "--collectives", ",".join(IN_WINDOWS)), COPIES) for way in ways]
    if gpus % 2 == 0 and gpus > 2:
        found += [Shape(2, gpus // 2, 1, 0.1), Shape(2, 1, 1, 0.1)]
    rest = 1 - sum(shape.part for shape in found)
    return [*found, Shape(gpus, 1, 1, rest, ("--largest", "256M", "--communicators", "2", "--graphs", "1"))]


def argv(  # noqa: PLR0913, PLR0917 - one place for the whole command line
    machine: Machine, shape: Shape, calls: int, seed: int, seconds: float, result: Path
) -> tuple[str, ...]:
    return (
        *(str(machine.stress), "--library", str(machine.ours), "--calls", str(calls), "--seed", str(seed)),
        *("--threads", str(shape.threads), "--devices", str(shape.devices), "--seconds", f"{seconds:.0f}"),
        *("--result", str(result), "--timeout", "20", *shape.extra),
        *(("--largest", "256K") if machine.host else ()),
    )


def commands(  # noqa: PLR0913, PLR0917 - as above
    session: Session, shape: Shape, calls: int, seed: int, seconds: float, result: Path
) -> list[Command]:
    table = {"BUSBW_TABLE": shape.table} if shape.table else {}
    base = session.environment({"BUSBW_REAL_NCCL": str(session.machine.nccl), **table})
    words = argv(session.machine, shape, calls, seed, seconds, result)
    if shape.processes == 1:
        return [Command(words, base)]
    return as_ranks(words, base, shape.processes, free_port())


def read_summary(file: Path) -> dict[str, Any]:
    """What the program says it did; nothing where it did not come to that."""
    try:
        kept: Any = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def stage(session: Session) -> list[Result]:
    return list(_stage(session))


def _stage(session: Session) -> Iterator[Result]:
    found = shapes(session.machine.gpus)
    for number, shape in enumerate(found):
        # What one shape leaves of its time goes to those after it.
        remaining = sum(each.part for each in found[number:])
        seconds = session.deadline.left() * shape.part / remaining - 6
        if not session.fits(f"stress, {shape.name}", 8):
            continue
        calls = round(session.wanted.calls * shape.part)
        with scratch() as folder:
            summary = Path(folder) / "summary.json"
            label = f"stress, {shape.name}, {calls} calls"
            ended = session.run_ranks(
                label, commands(session, shape, calls, session.wanted.seed + number, max(2.0, seconds), summary)
            )
            worst = next((each for each in ended if each.code != 0), ended[0])
            yield {"shape": shape.name, "ranks": shape.ranks, "asked": calls, "exit": worst.code,
                   **{k: v for k, v in read_summary(summary).items() if k != "exit"},
                   "reason": "" if worst.code == 0 else last_words(worst.text)}  # fmt: skip
