"""A launcher that answers signals with a traceback: its ranks get the signal, it is killed unheard, nothing is left."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from jobs import PLAIN

from busbw.base import lifeline
from busbw.launch.execute import execute
from busbw.launch.plan import LaunchPlan, ProcessPlan
from busbw.launch.supervise import Patience
from busbw.launch.torchrun import LOG_FOLDER, plan

ROOT = Path(__file__).resolve().parents[3]
RANK = """
import os, signal, sys, time
from pathlib import Path
def end(number, _):
    Path(sys.argv[1], f"{os.getpid()}.heard").write_text(str(number))
    if sys.argv[2] == "ends":
        time.sleep(0.2)
        os._exit(1)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, end)
Path(sys.argv[1], f"{os.getpid()}.began").touch()
while True:
    time.sleep(0.05)
"""
LAUNCHER = """
import os, signal, subprocess, sys, time
from pathlib import Path
def loud(number, _):
    raise RuntimeError(f"got signal {number}")
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, loud)
Path(sys.argv[1], "folder").write_text(os.environ.get("THEIR_LOGS", ""))
if "THEIR_LOGS" in os.environ:
    Path(os.environ["THEIR_LOGS"], "kept").touch()
rank = [sys.executable, "-c", sys.argv[3], *sys.argv[1:3]]
ranks = [subprocess.Popen(rank, start_new_session=True) for _ in range(int(sys.argv[4]))]
Path(sys.argv[1], "launcher").write_text(str(os.getpid()))
while all(each.poll() is None for each in ranks):
    time.sleep(0.01)
raise RuntimeError("a rank failed")
"""


def launched(folder: Path, how: str = "ends", ranks: int = 2, *, loud: bool = True) -> LaunchPlan:
    argv = (sys.executable, "-c", LAUNCHER, str(folder), how, RANK, str(ranks))
    return LaunchPlan((ProcessPlan("torchrun", argv, loud=loud),), scratch="THEIR_LOGS")


def wait_for(holds: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def pids(folder: Path, kind: str) -> list[int]:
    return [int(path.stem) for path in folder.glob(f"*.{kind}")]


def struck(folder: Path, number: signal.Signals, ranks: int, again: bool = False) -> threading.Thread:
    """Signals this process once the ranks have begun."""

    def strike() -> None:
        wait_for(lambda: len(pids(folder, "began")) == ranks and (folder / "launcher").exists(), "ranks did not begin")
        os.kill(os.getpid(), number)
        if again:
            wait_for(lambda: bool(pids(folder, "heard")), "no rank heard")
            time.sleep(1.2)  # the launcher is killed by then
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=strike)
    thread.start()
    return thread


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_its_ranks_get_the_signal_and_it_says_nothing(
    number: signal.Signals, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    thread = struck(tmp_path, number, 2)
    code = execute(launched(tmp_path), messages=io.StringIO())
    thread.join()
    assert code == 128 + number
    heard = [int((tmp_path / f"{pid}.heard").read_text()) for pid in pids(tmp_path, "began")]
    assert heard == [number] * 2
    said = capfd.readouterr()
    assert "Traceback" not in said.out + said.err
    assert all(lifeline.stat_of(pid) is None for pid in pids(tmp_path, "began"))


def test_one_that_is_not_loud_gets_the_signal_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    thread = struck(tmp_path, signal.SIGINT, 1)
    patience = Patience(to_stop=0.5, after_terminate=0.5)
    assert execute(launched(tmp_path, ranks=1, loud=False), patience=patience, messages=io.StringIO()) == 130
    thread.join()
    assert "got signal 2" in capfd.readouterr().err
    for pid in pids(tmp_path, "began"):
        os.kill(pid, signal.SIGKILL)  # of a launcher that ends none


@pytest.mark.parametrize("again", [False, True])
def test_ranks_that_do_not_end_are_killed(again: bool, tmp_path: Path) -> None:
    """At the end of the patience, or at the second Ctrl-C."""
    thread, began = struck(tmp_path, signal.SIGINT, 2, again), time.monotonic()
    patience = Patience(to_stop=60.0 if again else 2.0, after_terminate=60.0)
    assert execute(launched(tmp_path, "stays"), patience=patience, messages=io.StringIO()) == 130
    thread.join()
    assert time.monotonic() - began < 50
    assert len(pids(tmp_path, "began")) == 2
    assert all(lifeline.stat_of(pid) is None for pid in pids(tmp_path, "began"))


def test_a_time_limit_is_no_reason_for_a_traceback_either(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = io.StringIO()
    assert execute(launched(tmp_path), timeout=2.0, messages=said) == 124
    assert "the time limit of 2 s has passed" in said.getvalue()
    assert "Traceback" not in capfd.readouterr().err


def test_its_folder_goes_with_it_and_one_that_the_user_named_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(launched(tmp_path, ranks=0), timeout=0.5, messages=io.StringIO())
    made = (tmp_path / "folder").read_text()
    assert made
    assert not Path(made).exists()
    kept = tmp_path / "mine"
    kept.mkdir()
    monkeypatch.setenv("THEIR_LOGS", str(kept))
    execute(launched(tmp_path, ranks=0), timeout=0.5, messages=io.StringIO())
    assert (tmp_path / "folder").read_text() == str(kept)
    assert (kept / "kept").exists()


def test_it_ends_with_busbw_also_while_it_stands(tmp_path: Path) -> None:
    """SIGKILL to busbw while its launcher is stopped: SIGTERM would wait for ever."""
    code = (
        "import io, sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]); import test_loud as t; "
        "t.execute(t.launched(Path(sys.argv[2]), 'stays', 1), messages=io.StringIO())"
    )
    words = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path)]
    busbw = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    try:
        wait_for(lambda: bool(pids(tmp_path, "began")) and (tmp_path / "launcher").exists(), "it did not begin")
        launcher = int((tmp_path / "launcher").read_text())
        os.kill(launcher, signal.SIGSTOP)
        busbw.kill()
        wait_for(lambda: lifeline.stat_of(launcher) is None, "the launcher stays", 5.0)
    finally:
        busbw.kill()
        busbw.wait()
        for pid in pids(tmp_path, "began"):
            os.kill(pid, signal.SIGKILL)


def test_torchrun_of_one_host_is_loud_and_its_logs_are_ours() -> None:
    assert plan(PLAIN).processes[0].loud
    assert plan(PLAIN).scratch == LOG_FOLDER == "PET_LOG_DIR"
    assert not plan(replace(PLAIN, nodes=2)).processes[0].loud, "its other agents wait for a word"
