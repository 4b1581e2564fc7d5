"""Hands sweeps to a second process, so that a large log is read by one core and written by another."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from busbw.base.errors import UserError
from busbw.importers.draft import ImportedSweep

BATCH = 4_000
"""Cases that travel together: few messages, and memory that stays bounded."""

IDLE_CORES = 0.5
"""How much of a core has to be free before there is a second process."""

SECONDS_TO_FINISH = 600.0
"""How long the second process may take for what it still has, once nothing more comes."""


def is_possible() -> bool:
    """Whether a second core is idle, and there is a way to give it work that it can start on at once.

    On a machine whose cores are busy a second process takes a quarter more of processor time and hardly helps.
    """
    if sys.platform != "linux":
        return False
    cores = len(os.sched_getaffinity(0))
    return cores > 1 and os.getloadavg()[0] < cores - IDLE_CORES


class Handover:
    """Calls `take` with every sweep, in order, in a second process; what goes wrong there is raised here."""

    def __init__(self, take: Callable[[ImportedSweep], None]) -> None:
        # Not more than starting it: the parent is single-threaded here, so a fork is sound and costs no imports.
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_work, args=(theirs, self._pipe, take), daemon=True)
        self._process.start()
        theirs.close()
        self._batch: list[ImportedSweep] = []
        self._cases = 0
        self._said: str | None = None

    def put(self, sweep: ImportedSweep) -> None:
        """Hand over one sweep; waits while the other process is busy with earlier ones."""
        self._batch.append(sweep)
        self._cases += len(sweep)
        if self._cases >= BATCH:
            self._send()

    def close(self) -> None:
        """Wait until every sweep is taken; UserError where one could not be."""
        if self._batch:
            self._send()
        self._send_bytes(b"")
        if not self._pipe.poll(SECONDS_TO_FINISH):
            self.abandon()
            raise UserError(f"writing the last sweeps took more than {SECONDS_TO_FINISH:.0f} s: is the disk full?")
        self._raise_what_was_said()
        self._process.join(SECONDS_TO_FINISH)

    def abandon(self) -> None:
        """Stop the other process where it is."""
        self._process.terminate()
        self._process.join(SECONDS_TO_FINISH)
        self._pipe.close()

    def _send(self) -> None:
        self._send_bytes(pickle.dumps(self._batch, pickle.HIGHEST_PROTOCOL))
        self._batch = []
        self._cases = 0

    def _send_bytes(self, data: bytes) -> None:
        try:
            self._pipe.send_bytes(data)
        except OSError:  # it stopped reading: it said why, or was killed
            self._raise_what_was_said()

    def _raise_what_was_said(self) -> None:
        if self._said is None:
            try:
                self._said = self._pipe.recv_bytes().decode()
            except (EOFError, OSError):
                self._said = "the process that writes the sweeps was killed"
        if self._said:
            self.abandon()
            raise UserError(self._said)


def _work(pipe: Connection, parents: Connection, take: Callable[[ImportedSweep], None]) -> None:
    """The second process: take what comes until an empty message or the parent's end, then say how it went."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle: it ends this process
    parents.close()
    said = ""
    try:
        while data := pipe.recv_bytes():
            for sweep in pickle.loads(data):  # written by the parent, through a pipe that nobody else has
                take(sweep)
    except UserError as problem:
        said = str(problem)
    except (EOFError, OSError):
        return
    pipe.send_bytes(said.encode())
