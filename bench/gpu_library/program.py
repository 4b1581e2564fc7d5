"""Starts programs and waits for them, never longer than allowed: the one place where processes are made."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

STOPPED = 124
"""Exit code of what was still running when its time was up."""


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Ended:
    """How one program ended and what it printed, stdout and stderr together."""

    code: int
    text: str
    seconds: float
    process: int = 0  # which of several


class Log:
    """All that was printed, in one file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, label: str, command: Command, ended: Ended) -> None:
        with self._file.open("a") as log:
            log.write(f"\n==== {label}: exit {ended.code}, {ended.seconds:.1f} s\n$ {' '.join(command.argv)}\n")
            log.write(
                ended.text if len(ended.text) < 200_000 else ended.text[:100_000] + "\n...\n" + ended.text[-100_000:]
            )


class Started:
    """A program in a session of its own, so that whatever it starts can be ended with it."""

    def __init__(self, command: Command) -> None:
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        self._began = time.monotonic()
        try:
            self.process = subprocess.Popen(
                command.argv,
                env=dict(command.environment),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError:
            self._output.close()
            raise
        self._stopped = False

    def runs(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        """Kills the whole session."""
        self._stopped = self._stopped or self.runs()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def printed(self) -> str:
        """What it has printed so far."""
        # Not by seek: the position in the file is the program's too.
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode(errors="replace")

    def end(self, process: int = 0) -> Ended:
        """Waits for it; whoever calls this knows that it ends."""
        code = self.process.wait()
        seconds = time.monotonic() - self._began
        text = self.printed()
        self._output.close()
        if self._stopped:
            return Ended(STOPPED, text + f"\n# stopped after {seconds:.0f} s\n", seconds, process)
        return Ended(code if code >= 0 else 128 - code, text, seconds, process)


def run(command: Command, limit_s: float) -> Ended:
    """One program, ended after `limit_s`."""
    try:
        started = Started(command)
    except OSError as error:
        return Ended(127, f"{command.argv[0]}: {error.strerror}\n", 0.0)
    with contextlib.suppress(subprocess.TimeoutExpired):
        started.process.wait(limit_s)
    started.stop()
    return started.end()


def run_all(commands: Sequence[Command], limit_s: float, grace_s: float = 15.0) -> list[Ended]:
    """Several that belong together; once one has failed, the others get `grace_s` to notice."""
    started = start_all(commands)
    wait_all(started, time.monotonic() + limit_s, grace_s)
    return [each.end(number) for number, each in enumerate(started)]


def start_all(commands: Sequence[Command]) -> list[Started]:
    started: list[Started] = []
    try:
        for command in commands:
            started.append(Started(command))
    except OSError:
        for each in started:
            each.stop()
            each.end()
        raise
    return started


def wait_all(started: Sequence[Started], until: float, grace_s: float) -> None:
    while any(each.runs() for each in started):
        now = time.monotonic()
        if any(each.process.poll() not in {None, 0} for each in started):
            until = min(until, now + grace_s)
            grace_s = max(0.0, until - now)
        if now > until:
            for each in started:
                each.stop()
            return
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def as_ranks(argv: Sequence[str], base: Mapping[str, str], ranks: int, port: int) -> list[Command]:
    """The same program once for each rank, with the variables by which busbw's and PyTorch's ranks meet.

    No launcher: one that ends all ranks when one is lost would hide whether they notice by themselves.
    """
    secret = secrets.token_hex(16)
    commands = []
    for rank in range(ranks):
        place = {
            "BUSBW_RANK": rank, "BUSBW_WORLD_SIZE": ranks, "BUSBW_LOCAL_RANK": rank, "BUSBW_LOCAL_SIZE": ranks,
            "BUSBW_ADDRESS": f"127.0.0.1:{port}", "BUSBW_SECRET": secret,
            "RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        }  # fmt: skip
        commands.append(Command(tuple(argv), {**base, **{name: str(value) for name, value in place.items()}}))
    return commands
