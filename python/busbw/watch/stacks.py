"""Where a process that holds the job up stands: in the kernel and in C, and its Python stack by py-spy."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from busbw.base.programs import ask
from busbw.base.sentences import visible
from busbw.watch.processes import GONE, state_of
from busbw.watch.recording import Header
from busbw.watch.threads import threads_of
from busbw.watch.unwind import Images, Unwinder

MAX_PROCESSES = 8
MAX_LINES = 40
_MAX_THREADS, _MAX_FRAMES = 4, 16
_LINE, _NAME = 400, 60
_LIMIT_S = 5.0
_OURS = "busbw"
"""How names of the recorder's threads begin."""
_INTERPRETER = "_PyEval_EvalFrame"
_BEHIND = " < "
_WOULD_SHOW = " (py-spy would show its Python stack)"


def stacks(headers: Sequence[Header]) -> list[tuple[int, str]]:
    """Lines on each of these processes of this host that is still there, with its pid."""
    found: list[tuple[int, str]] = []
    until = time.monotonic() + _LIMIT_S
    with Images() as images:
        for header in headers[:MAX_PROCESSES]:
            if state_of(header.pid, header.process_start) == GONE:
                continue
            lines = _by_the_kernel(header.pid, images, until)
            if python := _by_py_spy(header.pid):
                lines = [line.removesuffix(_WOULD_SHOW) for line in lines] + python
            found += [(header.pid, f"pid {header.pid}: {visible(line)[:_LINE]}") for line in lines[:MAX_LINES]]
    return found


def _by_py_spy(pid: int) -> list[str]:
    """The Python stack; empty where py-spy is not there, may not look, or takes too long."""
    program = shutil.which("py-spy")
    if program is None:
        return []
    done = ask([program, "dump", "--nonblocking", "--pid", str(pid)], _LIMIT_S)
    return [line for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []


def _by_the_kernel(pid: int, images: Images, until: float) -> list[str]:
    """What the first thread and a few others do, each with its C stack, as far as that may be read, and in time."""
    threads = [each for each in threads_of(pid) if not each.name.startswith(_OURS)]
    lines = []
    with Unwinder(pid, images) as unwinder:
        for thread in threads[:_MAX_THREADS]:
            in_time = thread.at and time.monotonic() < until
            names = unwinder.frames(thread.stack, thread.at) if in_time else []
            shown = _of_the_program(names)
            who = "" if thread.number == pid else f"thread {thread.number} ({thread.name}): "
            more = _WOULD_SHOW if any(map(_is_python, (*names, thread.name))) else ""
            lines.append(f"{who}{thread.what}{f': {_BEHIND.join(shown)}' if shown else ''}{more}")
    if len(threads) > _MAX_THREADS:
        lines.append(f"{len(threads) - _MAX_THREADS} more threads are not shown")
    return lines


def _of_the_program(names: Sequence[str]) -> list[str]:
    """Without what is the same below every Python program, and without those that start any program."""
    end = next((at + 1 for at, name in enumerate(names) if name.startswith(_INTERPRETER)), len(names))
    return [name[:_NAME] for name in names[: min(end, _MAX_FRAMES)] if name != "__libc_start_main"]


def _is_python(name: str) -> bool:
    return name.startswith((_INTERPRETER, "python", "[libpython", "[python"))


def signal_all(headers: Iterable[Header]) -> str:
    """Send SIGUSR1 to those that handle it: in another process it would be the end."""
    sent = left = 0
    for header in headers:
        if state_of(header.pid, header.process_start) == GONE:
            continue
        try:
            if handles(header.pid, signal.SIGUSR1):
                os.kill(header.pid, signal.SIGUSR1)
                sent += 1
            else:
                left += 1
        except OSError:
            left += 1
    more = f"; {left} handle none and were left alone" if left else ""
    return f"SIGUSR1 was sent to {sent} processes{more}."


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler of its own for a signal, by /proc/PID/status."""
    with Path(f"/proc/{pid}/status").open("rb") as file:
        for line in file.read(1 << 16).splitlines():
            if line.startswith(b"SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False
