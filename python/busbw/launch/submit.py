"""Hands a job to a scheduler, follows it, passes on its output, and cancels it where we are told to stop."""

from __future__ import annotations

import contextlib
import enum
import signal
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Protocol, cast

from busbw.base.errors import UserError
from busbw.launch.plan import Submission

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0  # seconds: a scheduler serves everyone, and is asked gently
CANCEL_SECONDS = 60.0  # until a cancelled job must be gone; Slurm itself gives ranks 30 s to end
SILENT_SECONDS = 120.0  # how long the scheduler itself may be away
SETTLE_SECONDS = 3.0  # until what a node wrote is seen on a shared folder
RECORD_SECONDS = 90.0  # until the record of a job that ended well is: NFS remembers a folder for up to 60 s
LAST_LINE_BYTES = 64 << 10

SCHEDULERS = {"slurm": "busbw.launch.slurm_queue", "kubernetes": "busbw.launch.kubernetes_queue"}


class Phase(enum.Enum):
    """Where a job stands."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    HOPELESS = "hopeless"  # it waits for what will never be
    UNKNOWN = "unknown"  # the scheduler did not answer


@dataclass(frozen=True)
class State:
    """What a scheduler says of a job: `sentence` for people, `exit_code` once it has ended."""

    phase: Phase
    sentence: str = ""
    exit_code: int = 0


class Scheduler(Protocol):
    """What a scheduler's module offers."""

    def submit(self, submission: Submission) -> str:
        """Hand the job over and return its identifier, or raise UserError with the scheduler's reason."""
        ...

    def state(self, job: str) -> State:
        """Ask once."""
        ...

    def cancel(self, job: str) -> None:
        """Ask for the end of the job."""
        ...

    def fetch(self, job: str, submission: Submission) -> None:
        """Bring what the job has written to where the submission says, if it is not there by itself."""
        ...

    def close(self, job: str) -> None:
        """Tidy up after a job that has ended and was fetched."""
        ...


def submit(submission: Submission, scheduler: Scheduler | None = None, messages: IO[str] | None = None) -> int:
    """Exit code of the job, once it has ended."""
    acting = scheduler or cast(Scheduler, import_module(SCHEDULERS[submission.scheduler]))
    # Blocked, so that a signal waits until we ask for it: none falls between submitting and knowing the job's number.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        return _Watch(submission, acting, messages or sys.stderr).run()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Watch:
    """One job from its submission to its end."""

    def __init__(self, submission: Submission, scheduler: Scheduler, messages: IO[str]) -> None:
        self._submission = submission
        self._scheduler = scheduler
        self._messages = messages
        self._tails = [Tail(submission.output, sys.stdout), Tail(submission.error, sys.stderr)]
        self._said = ""

    def run(self) -> int:
        job = self._scheduler.submit(self._submission)
        self._say(f"job {job} is submitted; Ctrl-C cancels it")
        try:
            state, stopped_by = self._follow(job)
        except BaseException:
            self._scheduler.cancel(job)  # whatever went wrong here, no job of ours is left in the queue
            raise
        self._settle(job)
        if not stopped_by and state.exit_code == 0:
            self._await_record(job)
        self._scheduler.close(job)
        if stopped_by:
            return 128 + stopped_by
        if state.sentence:
            self._say(state.sentence)
        return state.exit_code

    def _follow(self, job: str) -> tuple[State, int]:
        pause, heard = FIRST_PAUSE, time.monotonic()
        while True:
            state = self._scheduler.state(job)
            self._pass_on(job)
            if state.phase is Phase.ENDED:
                return state, 0
            if state.phase is Phase.HOPELESS:
                self._cancel(job)
                raise UserError(f"job {job} was cancelled: {state.sentence}")
            if state.phase is Phase.UNKNOWN:
                if time.monotonic() - heard > SILENT_SECONDS:
                    raise UserError(f"the scheduler has not answered for {SILENT_SECONDS:g} s: {state.sentence}")
            else:
                heard = time.monotonic()
                self._tell(state)
            if stopped_by := _signal_within(pause):
                self._say(f"{signal.Signals(stopped_by).name}: cancelling job {job}")
                return self._cancel(job), stopped_by
            pause = min(pause * 1.5, LONGEST_PAUSE)

    def _cancel(self, job: str) -> State:
        self._pass_on(job)
        self._scheduler.cancel(job)
        end = time.monotonic() + CANCEL_SECONDS
        while time.monotonic() < end:
            state = self._scheduler.state(job)
            if state.phase is Phase.ENDED:
                return state
            self._pass_on(job)
            if _signal_within(0.5):
                break  # asked twice: the scheduler goes on alone
        self._say(f"job {job} has not ended yet; the scheduler is still ending it")
        return State(Phase.ENDED, exit_code=1)

    def _pass_on(self, job: str) -> None:
        self._scheduler.fetch(job, self._submission)
        for tail in self._tails:
            tail.pass_on()

    def _settle(self, job: str) -> None:
        """What was written last on another node may need a moment to be seen here."""
        end = time.monotonic() + SETTLE_SECONDS
        while not all(tail.found for tail in self._tails) and time.monotonic() < end:
            time.sleep(0.2)
            self._pass_on(job)
        self._pass_on(job)

    def _await_record(self, job: str) -> None:
        """A job that ended well has left a whole record; a slow folder shows it later than Slurm tells of the end."""
        record = self._submission.awaited
        begin, told = time.monotonic(), False
        while record is not None and not is_whole(record) and time.monotonic() - begin < RECORD_SECONDS:
            if time.monotonic() - begin > SETTLE_SECONDS and not told:
                told = True
                self._say(f"job {job} has ended; waiting up to {RECORD_SECONDS:g} s until {record} is seen here")
            if _signal_within(0.2):
                break
        self._pass_on(job)

    def _tell(self, state: State) -> None:
        if state.sentence != self._said:
            self._said = state.sentence
            if state.sentence:
                self._say(state.sentence)

    def _say(self, sentence: str) -> None:
        self._messages.write(f"busbw run: {sentence}\n")
        self._messages.flush()


def is_whole(record: Path) -> bool:
    """Whether a record has come to its last line here; what is no file (a pipe, a device) is not waited for."""
    with contextlib.suppress(OSError):
        any(record.parent.iterdir())  # asks a file server anew what is in the folder
        if record.exists() and not record.is_file():
            return True
        with record.open("rb") as file:
            file.seek(max(0, record.stat().st_size - LAST_LINE_BYTES))
            last = file.read(LAST_LINE_BYTES)
            return last.endswith(b"\n") and b'"end"' in last.splitlines()[-1]
    return False


class Tail:
    """A file that grows, passed on as it does."""

    def __init__(self, path: Path | None, stream: IO[str]) -> None:
        self._path = path
        self._stream = stream
        self._offset = 0
        self.found = path is None

    def pass_on(self) -> None:
        """Write what has come since the last time."""
        if self._path is None:
            return
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            self.found = True
            file.seek(self._offset)
            while data := file.read(1 << 20):
                self._offset += len(data)
                self._stream.write(data.decode(errors="replace"))
            self._stream.flush()


def _signal_within(seconds: float) -> int:
    received = signal.sigtimedwait(STOPPING, seconds)
    return received.si_signo if received else 0
