"""Carries out a LaunchPlan: starts the processes, passes output and signals on, and ends all when one is lost."""

from __future__ import annotations

import ctypes
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO

from busbw.base.errors import UserError
from busbw.launch.plan import LaunchPlan, ProcessPlan

SECRET = "BUSBW_SECRET"
TIMED_OUT = 124  # as timeout(1) has it
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Patience:
    """How long the others may take once one process is lost; the sum stays below the promised 10 s."""

    to_stop: float = 8.0  # by themselves
    after_terminate: float = 1.5  # then they are killed
    to_name: float = 0.4  # a process that gave up may be collected before the killed one that made it give up


@dataclass
class _Process:
    plan: ProcessPlan
    popen: subprocess.Popen[bytes]
    pending: bytes = b""

    @property
    def code(self) -> int:
        """Exit code as a shell has it: 128 + signal for a process that was killed."""
        status = self.popen.returncode
        return 128 - status if status < 0 else status

    def fate(self) -> str:
        """What became of a process that did not end well."""
        status = self.popen.returncode
        if status < 0:
            return f"{self.plan.name} (pid {self.popen.pid}) was killed by {signal.Signals(-status).name}"
        return f"{self.plan.name} (pid {self.popen.pid}) ended with exit code {status}"


def execute(
    plan: LaunchPlan, *, timeout: float | None = None, patience: Patience | None = None, messages: IO[str] | None = None
) -> int:
    """Run the plan to its end and return the exit code of the first process that failed, or 0."""
    patience = patience or Patience(after_terminate=plan.grace)
    return _Execution(plan, timeout, patience, messages or sys.stderr).run()


class _Execution:
    """One launch from start to end, in one thread: waits for output, for the end of processes and for signals."""

    def __init__(self, plan: LaunchPlan, timeout: float | None, patience: Patience, messages: IO[str]) -> None:
        self._plan = plan
        self._timeout = timeout
        self._patience = patience
        self._messages = messages
        self._selector = selectors.DefaultSelector()
        self._processes: list[_Process] = []
        self._signals: list[int] = []
        self._exit_code = 0
        self._interrupted = False
        # Steps still to come once the launch is to end: (when, what to send).
        self._ending: list[tuple[float, signal.Signals]] = []

    def run(self) -> int:
        with ExitStack() as stack:
            stack.enter_context(self._selector)
            stack.enter_context(self._listening_for_signals())
            stack.callback(self._leave_nothing_behind)
            self._start()
            deadline = None if self._timeout is None else time.monotonic() + self._timeout
            while running := self._running():
                self._wait(deadline)
                self._answer_signals(running)
                self._notice_ends(running)
                if deadline is not None and time.monotonic() >= deadline:
                    deadline = None
                    self._time_out()
                self._end_step()
            self._drain()
        return self._exit_code

    # --- start -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        with ExitStack() as stack:
            listener = stack.enter_context(_meeting_place()) if self._plan.meets else None
            meeting = _meeting_environment(listener) if listener else {}
            if self._plan.secret and not os.environ.get(SECRET):
                meeting[SECRET] = secrets.token_hex(16)
            for process in self._plan.processes:
                self._processes.append(self._start_one(process, listener, meeting))

    def _start_one(self, plan: ProcessPlan, listener: socket.socket | None, meeting: dict[str, str]) -> _Process:
        environment = {**os.environ, **plan.environment, **meeting}
        inherited: tuple[int, ...] = ()
        if plan.listens and listener:
            inherited = (listener.fileno(),)
            environment["BUSBW_LISTEN_FD"] = str(listener.fileno())
        first = (
            not self._processes
        )  # its output is the job's output; the others speak with their names before each line
        try:
            popen = subprocess.Popen(
                plan.argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=None if first else subprocess.PIPE,
                stderr=None if first else subprocess.STDOUT,
                pass_fds=inherited,
                # A group of its own: Ctrl-C reaches the ranks once, from here, and not a second time from the terminal.
                start_new_session=True,
                preexec_fn=_before_exec(plan),  # noqa: PLW1509 - this program has one thread
            )
        except OSError as error:
            raise UserError(f"{plan.argv[0]} cannot be started as {plan.name}: {error.strerror}") from None
        process = _Process(plan, popen)
        if popen.stdout:
            os.set_blocking(popen.stdout.fileno(), False)
            self._selector.register(popen.stdout, selectors.EVENT_READ, process)
        return process

    # --- wait --------------------------------------------------------------------------------------------------

    def _running(self) -> list[_Process]:
        return [process for process in self._processes if process.popen.returncode is None]

    def _wait(self, deadline: float | None) -> None:
        times = [when for when, _ in self._ending[:1]] + ([deadline] if deadline is not None else [])
        # The upper bound is for the signal that arrives just before select; the wake-up descriptor brings the others.
        patience = max(0.0, min([1.0, *(when - time.monotonic() for when in times)]))
        for key, _ in self._selector.select(patience):
            if isinstance(key.data, _Process):
                self._pass_on(key.data)
            else:
                os.read(key.fd, 4096)

    def _notice_ends(self, running: list[_Process]) -> None:
        ended = _ended(running)
        if self._exit_code == 0 and not self._ending and any(process.code != 0 for process in ended):
            ended += self._until_one_was_killed([process for process in running if process not in ended], ended)
        # Who was killed is the cause; who gave up because of it may have been collected in the same moment.
        for process in sorted(ended, key=lambda process: process.popen.returncode >= 0):
            if process.code != 0 and self._exit_code == 0:
                self._exit_code = process.code
                self._lose(process)

    def _until_one_was_killed(self, running: list[_Process], ended: list[_Process]) -> list[_Process]:
        """Those who end a moment after `ended`, unless one of these was killed.

        The kernel closes the sockets of a killed process before its parent can collect it, so that the others may hear
        of its end, give up and be collected first.
        """
        deadline = time.monotonic() + self._patience.to_name
        late: list[_Process] = []
        while not any(process.popen.returncode < 0 for process in ended + late):
            if len(late) == len(running) or self._signals or time.monotonic() >= deadline:
                break
            time.sleep(0.01)
            late = _ended(running)
        return late

    def _lose(self, lost: _Process) -> None:
        others = self._running()
        if self._ending:  # already ending: by a signal or a timeout, which has been explained
            return
        waiting = f"; the other {len(others)} have {self._patience.to_stop:g} s to stop" if others else ""
        self._say(f"{lost.fate()}{waiting}")
        self._end_from(time.monotonic() + self._patience.to_stop)

    # --- end ---------------------------------------------------------------------------------------------------

    def _answer_signals(self, running: list[_Process]) -> None:
        while self._signals:
            number = signal.Signals(self._signals.pop(0))
            if self._interrupted:
                self._ending = [(0.0, signal.SIGKILL)]  # asked twice: at once
                return
            self._interrupted = True
            self._exit_code = self._exit_code or 128 + number
            for process in running:
                process.popen.send_signal(number)
            self._end_from(time.monotonic() + self._patience.to_stop)

    def _time_out(self) -> None:
        names = ", ".join(process.plan.name for process in self._running())
        self._say(f"the time limit of {self._timeout:g} s has passed; stopping {names}")
        self._exit_code = self._exit_code or TIMED_OUT
        self._end_from(time.monotonic())

    def _end_from(self, when: float) -> None:
        if not self._ending:
            self._ending = [(when, signal.SIGTERM), (when + self._patience.after_terminate, signal.SIGKILL)]

    def _end_step(self) -> None:
        while self._ending and time.monotonic() >= self._ending[0][0]:
            _, number = self._ending.pop(0)
            for process in self._running():
                if number == signal.SIGKILL:
                    self._say(f"{process.plan.name} (pid {process.popen.pid}) did not stop; it is killed")
                process.popen.send_signal(number)
            if not self._ending:
                self._ending = [(float("inf"), signal.SIGKILL)]  # said and done; only waiting is left
                return

    def _leave_nothing_behind(self) -> None:
        for process in self._running():
            process.popen.kill()
            process.popen.wait()
        for process in self._processes:
            if process.popen.stdout:
                process.popen.stdout.close()

    # --- output and signals ------------------------------------------------------------------------------------

    def _pass_on(self, process: _Process) -> bool:
        """Pass on the whole lines that have come; False where nothing more is there now."""
        stream = process.popen.stdout
        assert stream is not None
        try:
            data = os.read(stream.fileno(), 65536)
        except BlockingIOError:
            return False
        if not data:
            self._selector.unregister(stream)
        *lines, process.pending = (process.pending + data).split(b"\n")
        if not data:
            self._flush_pending(process)
        for line in lines:
            self._write_line(process, line)
        self._messages.flush()
        return bool(data)

    def _drain(self) -> None:
        """Pass on what was written just before the end; a grandchild that still holds a pipe is not waited for."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Process):
                while self._pass_on(key.data):
                    pass
                self._flush_pending(key.data)

    def _flush_pending(self, process: _Process) -> None:
        if process.pending:
            self._write_line(process, process.pending)
            process.pending = b""

    def _write_line(self, process: _Process, line: bytes) -> None:
        self._messages.write(f"[{process.plan.name}] {line.decode(errors='replace')}\n")

    def _say(self, sentence: str) -> None:
        self._messages.write(f"busbw run: {sentence}\n")
        self._messages.flush()

    @contextmanager
    def _listening_for_signals(self) -> Iterator[None]:
        """Collect signals; the wake-up descriptor ends a wait early, also when a child ends."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(reader, selectors.EVENT_READ, None)
        before = {number: signal.signal(number, self._note) for number in FORWARDED}
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup_before)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(reader)
            os.close(writer)

    def _note(self, number: int, _frame: object) -> None:
        self._signals.append(number)


def _ended(processes: list[_Process]) -> list[_Process]:
    return [process for process in processes if process.popen.poll() is not None]


@contextmanager
def _meeting_place() -> Iterator[socket.socket]:
    """A listening socket on this machine that rank 0 inherits, so that nobody can take its port in between."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(socket.SOMAXCONN)
        yield listener


def _meeting_environment(listener: socket.socket) -> dict[str, str]:
    host, port = listener.getsockname()
    return {"BUSBW_ADDRESS": f"{host}:{port}", SECRET: secrets.token_hex(16)}


def _before_exec(plan: ProcessPlan) -> Callable[[], None]:
    """What the new process does to itself: keep to its processors, and end when the launcher is killed."""
    prctl = ctypes.CDLL(None).prctl  # looked up before the fork, where locks are still sound

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if plan.cpus:
            os.sched_setaffinity(0, plan.cpus)

    return prepare
