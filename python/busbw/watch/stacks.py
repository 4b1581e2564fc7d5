"""Where a process that holds the job up stands: its Python stack by py-spy, else what the kernel says."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

from busbw.base.programs import ask
from busbw.base.sentences import visible
from busbw.watch.processes import GONE, state_of
from busbw.watch.recording import Header

MAX_PROCESSES = 8
MAX_LINES = 40
_LIMIT_S = 5.0


def stacks(headers: Sequence[Header]) -> list[tuple[int, str]]:
    """Lines on each of these processes of this host that is still there, with its pid."""
    found: list[tuple[int, str]] = []
    for header in headers[:MAX_PROCESSES]:
        if state_of(header.pid, header.process_start) == GONE:
            continue
        lines = _by_py_spy(header.pid) or _by_the_kernel(header.pid)
        found += [(header.pid, f"pid {header.pid}: {visible(line)[:200]}") for line in lines[:MAX_LINES]]
    return found


def _by_py_spy(pid: int) -> list[str]:
    """The Python stack; empty where py-spy is not there, may not look, or takes too long."""
    program = shutil.which("py-spy")
    if program is None:
        return []
    done = ask([program, "dump", "--nonblocking", "--pid", str(pid)], _LIMIT_S)
    return [line for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []


def _by_the_kernel(pid: int) -> list[str]:
    """The kernel function that the first thread waits in."""
    try:
        with Path(f"/proc/{pid}/wchan").open("rb") as file:
            where = file.read(100).decode(errors="replace")
    except OSError:
        return []
    what = "it runs, or the kernel does not say where it waits" if where in ("", "0") else f"it waits in {where}"
    return [f"{what} (py-spy would show its Python stack)"]


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
