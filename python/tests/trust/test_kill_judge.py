"""What kill_trials takes for a signal that a launcher lost, and what for a fault of busbw."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOOLS = str(Path(__file__).resolve().parents[3] / "tools")
sys.path.insert(0, TOOLS)
from kill_judge import Strike, ended_by_a_second  # noqa: E402
from kill_launchers import Launcher  # noqa: E402
from kill_looks import is_rank  # noqa: E402
from kill_record import kept  # noqa: E402

RANKS = '"$1"/a_perf 60 & "$1"/b_perf 60 &'
UP = ': >"$1"/up; while :; do wait; done'
LOSES_THE_FIRST = f"trap 'trap \"kill -KILL \\$(jobs -p); exit 1\" TERM' TERM; {RANKS} {UP}"
LOSES_ALL = f"trap : TERM; {RANKS} {UP}"
ENDS_ALONE = f'{RANKS} : >"$1"/up; wait'
LOSES_A_RANK = f"trap 'kill -KILL $!; sleep 60' TERM; {RANKS} {UP}"


class Trial:
    """A job of a launcher that is a script."""

    after_s = 0.0
    launcher = Launcher("fake", "", ("mpiexec",))

    def __init__(self, folder: Path, script: str) -> None:
        self.output = folder / "out"
        self.folder = str(folder)
        (folder / "mpiexec").symlink_to(shutil.which("bash") or "/bin/bash")
        for name in ("a_perf", "b_perf"):
            (folder / name).symlink_to(shutil.which("sleep", path="/usr/bin:/bin") or "/bin/sleep")
        self.top = subprocess.Popen([folder / "mpiexec", "-c", script, "mpiexec", folder], start_new_session=True)
        deadline = time.monotonic() + 30
        while not (folder / "up").exists() or sum(map(is_rank, self.processes().values())) < 2:
            assert time.monotonic() < deadline, self.processes()
            time.sleep(0.02)

    def processes(self) -> dict[int, str]:
        self.top.poll()
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or os.getpgid(int(entry.name)) != self.top.pid:
                    continue
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if words:  # a zombie has none
                found[int(entry.name)] = words
        return found

    def end(self) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):  # mpiexec collects its ranks meanwhile
                os.kill(pid, signal.SIGKILL)
        self.top.wait()


@pytest.mark.parametrize(
    ("script", "lost"), [(LOSES_THE_FIRST, True), (LOSES_ALL, False), (ENDS_ALONE, False), (LOSES_A_RANK, False)]
)
def test_only_a_whole_job_that_a_second_signal_ends_has_lost_the_first(tmp_path: Path, script: str, lost: bool) -> None:
    trial = Trial(tmp_path, script)
    try:
        strike = Strike.of(signal.SIGTERM, [trial.top.pid], "the launcher")
        time.sleep(0.5)
        left = trial.processes()
        assert len(left) >= 1
        assert (ended_by_a_second(trial, strike, left, slack=0.1) is not None) == lost, left
    finally:
        trial.end()


def test_a_rank_that_was_hit_itself_is_never_excused(tmp_path: Path) -> None:
    trial = Trial(tmp_path, LOSES_THE_FIRST)
    try:
        rank = next(pid for pid, words in trial.processes().items() if is_rank(words))
        os.kill(rank, signal.SIGSTOP)  # so that it outlives the signal
        strike = Strike.of(signal.SIGTERM, [rank], "a rank")
        assert ended_by_a_second(trial, strike, trial.processes(), slack=0.1) is None
    finally:
        trial.end()


ROW = "  1024  256  float  sum  -1  0.95  1.07  0.00  0  0.13  7.68  0.00  N/A\n"


@pytest.mark.parametrize(
    ("screen", "record", "fault"),
    [
        (ROW * 3, '{"kind":"run"}\n' + '{"kind":"case"}\n' * 6, None),
        (ROW * 3, '{"kind":"run"}\n' + '{"kind":"case"}\n' * 5, "1 of 6 cases on the screen"),
        (ROW + ROW[:40], '{"kind":"case"}\n' * 2, None),  # the second row has no figure of both ways yet
        (ROW + ROW[:51], '{"kind":"case"}\n' * 2, "1 of 3 cases on the screen"),
        (" ".join([*ROW.split()[:9], *["N/A"] * 4]) + "\n# in place: stopped by Ctrl-C\n", '{"kind":"case"}\n', None),
        ("    2 3 all_reduce 1 MiB 12.5 17.1 0.0235 s 24 % 76 %\n", None, None),  # of the table of watch
        ("# header\nbusbw: stopped by Ctrl-C\n", '{"kind":"run"}\n{"kind":"ca', None),
        (ROW, '{"kind":"case"}\n{"kind":"ca\n{"kind":"case"}\n', "1 lines of the record are cut"),
        (ROW, None, "2 of 2 cases on the screen"),
    ],
)
def test_each_case_on_the_screen_must_be_in_whole_lines(
    screen: str, record: str | None, fault: str | None, tmp_path: Path
) -> None:
    (tmp_path / "out").write_text(screen)
    if record is not None:
        (tmp_path / "record").write_text(record)
    found = kept(tmp_path / "out", tmp_path / "record").fault
    assert found is None if fault is None else found and found.startswith(fault)
