"""Where a process stands is asked with bounds, and a signal goes only to those that handle it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.watch import processes, stacks
from busbw.watch.containers import begun_at
from busbw.watch.recording import Header, Recording

HANDLER = "signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b'asked\\n')); "


@contextmanager
def sleeping(folder: Path, handler: str) -> Iterator[tuple[subprocess.Popen[str], Header]]:
    program = f"import os, signal, time; {handler}print('ready', flush=True)\nwhile True: time.sleep(0.1)"
    job = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert job.stdout is not None
        assert job.stdout.readline() == "ready\n"
        path = write(folder, 0, [Row(0, 2)], [Made(0)], pid=job.pid, host=os.uname().nodename, ended=False)
        words = Path(f"/proc/{job.pid}/stat").read_bytes().rpartition(b")")[2].split()
        content = bytearray(path.read_bytes())
        content[72:80] = int(words[19]).to_bytes(8, "little")
        path.write_bytes(content)
        with Recording(path) as recording:
            yield job, recording.header()
    finally:
        job.kill()
        with suppress(subprocess.TimeoutExpired):
            job.wait(10)
        if job.stdout:
            job.stdout.close()


def test_a_signal_goes_to_a_process_that_handles_it_only(tmp_path: Path) -> None:
    with sleeping(tmp_path, HANDLER) as (job, header):
        assert stacks.signal_all([header]) == "SIGUSR1 was sent to 1 processes."
        assert job.stdout is not None
        assert job.stdout.readline() == "asked\n"
    with sleeping(tmp_path, "") as (job, header):
        assert stacks.signal_all([header]) == "SIGUSR1 was sent to 0 processes; 1 handle none and were left alone."
        time.sleep(0.1)
        assert job.poll() is None


def test_the_kernel_says_where_a_process_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with sleeping(tmp_path, "") as (job, header):
        ((_, line),) = stacks.stacks([header])
        assert line.startswith(f"pid {job.pid}: it ")
        assert "py-spy would show" in line


def test_py_spy_is_asked_with_a_limit_and_its_words_do_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "py-spy"
    program.write_text("#!/bin/sh\nprintf 'Thread 1 (idle)\\n  step (train.py:7)\\033[2J\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with sleeping(tmp_path, "") as (job, header):
        kernel, *python = stacks.stacks([header])
        assert "py-spy would" not in kernel[1]
        assert python == [
            (job.pid, f"pid {job.pid}: Thread 1 (idle)"),
            (job.pid, f"pid {job.pid}:   step (train.py:7)\\x1b[2J"),
        ]
        program.write_text("#!/bin/sh\nexec sleep 60\n")
        monkeypatch.setattr(stacks, "_LIMIT_S", 0.3)
        begun = time.monotonic()
        ((_, line),) = stacks.stacks([header])
        assert time.monotonic() - begun < 10
        assert "py-spy would show" in line


def test_a_process_of_another_host_is_not_said_to_have_ended(tmp_path: Path) -> None:
    far = write(tmp_path, 0, [Row(0, 2)], [Made(0)], host="elsewhere", pid=1 << 22, ended=False)
    near = write(tmp_path, 1, [Row(1, 2)], [Made(0)], host=os.uname().nodename, pid=(1 << 22) + 1, ended=False)
    with Recording(far) as recording:
        assert processes.state_now(recording.header()) == processes.RUNNING
    with Recording(near) as recording:
        assert processes.state_now(recording.header()) == processes.GONE


def test_another_process_with_the_number_of_one_that_is_gone_is_not_that_one() -> None:
    begun = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
    assert processes.state_of(os.getpid(), begun) == processes.RUNNING
    assert processes.state_of(os.getpid(), begun + 1) == processes.GONE
    assert processes.state_of(os.getpid(), 0) == processes.RUNNING, "where its begin is not known"


def test_a_process_whose_first_thread_has_ended_lives_as_long_as_another_does() -> None:
    program = (
        "import ctypes, sys, threading\n"
        "threading.Thread(target=sys.stdin.readline).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as job:
        try:
            begun = begun_at(job.pid) or 0
            stat = Path(f"/proc/{job.pid}/stat")
            end = time.monotonic() + 10
            while b") Z " not in stat.read_bytes():
                assert time.monotonic() < end, "its first thread has not ended"
                time.sleep(0.01)
            assert processes.state_of(job.pid, begun) == processes.RUNNING
            job.send_signal(signal.SIGSTOP)
            while processes.state_of(job.pid, begun) != processes.STOPPED:
                assert time.monotonic() < end
                time.sleep(0.01)
            job.send_signal(signal.SIGCONT)
        finally:
            job.kill()
        while b") Z " in stat.read_bytes() and processes.state_of(job.pid, begun) != processes.GONE:
            assert time.monotonic() < end, "a zombie without threads is gone"
            time.sleep(0.01)
