"""The one supervisor of child processes: starts them, watches, passes signals and output on, and leaves none behind.

Whoever starts a process that lasts uses it: a launch of ranks, a trial of an experiment, several libraries in turn.
Short questions to other programs go through busbw.base.programs. Every process ends with us, however we end: see
busbw.base.lifeline.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from busbw.base.errors import UserError
from busbw.base.lifeline import begin, refuse_orphans, setting
from busbw.launch.loud import end_in_silence, still_there
from busbw.launch.newborn import before_exec, no_signal

TIMED_OUT = 124  # as timeout(1) has it
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_EVERY_S = 0.5
BELOW_EVERY_S = 0.05
"""No signal tells of the end of those below a launcher that was ended in silence."""
KILL_PATIENCE_S = 5.0
"""A killed process is collected within this; one that hangs in the kernel (on a dead file server) is left to it."""


@dataclass(frozen=True)
class Patience:
    """How long the others may take once one process is lost; the sum stays below the promised 10 s."""

    to_stop: float = 6.0  # by themselves; the rest of the 10 s is for machines that are busy
    after_terminate: float = 1.5  # then they are killed
    to_name: float = 0.4  # a process that gave up may be collected before the killed one that made it give up
    one_wish: float = 1.0  # `timeout` and terminals signal the group, and launchers pass on what they get
    stopped: float = 2.0  # how long one may stand still (SIGSTOP) before it is named and the launch ends


@dataclass(frozen=True)
class Child:
    """One process to start."""

    name: str  # as people are told: "rank 2", "mpirun"
    argv: Sequence[str]
    environment: Mapping[str, str]  # all of it
    output: IO[bytes] | None = None  # where stdout and stderr go; None: to ours
    labelled: bool = False  # instead: its lines go to our messages, each with its name before it
    cpus: frozenset[int] = frozenset()  # empty: wherever the system puts it
    any_cpu: bool = False  # not only those that we may use
    inherits: tuple[int, ...] = ()  # descriptors that it keeps
    loud: bool = False  # answers a signal with a traceback: see busbw.launch.loud


@dataclass
class Process:
    """A child that was started."""

    child: Child
    popen: subprocess.Popen[bytes]
    pending: bytes = b""
    stopped_since: float | None = None

    @property
    def name(self) -> str:
        """As people are told."""
        return self.child.name

    @property
    def code(self) -> int:
        """Exit code as a shell has it: 128 + signal for a process that was killed."""
        status = self.popen.returncode
        return 128 - status if status < 0 else status

    def fate(self) -> str:
        """What became of a process that did not end well."""
        status = self.popen.returncode
        if status < 0:
            return f"{self.name} (pid {self.popen.pid}) was killed by {signal.Signals(-status).name}"
        return f"{self.name} (pid {self.popen.pid}) ended with exit code {status}"

    def stands_still(self) -> bool:
        """Whether a signal (SIGSTOP) has stopped it."""
        with suppress(OSError, IndexError):
            return Path(f"/proc/{self.popen.pid}/stat").read_bytes().rpartition(b")")[2].split()[0] == b"T"
        return False


@dataclass
class Rules:
    """How a supervisor acts and speaks."""

    timeout: float | None = None
    patience: Patience = field(default_factory=Patience)
    together: bool = True  # one that fails ends the others
    messages: IO[str] | None = None  # None: stderr; what is said of each end, and labelled lines
    speaker: str = "busbw run"
    quiet: bool = False


class Supervisor:
    """Children from start to end, in one thread: waits for output, for the end of processes and for signals."""

    def __init__(self, children: Sequence[Child], rules: Rules) -> None:
        self._children = children
        self._rules = rules
        self._patience = rules.patience
        self._messages = rules.messages or sys.stderr
        self._selector = selectors.DefaultSelector()
        self.processes: list[Process] = []
        self._signals: list[int] = []
        self._exit_code = 0
        self.interrupted: signal.Signals | None = None
        self._asked, self.timed_out = 0.0, False  # when the first signal was answered
        self._lifeline = begin(os.environ)
        self._below: list[tuple[int, int]] = []  # ranks of a launcher that was ended in silence
        self._next_look = 0.0
        self._to_stop: dict[int, signal.Signals] = {}  # asked for by other threads, and what is sent next
        # Steps still to come once the launch is to end: (when, what to send).
        self._ending: list[tuple[float, signal.Signals]] = []

    def run(self, beside: Callable[[], object] | None = None, started: Callable[[], object] | None = None) -> int:
        """The exit code of the first process that failed, or 0. `beside` runs in a thread of its own meanwhile."""
        refuse_orphans()
        with ExitStack() as stack:
            stack.enter_context(self._selector)
            stack.enter_context(self._listening_for_signals())
            stack.callback(self._leave_nothing_behind)
            for child in self._children:
                self.processes.append(self._start_one(child))
            if started:
                started()
            companion = threading.Thread(target=beside, daemon=True) if beside else None
            if companion:
                companion.start()
            timeout = self._rules.timeout
            deadline = None if timeout is None else time.monotonic() + timeout
            while (running := self._running()) or self._below:
                self._wait(deadline)
                self._below = still_there(self._below)
                self._look_around()
                self._answer_signals(running)
                self._notice_ends(running)
                if deadline is not None and time.monotonic() >= deadline:
                    deadline = None
                    self._time_out()
                self._end_step()
            self._drain()
            if companion:
                companion.join(KILL_PATIENCE_S)  # it notices soon that nobody is left
        return self._exit_code

    def alive(self) -> int:
        """How many have not ended; for `beside`."""
        return len(self._running())

    def stop(self, number: int) -> None:
        """End one process; from any thread. It is killed where it has not ended a second later."""
        self._to_stop[number] = signal.SIGTERM

    # --- start -------------------------------------------------------------------------------------------------

    def _start_one(self, child: Child) -> Process:
        piped = subprocess.PIPE if child.labelled else child.output
        try:
            with no_signal(FORWARDED) as mask:
                popen = subprocess.Popen(
                    child.argv,
                    # Python (3.11 on) takes no module from the current folder, which may be a stranger's.
                    env={**child.environment, "PYTHONSAFEPATH": "1", **setting(os.environ)},
                    stdin=subprocess.DEVNULL,
                    stdout=piped,
                    stderr=subprocess.STDOUT if piped is not None else None,
                    pass_fds=child.inherits,
                    # A group of its own: Ctrl-C reaches the ranks once, from here, and not again from the terminal.
                    start_new_session=True,
                    preexec_fn=before_exec(  # noqa: PLW1509 - takes no lock
                        mask, child.cpus, any_cpu=child.any_cpu, loud=child.loud
                    ),
                )
        except OSError as error:
            raise UserError(f"{child.argv[0]} cannot be started as {child.name}: {error.strerror}") from None
        process = Process(child, popen)
        if popen.stdout:
            os.set_blocking(popen.stdout.fileno(), False)
            self._selector.register(popen.stdout, selectors.EVENT_READ, process)
        return process

    # --- wait --------------------------------------------------------------------------------------------------

    def _running(self) -> list[Process]:
        return [process for process in self.processes if process.popen.returncode is None]

    def _wait(self, deadline: float | None) -> None:
        times = [when for when, _ in self._ending[:1]] + ([deadline] if deadline is not None else [])
        # The upper bound is for the signal that arrives just before select; the wake-up descriptor brings the others.
        longest = BELOW_EVERY_S if self._below else LOOK_EVERY_S
        patience = max(0.0, min([longest, *(when - time.monotonic() for when in times)]))
        for key, _ in self._selector.select(patience):
            if isinstance(key.data, Process):
                self._pass_on(key.data)
            else:
                os.read(key.fd, 4096)

    def _look_around(self) -> None:
        """Twice a second: those above us, who wait for us, and children that a signal has stopped."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_EVERY_S
        if self.interrupted is None and self._lifeline.gone() is not None:
            self._signals.append(signal.SIGHUP)
        for number, how in list(self._to_stop.items()):
            if self.processes[number].popen.returncode is None:
                self.processes[number].popen.send_signal(how)
                self._to_stop[number] = signal.SIGKILL
        for process in self._running():
            if not process.stands_still():
                process.stopped_since = None
            elif process.stopped_since is None:
                process.stopped_since = now
            elif now - process.stopped_since >= self._patience.stopped and not self._ending:
                self._say(f"{process.name} (pid {process.popen.pid}) is stopped (SIGSTOP), so the launch ends")
                self._exit_code = self._exit_code or 1
                process.popen.kill()  # no other signal reaches it
                self._end_from(now + self._patience.to_stop / 2)

    def _notice_ends(self, running: list[Process]) -> None:
        ended = _ended(running)
        failed = self._exit_code == 0 and not self._ending and any(process.code != 0 for process in ended)
        if failed and self._rules.together:
            ended += self._until_one_was_killed([process for process in running if process not in ended], ended)
        # Who was killed is the cause; who gave up because of it may have been collected in the same moment.
        for process in sorted(ended, key=lambda process: process.popen.returncode >= 0):
            if process.code != 0 and self._exit_code == 0:
                self._exit_code = process.code
                if self._rules.together:
                    self._lose(process)

    def _until_one_was_killed(self, running: list[Process], ended: list[Process]) -> list[Process]:
        """Those who end a moment after `ended`, unless one of these was killed.

        The kernel closes the sockets of a killed process before its parent can collect it, so that the others may hear
        of its end, give up and be collected first.
        """
        deadline = time.monotonic() + self._patience.to_name
        late: list[Process] = []
        while not any(process.popen.returncode < 0 for process in ended + late):
            if len(late) == len(running) or self._signals or time.monotonic() >= deadline:
                break
            time.sleep(0.01)
            late = _ended(running)
        return late

    def _lose(self, lost: Process) -> None:
        others = self._running()
        if self._ending:  # already ending: by a signal or a timeout, which has been explained
            return
        waiting = f"; the other {len(others)} have {self._patience.to_stop:g} s to stop" if others else ""
        self._say(f"{lost.fate()}{waiting}")
        self._end_from(time.monotonic() + self._patience.to_stop)

    # --- end ---------------------------------------------------------------------------------------------------

    def _answer_signals(self, running: list[Process]) -> None:
        while self._signals:
            number = signal.Signals(self._signals.pop(0))
            if self.interrupted is not None:
                if time.monotonic() - self._asked >= self._patience.one_wish:
                    self._ending = [(0.0, signal.SIGKILL)]  # asked twice: at once
                continue
            self.interrupted, self._asked = number, time.monotonic()
            self._exit_code = self._exit_code or 128 + number
            for process in running:
                self._ask_to_end(process, number)
            self._end_from(time.monotonic() + self._patience.to_stop)

    def _ask_to_end(self, process: Process, number: signal.Signals) -> None:
        if process.child.loud and process.popen.poll() is None:
            self._below += end_in_silence(process.popen.pid, number)
            self._ending = [(time.monotonic() + self._patience.to_stop, signal.SIGKILL)]
        else:
            process.popen.send_signal(number)

    def _time_out(self) -> None:
        names = ", ".join(process.name for process in self._running())
        self._say(f"the time limit of {self._rules.timeout:g} s has passed; stopping {names}")
        self.timed_out = True
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
                    self._say(f"{process.name} (pid {process.popen.pid}) did not stop; it is killed")
                    process.popen.kill()
                else:
                    self._ask_to_end(process, number)
            for pid, _ in self._below if number == signal.SIGKILL else ():
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            if not self._ending:
                self._ending = [(float("inf"), signal.SIGKILL)]  # said and done; only waiting is left
                return

    def _leave_nothing_behind(self) -> None:
        for process in self._running():
            process.popen.kill()
            with suppress(subprocess.TimeoutExpired):
                process.popen.wait(KILL_PATIENCE_S)
        for process in self.processes:
            if process.popen.stdout:
                process.popen.stdout.close()

    # --- output and signals ------------------------------------------------------------------------------------

    def _pass_on(self, process: Process) -> bool:
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
            if isinstance(key.data, Process):
                while self._pass_on(key.data):
                    pass
                self._flush_pending(key.data)

    def _flush_pending(self, process: Process) -> None:
        if process.pending:
            self._write_line(process, process.pending)
            process.pending = b""

    def _write_line(self, process: Process, line: bytes) -> None:
        self._messages.write(f"[{process.name}] {line.decode(errors='replace')}\n")

    def _say(self, sentence: str) -> None:
        if not self._rules.quiet:
            self._messages.write(f"{self._rules.speaker}: {sentence}\n")
            self._messages.flush()

    @contextmanager
    def _listening_for_signals(self) -> Iterator[None]:
        """Collect signals; the wake-up descriptor ends a wait early, also when a child ends."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(reader, selectors.EVENT_READ, None)
        before = {
            number: signal.signal(number, self._note)
            for number in FORWARDED
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN  # nohup
        }
        before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        before[signal.SIGCONT] = signal.signal(signal.SIGCONT, self._look_now)  # our parent ended: lifeline
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

    def _look_now(self, _number: int, _frame: object) -> None:
        self._next_look = 0.0


def _ended(processes: list[Process]) -> list[Process]:
    return [process for process in processes if process.popen.poll() is not None]
