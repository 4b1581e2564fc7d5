"""Who is killed at an awkward moment: between fork and program, with workers, with a folder, below a launcher."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.base import lifeline
from busbw.base.errors import UserError
from busbw.base.programs import ask
from busbw.base.scratch import scratch_folder
from busbw.launch.newborn import before_exec, no_signal
from busbw.torch_bench.siblings import stopped

ROOT = Path(__file__).resolve().parents[3]
SOON_S = 10.0
INT_ALONE = frozenset({signal.SIGINT})


def started(code: str, **more: str) -> subprocess.Popen[str]:
    """A Python that runs this and says what it does."""
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **more},
    )  # fmt: skip


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def soon(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def gone(pid: int) -> Callable[[], bool]:
    return lambda: lifeline.stat_of(pid) is None


def test_a_signal_between_fork_and_program_is_not_lost() -> None:
    before = signal.signal(signal.SIGINT, lambda *_: None)  # as the supervisor's own handler, which notes it
    try:
        with no_signal(INT_ALONE) as mask:
            prepare = before_exec(mask, frozenset(), any_cpu=False)

            def struck() -> None:
                os.kill(os.getpid(), signal.SIGINT)
                prepare()

            try:
                child = subprocess.Popen(["sleep", "30"], preexec_fn=struck)  # noqa: PLW1509
            except subprocess.SubprocessError:
                return  # it died of it before there was a program
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        assert child.wait(SOON_S) == -signal.SIGINT
    finally:
        child.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_scratch_folder_goes_with_its_killed_owner(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import time\nfrom busbw.base.scratch import scratch_folder\n"
        "with scratch_folder('busbw-test-') as folder:\n"
        "    (folder / 'inside').mkdir(); (folder / 'inside' / 'file').write_text('x')\n"
        "    print(folder, flush=True); time.sleep(60)"
    )
    with started(code, TMPDIR=str(tmp_path)) as owner:
        folder = Path(line_of(owner))
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700
        owner.send_signal(number)
    soon(lambda: not folder.exists(), f"{folder} is left")


def test_a_scratch_folder_is_gone_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_folder("busbw-test-") as folder:
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_the_shell_that_removes_a_scratch_folder_has_a_session_of_its_own(tmp_path: Path) -> None:
    code = (
        "import os\nfrom busbw.base.scratch import scratch_folder\n"
        "with scratch_folder('busbw-test-'):\n"
        "    shell = int(open(f'/proc/self/task/{os.getpid()}/children').read())\n"
        "    print(os.getsid(0) != os.getsid(shell) == shell, flush=True)\n"
    )
    with started(code, TMPDIR=str(tmp_path)) as owner:
        assert line_of(owner) == "True"
        owner.wait(SOON_S)


def test_a_program_that_does_not_answer_ends_with_all_that_it_started(tmp_path: Path) -> None:
    said = tmp_path / "pid"
    done = ask(["sh", "-c", f"sleep 60 & echo $! > {said}; wait"], 1.0)
    assert "did not answer" in done.stderr
    soon(gone(int(said.read_text())), "what it started is left")


FAILING_POOL = (
    "import os, time\nfrom busbw.base.pool import mapped\n"
    "def work(number):\n"
    "    if number == 0: time.sleep(1); raise ValueError\n"
    "    os.write(1, f'{os.getpid()}\\n'.encode()); time.sleep(60)\n"
    "try: mapped(work, [0, 1], 2)\nexcept ValueError: print('failed')"
)


def test_workers_end_when_another_one_has_failed() -> None:
    with started(FAILING_POOL) as master:
        worker = int(line_of(master))
        try:
            assert "failed" in master.communicate(timeout=3 * SOON_S)[0]
        finally:
            master.kill()
    soon(gone(worker), "it works on for nobody")


POOL = (
    "import os, time\nfrom busbw.base.errors import UserError\nfrom busbw.base.pool import mapped\n"
    "def work(_):\n    os.write(1, f'{os.getpid()}\\n'.encode()); time.sleep(60)\n"
    "try: mapped(work, [1, 2], 2)\nexcept UserError as error: print(error)"
)


def test_workers_end_with_their_killed_master_and_a_killed_worker_is_said() -> None:
    with started(POOL) as master:
        workers = [int(line_of(master)), int(line_of(master))]
        master.kill()
    for pid in workers:
        soon(gone(pid), "a worker outlives its master")
    with started(POOL) as master:
        workers = [int(line_of(master)), int(line_of(master))]
        os.kill(workers[0], signal.SIGKILL)
        assert "was killed" in master.communicate(timeout=SOON_S)[0]
        assert master.returncode == 0
    soon(gone(workers[1]), "the other worker is left")


def shell(code: str, first: str = "", **more: str) -> subprocess.Popen[str]:
    """A shell in a session of its own that waits for a Python."""
    return subprocess.Popen(
        ["bash", "-c", f'{first} {sys.executable} -c "$CODE"; exit $?'], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "CODE": code, "PYTHONPATH": str(ROOT / "python"), **more}, start_new_session=True,
    )  # fmt: skip


def test_a_verb_that_computes_ends_with_its_shell() -> None:
    code = (
        "import os, time; from busbw.base import lifeline; lifeline.begin(os.environ); lifeline.end_with_shell(); "
        "os.write(1, f'{os.getpid()}\\n'.encode()); time.sleep(60)"
    )
    with shell(code) as above:
        pid = int(line_of(above))
        above.kill()
    soon(gone(pid), "it computes on for nobody")


LAUNCHER = """
import os, subprocess, sys, time
rank = ("import os, time; from busbw.base import lifeline; lifeline.hold(os.environ); "
        "os.write(1, f'{os.getpid()}\\\\n'.encode()); time.sleep(60)")
time.sleep(float(os.environ["LATE"]))
child = subprocess.Popen([sys.executable, "-c", rank], start_new_session=True)  # as torchrun starts its ranks
print(child.pid, flush=True)
child.wait()
print("ended", flush=True)
"""


@pytest.mark.parametrize("late", [0.0, 0.5])
def test_a_rank_in_a_session_of_its_own_ends_with_the_shell_above_its_launcher(late: float) -> None:
    with shell(LAUNCHER, "echo ready;", LATE=str(late)) as above:
        assert line_of(above) == "ready"
        if late:
            time.sleep(0.2)  # its launcher has begun, its rank has not
        else:
            assert line_of(above) == line_of(above), "the rank is the launcher's child"
        above.kill()
        assert above.stdout
        assert "ended" in above.stdout.read()  # to the end of the launcher, which holds it open


def test_a_stopped_rank_of_the_same_launcher_is_found() -> None:
    ranks = [subprocess.Popen(["sleep", "60"], env={"RANK": str(number)}) for number in range(2)]
    try:
        soon(lambda: all(Path(f"/proc/{each.pid}/comm").read_text() == "sleep\n" for each in ranks), "no start")
        assert list(stopped(os.getpid(), ranks[0].pid, "RANK")) == []
        ranks[1].send_signal(signal.SIGSTOP)
        soon(lambda: list(stopped(os.getpid(), ranks[0].pid, "RANK")) == [(ranks[1].pid, "1")], "not found")
        assert list(stopped(os.getpid(), ranks[1].pid, "RANK")) == [], "not itself"
        assert list(stopped(os.getpid(), ranks[0].pid, "PMI_RANK")) == [], "not who is no rank"
    finally:
        for each in ranks:
            each.kill()
            each.wait()


def test_the_watcher_passes_on_an_interrupt_that_was_for_it_alone() -> None:
    from busbw.cli.watch import _signals_for, _wait

    job = subprocess.Popen(["sleep", "60"])
    try:
        with _signals_for(job):
            os.kill(os.getpid(), signal.SIGINT)
            _wait(job)
            assert job.wait(SOON_S) == -signal.SIGINT
    finally:
        job.kill()


def test_no_setting_makes_python_forget_a_signal() -> None:
    """CPython swallows a KeyboardInterrupt while it reads PYTHONWARNINGS: busbw sets that for nobody."""
    files = [path for path in (ROOT / "python" / "busbw").rglob("*.py")
             if re.search(r"[\"']PYTHONWARNINGS[\"']", path.read_text())]  # fmt: skip
    assert files == []


def test_a_number_that_is_used_again_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    line = lifeline.Lifeline({})
    mine = lifeline.stat_of(os.getpid())
    assert mine
    line.watched = {os.getpid(): mine.start}
    assert line.gone() is None
    line.watched = {os.getpid(): mine.start + 1}
    assert line.gone() == os.getpid()
    monkeypatch.setattr(lifeline, "begin", lambda _: line)
    with pytest.raises(UserError, match="has ended"):
        lifeline.refuse_orphans()


def test_a_living_parent_is_not_called_ended_for_want_of_descriptors() -> None:
    code = (
        "import os, resource; from busbw.base.lifeline import has_ended, stat_of; p = os.getppid(); "
        "s = stat_of(p).start; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0)); print(has_ended(p, s))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize("verb", ["overlap --ranks 2 -- all_reduce -b 1K -e 1K", "watch -- touch runs"])
def test_a_verb_whose_shell_was_killed_before_python_ran_begins_nothing(verb: str, tmp_path: Path) -> None:
    """What a verb imports, and looks up before its first measurement, takes seconds on a busy machine."""
    # It begins in a session without a leader.
    line = f"(sleep 0.5; exec {sys.executable} -m busbw {verb}) & kill -9 $$"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_RUNS": str(tmp_path / "runs")}
    said = subprocess.run(
        ["bash", "-c", line], env=environment, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False, timeout=60, cwd=tmp_path,
    ).stdout  # fmt: skip
    assert said == ""
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("begins", [False, True])
def test_a_program_that_is_watched_outlives_the_shell_and_one_that_has_not_begun_does_not_begin(
    begins: bool, tmp_path: Path
) -> None:
    code = (
        "import os, subprocess, sys, time; from busbw.base import lifeline; lifeline.begin(os.environ); "
        "lifeline.end_with_shell(); "
        + ("lifeline.outlive_shell(); " if begins else "")
        + "os.write(1, f'{os.getpid()}\\n'.encode()); time.sleep(2); open(sys.argv[1], 'w').close()"
    )
    line = f'{sys.executable} -c "$CODE" {tmp_path}/begun; exit $?'
    with subprocess.Popen(
        ["bash", "-c", line], stdout=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "CODE": code, "PYTHONPATH": str(ROOT / "python")},
    ) as above:  # fmt: skip
        pid = int(line_of(above))
        above.kill()
    soon(gone(pid), "it does not end")
    assert (tmp_path / "begun").exists() == begins
