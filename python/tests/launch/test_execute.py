"""The executor passes output, ends the job when a rank is lost, names it, and leaves nothing running."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.base.errors import UserError
from busbw.launch.execute import TIMED_OUT, Patience, execute
from busbw.launch.job import Bind, JobSpec
from busbw.launch.local import plan
from busbw.launch.supervise import Child, Rules, Supervisor

SOURCE = Path(__file__).resolve().parents[2]
Told = Callable[[int], dict[str, Any]]
# A rank that obeys ends at once, however busy the machine is: it is not to be killed before it had its turn.
SHORT = Patience(to_stop=0.4, after_terminate=30)
SOON = 40  # seconds: well before the 60 for which the ranks sleep


def launch(
    engine: Path, ranks: int, *words: str, timeout: float | None = None, patience: Patience = SHORT
) -> tuple[int, str, float]:
    """Exit code, what was said on stderr, and seconds."""
    messages = io.StringIO()
    job = JobSpec(ranks, engine, ("all_reduce", *words))
    begin = time.monotonic()
    code = execute(plan(job), timeout=timeout, patience=patience, messages=messages)
    return code, messages.getvalue(), time.monotonic() - begin


def alive(pid: int) -> bool:
    """Whether a process still runs (one that only waits to be collected does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Poll, within bounds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_ranks_meet_on_the_socket_that_rank_0_inherits(fake_engine: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, said, _ = launch(fake_engine, 4, "--meet")
    assert (code, said) == (0, "")
    assert capfd.readouterr().out == "all ranks met\n"


def test_rank_0_speaks_for_the_job_and_the_others_behind_their_names(
    fake_engine: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, said, _ = launch(fake_engine, 3, "--speak")
    captured = capfd.readouterr()
    assert (code, captured.out, captured.err) == (0, "out of 0\n", "err of 0\n")
    assert sorted(said.splitlines()) == [
        "[rank 1] err of 1",
        "[rank 1] out of 1",
        "[rank 2] err of 2",
        "[rank 2] out of 2",
    ]


def test_each_launch_has_a_new_secret_that_is_no_argument(fake_engine: Path, tmp_path: Path, told: Told) -> None:
    secrets = []
    for _ in range(2):
        launch(fake_engine, 2, "--tell", str(tmp_path))
        secrets.append(told(0)["environment"]["BUSBW_SECRET"])
        assert told(1)["environment"]["BUSBW_SECRET"] == secrets[-1]
        assert secrets[-1] not in " ".join(told(0)["argv"])
    assert secrets[0] != secrets[1]
    assert all(re.fullmatch("[0-9a-f]{32}", secret) for secret in secrets)


def test_a_rank_killed_by_a_signal_is_named_and_the_others_are_ended(
    fake_engine: Path, tmp_path: Path, told: Told
) -> None:
    words = ("--ill-rank", "2", "--ill-signal", "9", "--sleep", "60", "--tell", str(tmp_path))
    code, said, seconds = launch(fake_engine, 4, *words)
    assert code == 128 + signal.SIGKILL
    assert re.search(r"rank 2 \(pid \d+\) was killed by SIGKILL; the other 3 have 0.4 s to stop", said)
    assert seconds < SOON
    assert not any(alive(told(rank)["pid"]) for rank in range(4))


def test_a_killed_rank_is_named_though_one_that_gave_up_was_collected_before_it(
    fake_engine: Path, tmp_path: Path
) -> None:
    words = ("--code", "1", "--ill-rank", "1", "--ill-signal", "9", "--ill-after", "0.3", "--tell", str(tmp_path))
    code, said, _ = launch(fake_engine, 2, *words, patience=Patience(to_name=SOON))
    assert code == 128 + signal.SIGKILL
    assert re.search(r"rank 1 \(pid \d+\) was killed by SIGKILL", said)
    assert "rank 0" not in said


def test_the_promised_10_s_hold_with_the_real_patience() -> None:
    patience = Patience()
    assert patience.to_name + patience.to_stop + patience.after_terminate < 10


def test_a_rank_that_ignores_termination_is_killed(fake_engine: Path, tmp_path: Path) -> None:
    words = ("--ill-rank", "1", "--ill-code", "3", "--deaf", "--sleep", "60", "--tell", str(tmp_path))
    code, said, seconds = launch(fake_engine, 2, *words, patience=Patience(to_stop=0.4, after_terminate=0.3))
    assert code == 3
    assert "rank 1" in said and "exit code 3" in said
    assert "rank 0" in said and "it is killed" in said
    assert seconds < SOON


def test_the_exit_code_is_that_of_the_first_rank_that_failed(fake_engine: Path, tmp_path: Path) -> None:
    words = ("--ill-rank", "1", "--ill-code", "7", "--polite", "--sleep", "60", "--tell", str(tmp_path))
    code, said, _ = launch(fake_engine, 3, *words)
    assert code == 7
    assert said.count("exit code") == 1


def test_a_rank_that_ends_well_early_disturbs_nobody(fake_engine: Path) -> None:
    code, said, seconds = launch(fake_engine, 3, "--ill-rank", "1", "--ill-code", "0", "--sleep", "0.8")
    assert (code, said) == (0, "")
    assert seconds > 0.7


def test_a_timeout_ends_the_ranks_and_says_which(fake_engine: Path) -> None:
    code, said, seconds = launch(fake_engine, 2, "--sleep", "60", timeout=0.5)
    assert code == TIMED_OUT
    assert said == "busbw run: the time limit of 0.5 s has passed; stopping rank 0, rank 1\n"
    assert seconds < SOON


def test_an_engine_that_cannot_be_started_is_one_sentence_and_no_process_stays(tmp_path: Path) -> None:
    broken = tmp_path / "engine"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    with pytest.raises(UserError, match="cannot be started as rank 0"):
        launch(broken, 2)


def test_whatever_ends_the_supervisor_no_process_stays() -> None:
    child = Child("sleeper", (sys.executable, "-c", "import time; time.sleep(60)"), os.environ)
    supervisor = Supervisor([child, child], Rules(patience=SHORT, messages=io.StringIO()))

    def fail() -> None:
        raise RuntimeError("something that nobody thought of")

    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="nobody thought of"):
        supervisor.run(started=fail)
    assert len(supervisor.processes) == 2
    assert not [process.popen.pid for process in supervisor.processes if alive(process.popen.pid)]
    assert time.monotonic() - begin < SOON


def supervised(code: str, patience: Patience, started: Callable[[], None]) -> tuple[int, str, float]:
    """Exit code, what was said, and seconds, of a supervisor with one child."""
    messages = io.StringIO()
    supervisor = Supervisor([Child("sleeper", (sys.executable, "-c", code), os.environ)],
                            Rules(patience=patience, messages=messages))  # fmt: skip
    begin = time.monotonic()
    code_of_all = supervisor.run(started=started)
    assert not alive(supervisor.processes[0].popen.pid)
    return code_of_all, messages.getvalue(), time.monotonic() - begin


def test_who_is_asked_twice_does_not_wait_for_the_deaf(tmp_path: Path) -> None:
    ready = tmp_path / "ready"

    def twice() -> None:
        wait_until(ready.exists)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(Patience().one_wish + 0.3)

    deaf = f"import signal, time; signal.signal(15, signal.SIG_IGN); open({str(ready)!r}, 'w').close(); time.sleep(60)"
    code, _, seconds = supervised(deaf, Patience(to_stop=300), threading.Thread(target=twice).start)
    assert code == 128 + signal.SIGTERM
    assert seconds < SOON


def test_a_signal_that_comes_twice_at_once_is_one_wish(tmp_path: Path) -> None:
    ready, kept = tmp_path / "ready", tmp_path / "kept"

    def at_once() -> None:
        wait_until(ready.exists)
        for number in (signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
            time.sleep(0.1)

    careful = (
        "import signal, sys, time\n"
        f"signal.signal(15, lambda *_: (time.sleep(0.5), open({str(kept)!r}, 'w').close(), sys.exit(1)))\n"
        f"open({str(ready)!r}, 'w').close()\ntime.sleep(60)"
    )
    code, said, seconds = supervised(careful, Patience(to_stop=20), threading.Thread(target=at_once).start)
    assert code == 128 + signal.SIGTERM and kept.exists() and "killed" not in said
    assert seconds < SOON


def test_a_child_that_stands_still_is_named_and_ended() -> None:
    still = "import os, signal, time; os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)"
    code, said, seconds = supervised(still, Patience(stopped=0.6, to_stop=1, after_terminate=1), lambda: None)
    assert code == 1 and "is stopped (SIGSTOP)" in said
    assert seconds < SOON


ABOVE = """
import os, sys
from busbw.base import lifeline
from busbw.launch.supervise import Child, Rules, Supervisor
lifeline.begin(os.environ)
supervisor = Supervisor([Child("sleeper", (sys.executable, "-c", "import time; time.sleep(60)"), os.environ)], Rules())
supervisor.run(started=lambda: print(supervisor.processes[0].popen.pid, flush=True))
"""


def test_a_supervisor_ends_its_children_when_its_shell_has_ended() -> None:
    with subprocess.Popen(["bash", "-c", f'{sys.executable} -c "$CODE"; exit $?'], start_new_session=True, text=True,
                          env={**os.environ, "CODE": ABOVE, "PYTHONPATH": str(SOURCE)},
                          stdout=subprocess.PIPE) as shell:  # fmt: skip
        assert shell.stdout
        child = int(shell.stdout.readline())
        shell.kill()
    wait_until(lambda: not alive(child), seconds=SOON)


def test_cores_are_bound_before_the_engine_starts(fake_engine: Path, tmp_path: Path, told: Told) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    job = JobSpec(len(cpus), fake_engine, ("all_reduce", "--tell", str(tmp_path)), bind=Bind.CORES)
    assert execute(plan(job)) == 0
    assert sorted(cpu for rank in range(len(cpus)) for cpu in told(rank)["cpus"]) == cpus


# --- the launcher as a process of its own: signals -------------------------------------------------------------


def start_launcher(*words: str) -> subprocess.Popen[str]:
    """`busbw run` as a user starts it."""
    argv = [sys.executable, "-m", "busbw", "run", *words]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_launcher_reaches_every_rank(
    number: signal.Signals, fake_engine: Path, tmp_path: Path, told: Told
) -> None:
    launcher = start_launcher("-n", "3", "all_reduce", "--polite", "--sleep", "60", "--tell", str(tmp_path))
    wait_until(lambda: all((tmp_path / f"{rank}.json").exists() for rank in range(3)))
    launcher.send_signal(number)
    _, err = launcher.communicate(timeout=SOON)
    assert launcher.returncode == 128 + number
    assert "was killed" not in err
    assert not any(alive(told(rank)["pid"]) for rank in range(3))


def test_a_second_interrupt_kills_what_does_not_stop(fake_engine: Path, tmp_path: Path, told: Told) -> None:
    launcher = start_launcher("-n", "2", "all_reduce", "--deaf", "--sleep", "60", "--tell", str(tmp_path))
    wait_until(lambda: all((tmp_path / f"{rank}.json").exists() for rank in range(2)))
    launcher.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert launcher.poll() is None
    launcher.send_signal(signal.SIGINT)
    launcher.communicate(timeout=8)  # after 9.5 s they would be killed without being asked twice
    assert launcher.returncode == 128 + signal.SIGINT
    assert not any(alive(told(rank)["pid"]) for rank in range(2))


def test_ranks_end_when_the_launcher_itself_is_killed(fake_engine: Path, tmp_path: Path, told: Told) -> None:
    launcher = start_launcher("-n", "2", "all_reduce", "--sleep", "60", "--tell", str(tmp_path))
    wait_until(lambda: all((tmp_path / f"{rank}.json").exists() for rank in range(2)))
    launcher.kill()
    launcher.communicate(timeout=SOON)
    wait_until(lambda: not any(alive(told(rank)["pid"]) for rank in range(2)), seconds=SOON)
