"""What Slurm prints is understood without a Slurm: states, reasons, refusals."""

from __future__ import annotations

import io
import signal
import subprocess
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.launch import submit as submitting
from busbw.launch.plan import Submission
from busbw.launch.slurm_queue import refusal, state_of, state_of_accounting
from busbw.launch.submit import Phase, State, submit

LINE = (
    "JobId=7 JobName=busbw UserId=me(1) Priority=1 JobState={state} Reason={reason} Dependency=(null) Requeue=0 "
    "ExitCode={code} RunTime=00:00:01 TimeLimit=00:20:00 ReqNodeList=(null) NodeList=n[1-2] BatchHost=n1"
)


def state(word: str, reason: str = "None", code: str = "0:0") -> State:
    return state_of(LINE.format(state=word, reason=reason, code=code))


@pytest.mark.parametrize(
    ("word", "code", "exit_code", "sentence"),
    [
        ("COMPLETED", "0:0", 0, ""),
        ("FAILED", "3:0", 3, "job 7 ended as FAILED with exit code 3 on n[1-2]"),
        ("FAILED", "0:9", 137, "job 7 ended as FAILED with exit code 137 on n[1-2]"),
        (
            "TIMEOUT",
            "0:15",
            124,
            "Slurm ended job 7 at its time limit of 00:20:00; what was measured until then is kept",
        ),
        ("CANCELLED", "0:15", 130, "job 7 was cancelled; what was measured until then is kept"),
        ("OUT_OF_MEMORY", "0:125", 253, "job 7 ran out of memory; a smaller --maxbytes needs less"),
    ],
)
def test_an_end_has_its_exit_code_and_its_sentence(word: str, code: str, exit_code: int, sentence: str) -> None:
    assert state(word, code=code) == State(Phase.ENDED, sentence, exit_code)


def test_a_lost_node_is_named() -> None:
    found = state("NODE_FAIL")
    assert (found.phase, found.exit_code) == (Phase.ENDED, 1)
    assert "lost a node of job 7 (n[1-2])" in found.sentence


def test_waiting_says_for_what_and_hopeless_waiting_ends() -> None:
    assert state("PENDING", "Resources") == State(Phase.WAITING, "job 7 waits in the queue (Resources)")
    assert state("PENDING", "PartitionNodeLimit").phase is Phase.HOPELESS
    assert state("RUNNING") == State(Phase.RUNNING, "job 7 runs on n[1-2]")


def test_a_preempted_job_is_told_from_one_that_waits_for_the_first_time() -> None:
    restarted = state_of(LINE.format(state="PENDING", reason="BeginTime", code="0:0") + " Restarts=1")
    assert restarted.phase is Phase.WAITING and "put back into the queue and will start again" in restarted.sentence
    gone = state("PREEMPTED", code="0:15")
    assert (gone.phase, gone.exit_code) == (Phase.ENDED, 143) and "--requeue starts such a job again" in gone.sentence


def test_a_record_is_whole_with_its_last_line(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    assert not submitting.is_whole(record)
    for text, whole in (
        ('{"schema":1,"kind":"run"}\n', False),
        ('{"schema":1,"kind":"run"}\n{"schema":1,"kind":"end"', False),
        ('{"schema":1,"kind":"run"}\n{"schema":1,"kind":"end"}\n', True),
    ):
        record.write_text(text)
        assert submitting.is_whole(record) is whole, text
    assert submitting.is_whole(Path("/dev/null")), "a device is no file that comes late"


def test_a_record_that_never_comes_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitting, "RECORD_SECONDS", 0.5)
    monkeypatch.setattr(submitting, "SETTLE_SECONDS", 0.1)
    messages = io.StringIO()
    submission = Submission("slurm", ("x",), awaited=tmp_path / "never.jsonl")
    assert submit(submission, Silent(State(Phase.ENDED)), messages) == 0
    assert "waiting up to 0.5 s until" in messages.getvalue()
    failed = Silent(State(Phase.ENDED, "failed", 3))
    messages = io.StringIO()
    assert submit(submission, failed, messages) == 3
    assert "waiting" not in messages.getvalue(), "a job that failed may have left none"


def test_accounting_answers_once_the_controller_has_forgotten() -> None:
    assert state_of_accounting("7", "COMPLETED|0:0|n1") == State(Phase.ENDED)
    assert state_of_accounting("7", "CANCELLED by 0|0:15|n1").exit_code == 130
    assert state_of_accounting("7", "").exit_code == 1


def test_a_refusal_is_slurms_own_reason() -> None:
    text = "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed: Invalid name\n"
    assert refusal(text) == "Invalid name"
    assert refusal("") == "it gave no reason"


class Silent:
    """A scheduler that takes a job and then says what it is told to."""

    def __init__(self, *states: State) -> None:
        self.states = list(states)
        self.cancelled: list[str] = []

    def submit(self, _submission: Submission) -> str:
        return "7"

    def state(self, _job: str) -> State:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def cancel(self, job: str) -> None:
        self.cancelled.append(job)

    def fetch(self, _job: str, _submission: Submission) -> None:
        pass

    def close(self, _job: str) -> None:
        pass


def test_a_scheduler_that_falls_silent_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitting, "SILENT_SECONDS", 0.5)
    scheduler = Silent(State(Phase.RUNNING, "runs"), State(Phase.UNKNOWN, "no route"))
    with pytest.raises(UserError, match=r"has not answered for 0.5 s: no route"):
        submit(Submission("slurm", ("x",)), scheduler, io.StringIO())
    assert scheduler.cancelled == ["7"]


def test_a_hopeless_job_is_cancelled() -> None:
    scheduler = Silent(State(Phase.HOPELESS, "never"), State(Phase.ENDED))
    with pytest.raises(UserError, match="job 7 was cancelled: never"):
        submit(Submission("slurm", ("x",)), scheduler, io.StringIO())
    assert "7" in scheduler.cancelled


def test_output_is_passed_on_once_and_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "job.out"
    output.write_text("first\n")

    class Writing(Silent):
        def state(self, job: str) -> State:
            with output.open("a") as stream:
                stream.write("more\n")
            return super().state(job)

    scheduler = Writing(State(Phase.RUNNING, "runs"), State(Phase.ENDED, "ended", 3))
    messages = io.StringIO()
    assert submit(Submission("slurm", ("x",), output), scheduler, messages) == 3
    assert capsys.readouterr().out == "first\nmore\nmore\n"
    assert messages.getvalue().splitlines() == [
        "busbw run: job 7 is submitted; Ctrl-C cancels it",
        "busbw run: runs",
        "busbw run: ended",
    ]


def test_signals_are_as_before_once_the_job_has_ended() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert submit(Submission("slurm", ("x",)), Silent(State(Phase.ENDED)), io.StringIO()) == 0
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_a_missing_scontrol_is_an_unknown_state(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(subprocess, "run", missing)
    from busbw.launch import slurm_queue

    assert slurm_queue.state("7").phase is Phase.UNKNOWN
