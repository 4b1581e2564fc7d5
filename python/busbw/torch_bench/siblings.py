"""Names a rank of this host that a signal has stopped, and ends it: torch.distributed would wait for it for minutes.

The engine's half is engine/rendezvous/net/sibling_watch.h; both follow the same rule: a stopped child of our launcher.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from busbw.torch_bench.place import LAUNCHERS

LOOK_EVERY_S = 0.5
STOPPED_LOOKS = 5
"""So often in a row: two seconds, as a debugger or a snapshot stops a process for a moment too."""

NAMING_S = 0.3
"""Launchers drop what ranks say after one of them was killed: the name goes first."""


def stopped(parent: int, me: int, variable: str) -> Iterator[tuple[int, str]]:
    """Each stopped rank below the launcher beside us: its process and its number."""
    for pid in _children(parent):
        if pid == me:
            continue
        with suppress(OSError, IndexError):
            if Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"T":
                continue
            name = f"{variable}=".encode()
            for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if entry.startswith(name):
                    yield pid, entry[len(name) :].decode(errors="replace")


def watch(environ: Mapping[str, str]) -> None:
    """In a thread, to our end. `busbw torch-bench --ranks` looks at its ranks itself."""
    variable = next((rank for _, rank, size, _ in LAUNCHERS if rank in environ and size in environ), None)
    if variable and variable != "BUSBW_RANK" and Path("/proc/self/stat").exists():
        threading.Thread(target=_look, args=(os.getppid(), variable), name="busbw siblings", daemon=True).start()


def _look(parent: int, variable: str) -> None:
    seen: dict[tuple[int, str], int] = {}
    while True:
        time.sleep(LOOK_EVERY_S)
        now = set(stopped(parent, os.getpid(), variable))
        seen = {each: seen.get(each, 0) + 1 for each in now}
        for (pid, rank), times in seen.items():
            if times >= STOPPED_LOOKS:
                print(f"busbw torch-bench: rank {rank} (pid {pid}) is stopped (SIGSTOP); it is killed so that the job "
                      "can end", file=sys.stderr, flush=True)  # fmt: skip
                time.sleep(NAMING_S)
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


def _children(parent: int) -> list[int]:
    """By the kernel's own list, or one by one where it keeps none."""
    try:
        listed = [each.read_text() for each in Path(f"/proc/{parent}/task").glob("*/children")]
    except OSError:
        listed = []
    if listed:
        return [int(word) for text in listed for word in text.split()]
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            if int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1]) == parent:
                found.append(int(entry.name))
    return found
