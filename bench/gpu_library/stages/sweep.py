"""Every kernel by size, channels and threads, then `busbw tune`: the material of the built-in table, and a table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpu_library.contest import last_words, scratch
from gpu_library.machine import Machine
from gpu_library.peers import engine_environment
from gpu_library.program import Command
from gpu_library.session import Result, Session, Wanted

LARGEST = 1 << 30

KERNELS_PART = 0.5
"""Of the stage's time; tuning through the engine, which knows NCCL's times too, has the rest."""

_NAMES = {"alltoall": "all_to_all"}


def library_name(collective: str) -> str:
    """As busbw_kernel_sweep and tables call it."""
    return _NAMES.get(collective, collective)


def kernel_argv(machine: Machine, wanted: Wanted, collective: str, gpus: int, seconds: float) -> tuple[str, ...]:
    return (
        *(str(machine.build / "bin" / "busbw_kernel_sweep"), "--ranks", str(gpus)),
        *("--collective", library_name(collective), "--factor", "4", "--budget", str(max(1, round(seconds)))),
        *("--min", str(wanted.smallest), "--max", str(min(wanted.largest, LARGEST))),
    )


def tune_argv(machine: Machine, wanted: Wanted, gpus: int, seconds: float, table: Path) -> tuple[str, ...]:
    return (
        *(machine.python, "-m", "busbw", "tune", *wanted.collectives, "--ranks", str(gpus)),
        *("-b", str(wanted.smallest), "-e", str(min(wanted.largest, 256 << 20))),
        *("--budget", f"{max(1, round(seconds))}s", "--output", str(table)),
    )


def parse(text: str) -> list[dict[str, Any]]:
    """The configurations that busbw_kernel_sweep measured, between whatever else was printed."""
    found = []
    for line in text.splitlines():
        if not line.startswith('{"collective"'):
            continue
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # cut off when its time was up
    return found


def as_result(collective: str, gpus: int, code: int, text: str) -> Result:
    times = [
        [f"{f['algorithm']}/{f['protocol']}@{f['channels']}x{f['threads']}", f["bytes"], f["us"]] for f in parse(text)
    ]
    return {"kind": "kernels", "collective": collective, "gpus": gpus, "exit": code, "times": times,
            "reason": "" if code == 0 else last_words(text)}  # fmt: skip


def winners(results: Iterable[Result]) -> list[tuple[str, int, int, str, float, str, float]]:
    """By collective, GPUs and size: the fastest use and its time, the fastest of another kernel and its time."""
    times: dict[tuple[str, int, int], list[tuple[float, str]]] = {}
    for result in results:
        for use, size, us in result.get("times", []):
            times.setdefault((result["collective"], result["gpus"], size), []).append((us, use))
    found = []
    for key, candidates in sorted(times.items()):
        us, use = min(candidates)
        others = [each for each in candidates if each[1].split("@")[0] != use.split("@")[0]]
        second_us, second = min(others, default=(float("nan"), "none"))
        found.append((*key, use, us, second, second_us))
    return found


def stage(session: Session) -> list[Result]:
    if session.machine.host:
        print("kernels need GPUs: nothing to sweep", flush=True)
        return []
    counts = sorted(session.machine.counts, reverse=True)
    return [*_kernels(session, counts), *_tune(session, counts)]


def _kernels(session: Session, counts: Sequence[int]) -> list[Result]:
    plans = [(collective, gpus) for gpus in counts for collective in session.wanted.collectives]
    seconds = session.deadline.left() * KERNELS_PART
    results: list[Result] = []
    for collective, gpus in plans:
        label = f"kernels of {collective}, {gpus} GPUs"
        if not session.fits(label, 5):
            continue
        argv = kernel_argv(session.machine, session.wanted, collective, gpus, seconds / len(plans))
        ended = session.run(label, Command(argv, session.environment()))
        results.append(as_result(collective, gpus, ended.code, ended.text))
    return results


def _tune(session: Session, counts: Sequence[int]) -> list[Result]:
    """A table of choices by the verb that users have; the text is kept, for the library's built-in one."""
    results: list[Result] = []
    machine = session.machine
    for position, gpus in enumerate(counts):
        seconds = session.deadline.left() / (len(counts) - position) - 10
        label = f"busbw tune, {gpus} GPUs"
        if not session.fits(label, 30):
            continue
        with scratch() as folder:
            table = Path(folder) / "table.txt"
            argv = tune_argv(machine, session.wanted, gpus, seconds, table)
            changes = {"BUSBW_GPU_LIBRARY": str(machine.ours), "BUSBW_REAL_NCCL": str(machine.nccl),
                       "BUSBW_RUNS": str(Path(folder) / "runs")}  # fmt: skip
            command = Command(argv, session.environment(engine_environment(machine, session.base), changes))
            ended = session.patient(seconds + 8).run(label, command)
            text = table.read_text() if table.is_file() else ""
        results.append({"kind": "table", "collective": "all", "gpus": gpus, "exit": ended.code, "table": text,
                        "reason": "" if ended.code == 0 else last_words(ended.text)})  # fmt: skip
    return results
