"""A process in a PID namespace of its own is told by its number here: running, stopped, gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.watch.containers import Numbers
from busbw.watch.processes import GONE, RUNNING, STOPPED, snapshot
from busbw.watch.recording import CALL, COMMUNICATOR, HEADER, MAGIC, Recording

INSIDE = """
import mmap, os, sys
with open(sys.argv[1], "r+b") as file:
    kept = mmap.mmap(file.fileno(), 4096)
start = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
print(os.getpid(), start, os.stat("/proc/self/ns/pid").st_ino, flush=True)
sys.stdin.read()
"""
CONTAINER = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]

NEVER = 1 << 40
"""Clock ticks after boot: in centuries."""
NOWHERE = 1 << 32
"""The kernel's numbers of namespaces have 32 bits."""


class Inside:
    """A process in a container, with the file of a recording in its memory."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.file = folder / "container-1-1.busbwrec"
        self.file.write_bytes(bytes(16384))
        self._outer = subprocess.Popen(
            [*CONTAINER, sys.executable, "-c", INSIDE, str(self.file)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._outer.stdout is not None and self._outer.stderr is not None
        if not (words := self._outer.stdout.readline().split()):
            pytest.skip(f"no PID namespace can be made: {self._outer.stderr.read().strip()}")
        self.number, self.start, self.namespace = map(int, words)
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children").read_text(encoding="ascii")
        self.pid = int(children.split()[0])

    def record(self, host: str) -> None:
        """The head of its recording, as the recorder writes it there."""
        self.file.write_bytes(
            HEADER.pack(
                MAGIC, 1, 4096, COMMUNICATOR.size, 1, CALL.size, 64, 1, 4096, 8192, 8192 + CALL.size, self.number,
                os.getuid(), self.start, 0, self.namespace, 0, 0, 0, 3, host.encode(), 0, 0, 0, 0, 0, 0, 1,
            ).ljust(16384, b"\0")
        )  # fmt: skip

    def end(self) -> None:
        self._outer.kill()
        self._outer.communicate()


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Inside]:
    made = Inside(tmp_path)
    try:
        yield made
    finally:
        made.end()


def state(recording: Recording, wanted: str) -> tuple[str, int]:
    """State and number of its process, once it is the wanted one or after five seconds."""
    end = time.monotonic() + 5
    while True:
        (process,) = snapshot([recording])
        if process.state == wanted or time.monotonic() > end:
            return process.state, process.pid
        time.sleep(0.02)


@pytest.mark.parametrize("host", ["", "another-name"], ids=["its host's name", "a name of its own"])
def test_a_process_of_a_container_is_stopped_and_gone_as_any_other(inside: Inside, host: str) -> None:
    inside.record(host or os.uname().nodename)
    with Recording(inside.file) as recording:
        assert state(recording, RUNNING) == (RUNNING, inside.pid)
        os.kill(inside.pid, signal.SIGSTOP)
        assert state(recording, STOPPED) == (STOPPED, inside.pid)
        os.kill(inside.pid, signal.SIGKILL)
        assert state(recording, GONE) == (GONE, inside.pid)


def here(inside: Inside, file: Path, host: str, namespace: int = 0, number: int = 0, start: int = 0) -> int | None:
    """Its number here, where something is changed by so much."""
    asked = inside.namespace + namespace, inside.number + number, inside.start + start
    return Numbers().here(file, host, *asked)


def test_where_the_host_has_another_name_a_number_alone_names_nobody(inside: Inside, tmp_path: Path) -> None:
    assert here(inside, inside.file, "another-name") == inside.pid
    assert here(inside, tmp_path / "other.busbwrec", "another-name") is None
    assert here(inside, inside.file, "another-name", namespace=NOWHERE) is None
    assert here(inside, inside.file, "another-name", start=NEVER) is None
    assert here(inside, inside.file, "another-name", number=1) is None


def test_what_has_become_another_program_is_found_without_the_file(inside: Inside, tmp_path: Path) -> None:
    own = os.uname().nodename
    assert here(inside, tmp_path / "other.busbwrec", own) == inside.pid
    assert here(inside, inside.file, own, namespace=NOWHERE) is None


def test_what_ended_before_anybody_looked_is_gone(inside: Inside) -> None:
    """Start and namespace are what no process of this machine can have, however many containers begin beside it."""
    own, number = os.uname().nodename, inside.number
    assert here(inside, inside.file, own, start=NEVER) == number
    assert here(inside, inside.file, own, namespace=NOWHERE, start=NEVER) is None
    inside.number, inside.start = 999_999, 1
    inside.record(own)
    with Recording(inside.file) as recording:
        assert state(recording, GONE) == (GONE, 999_999)


def test_a_new_file_is_looked_for_at_once(tmp_path: Path) -> None:
    """Its process may end within a second, and nobody could tell it from one that runs then."""
    numbers = Numbers()
    assert numbers.here(tmp_path / "other.busbwrec", "another-name", 1, 1, 1) is None
    later = Inside(tmp_path / "later")
    try:
        assert numbers.here(later.file, "another-name", later.namespace, later.number, later.start) == later.pid
    finally:
        later.end()
