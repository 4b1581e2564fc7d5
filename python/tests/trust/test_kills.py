"""Killed at a random moment, a measurement leaves no process and no file: the short form of tools/kill_trials."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from busbw.base import lifeline

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD") or ROOT / "build")
ENGINE = BUILD / "bin" / "busbw-engine"
MOST_S = 280.0

needs_engine = pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")


@needs_engine
@pytest.mark.parametrize(
    ("launchers", "hits"),
    [
        ("threads run", "KILL"),
        ("run mpirun hydra", "KILL TERM ALL-KILL"),
        ("run mpirun", "GROUP-INT GROUP-HUP SHELL-KILL SHELL-HUP LAUNCHER-TERM"),
        ("run", "STOP"),
    ],
)
def test_nothing_is_left_of_killed_measurements(launchers: str, hits: str) -> None:
    words = [str(ROOT / "tools" / "kill_trials"), "--trials", "6", "--seed", "7", "--engine", str(ENGINE)]
    words += ["--jobs", "2", "--slack", "3"]  # the machine of CI may be busy: the limits are the campaign's
    words += ["--only", *launchers.split(), "--hits", *hits.split()]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=MOST_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kill_trials: 6 of 6 clean" in done.stdout
    if hits == "STOP":
        assert "named after" in done.stdout


def test_the_lifeline_ends_a_python_rank_with_its_parent(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    rank = (
        "import os, time; from busbw.base import lifeline; lifeline.hold(os.environ); "
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}} '); time.sleep(60)"
    )
    parent = subprocess.Popen(
        ["bash", "-c", f'{sys.executable} -c "$RANK" & wait'],
        env={**os.environ, "RANK": rank, "PYTHONPATH": str(ROOT / "python")},
        start_new_session=True,
    )
    pid = int(_wait_for(pids))
    assert lifeline.stat_of(pid) is not None
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 10
    while lifeline.stat_of(pid) is not None:
        assert time.monotonic() < deadline, "it outlives its parent"
        time.sleep(0.05)


def test_parents_of_another_host_are_not_looked_for() -> None:
    mine = lifeline.setting({})[lifeline.VARIABLE]
    assert lifeline.named({lifeline.VARIABLE: mine})[-1][0] == os.getpid()
    assert lifeline.named({lifeline.VARIABLE: "x" + mine}) == []
    for damaged in ("", "/", "a/b/c", mine + ",x.y", mine.rpartition("/")[0] + "/"):
        assert lifeline.named({lifeline.VARIABLE: damaged}) == []


def _wait_for(path: Path) -> str:
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text().endswith(" ")):
        assert time.monotonic() < deadline, "it did not start"
        time.sleep(0.02)
    return path.read_text()
