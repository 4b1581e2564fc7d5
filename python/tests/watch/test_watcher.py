"""A watcher of processes that run: what it reads before the threshold, and what it says at it."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_recordings import Made, Row, write, write_pulses
from snapshots import SECOND

from busbw.watch.live import Watcher
from busbw.watch.processes import STOPPED, snapshot
from busbw.watch.pulses import Pulse
from busbw.watch.recording import Recording, find

BUILD = Path(os.environ.get("BUSBW_BUILD", Path(__file__).resolve().parents[3] / "build"))
GPU_USER, RECORDER = BUILD / "bin" / "busbw_test_gpu_user", BUILD / "lib" / "libbusbw_record.so"


@pytest.fixture
def child() -> Iterator[int]:
    """The pid of a process that waits."""
    process = subprocess.Popen([sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def watched(
    folder: Path, child: int, *calls: list[Made], hang_after_s: float | None = 10.0, gpus: bool = False
) -> Watcher:
    """A watcher of two ranks that run: this process and its child."""
    for rank, pid in enumerate((os.getpid(), child)):
        path = write(
            folder, rank, [Row(rank, 2)], calls[rank], host=socket.gethostname(), pid=pid, ended=False,
            synchronous=not gpus,
        )  # fmt: skip
        content = bytearray(path.read_bytes())
        begun = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
        content[72:80] = struct.pack("<Q", int(begun))
        path.write_bytes(content)
    watcher = Watcher(folder, hang_after_s)
    assert watcher.poll(100 * SECOND) is None
    assert watcher.poll(106 * SECOND) is None
    return watcher


def test_a_process_that_is_stopped_after_its_calls_were_read_is_said_to_be_stopped(tmp_path: Path, child: int) -> None:
    """What was called is read before the threshold, what the processes do at it."""
    watcher = watched(tmp_path, child, [Made(0)] * 2, [Made(0)])
    os.kill(child, signal.SIGSTOP)
    os.waitid(os.P_PID, child, os.WSTOPPED)
    verdict = watcher.poll(111 * SECOND)
    watcher.close()
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == (STOPPED, (1,))


def test_silence_after_calls_over_nccl_is_told_at_the_time_asked_for_else_after_ten_minutes(
    tmp_path: Path, child: int
) -> None:
    for name, asked in (("asked", 10.0), ("own", None)):
        (tmp_path / name).mkdir()
        watcher = watched(tmp_path / name, child, [Made(0)], [Made(0)], hang_after_s=asked, gpus=True)
        early, late = watcher.poll(111 * SECOND), watcher.poll(701 * SECOND)
        watcher.close()
        told = early if asked else late
        assert told is not None and told.cause == "quiet"
        assert (early if late is told else late) is None, "once, and not before"


def test_what_the_ranks_called_is_in_the_verdict_of_a_watcher(tmp_path: Path, child: int) -> None:
    watcher = watched(tmp_path, child, [Made(0), Made(0)], [Made(0, count=32)])
    verdict = watcher.poll(111 * SECOND)
    watcher.close()
    assert verdict is not None
    assert verdict.cause == "unlike"
    assert "Call #1 of" in verdict.text


def test_a_gpu_that_gets_on_with_what_it_was_given_is_progress(tmp_path: Path, child: int) -> None:
    watcher = watched(tmp_path, child, [Made(0)] * 9, [Made(0)] * 9, gpus=True)
    for second, begun in enumerate(range(1, 8), 107):
        for path in find(tmp_path):
            write_pulses(path, Pulse(0, 0, 0, begun, begun + 1, begun - 1, begun, 9))
        assert watcher.poll(second * SECOND) is None
    assert watcher.quiet_ns(114 * SECOND) == SECOND, "the first look is no progress, as it tells of nothing new"
    watcher.close()


def test_pulses_are_read_where_they_are_whole_and_of_the_newest_calls(tmp_path: Path) -> None:
    path = write(tmp_path, 0, [Row(0, 2)], [Made(0)] * 3, synchronous=False)
    with Recording(path) as recording:
        assert recording.pulses() == {}
        write_pulses(path, Pulse(0, 7, 0, 2, 3, 2, 3, 3))
        assert recording.pulses() == {0: Pulse(0, 7, 0, 2, 3, 2, 3, 3)}
        assert snapshot([recording])[0].pulses
        write_pulses(path, Pulse(0, 7, 0, 2, 3, 2, 3, 2))
        assert snapshot([recording])[0].pulses == {}, "a call has begun since"
        write_pulses(path, Pulse(0, 7, 0, 2, 3, 2, 3, 3), stamp=3)
        assert recording.pulses() == {}, "it is being written"


@pytest.mark.skipif(not GPU_USER.exists(), reason="needs a build with tests")
def test_a_kernel_that_never_ends_before_a_call_names_its_rank(tmp_path: Path) -> None:
    """Over a fake GPU, with the recorder as it is."""
    environ = os.environ | {"LD_PRELOAD": str(RECORDER), "BUSBW_RECORD_DIR": str(tmp_path)}
    jobs = [
        subprocess.Popen([GPU_USER, "spin", str(rank)], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for rank in range(2)
    ]
    try:
        for job in jobs:
            assert job.stdout and job.stdout.readline() == b"called\n"
        watcher, end = Watcher(tmp_path, 5.0), time.monotonic() + 30
        assert watcher.poll(100 * SECOND) is None
        while not all(recording.pulses() for recording in watcher.recordings.values()) and time.monotonic() < end:
            time.sleep(0.02)
        verdict = watcher.poll(106 * SECOND)
        watcher.close()
    finally:
        for job in jobs:
            job.kill()
            job.communicate()
    assert verdict is not None
    assert (verdict.cause, verdict.accused) == ("blocked", ((socket.gethostname(), jobs[1].pid),))
    assert "#3 of the communicator of 2 ranks" in verdict.text
