"""Rank 0 of a fleet whose busbw was started once on each node: hands trials to the others and collects what they say.

A thread of its own speaks with all ranks; the main thread starts what rank 0's own node has to do, as every rank does.
"""

from __future__ import annotations

import secrets
import select
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw.base.errors import UserError
from busbw.base.secrets import hide
from busbw.base.text import clean
from busbw.fleet.door import Caller, Door
from busbw.fleet.hand import do_wave
from busbw.fleet.results import MOST_SAMPLES
from busbw.fleet.steps import TOO_LONG
from busbw.fleet.trial import Outcome, Trial
from busbw.fleet.wire import BEAT_S, Line, LostError, listed
from busbw.fleet.words import Launching

if TYPE_CHECKING:
    from busbw.fleet.run import Limits

LOOK_EVERY_S = 0.1
PATIENCE_S = 20.0  # beyond a trial's limit, for a node that ends what it started
GOODBYE_S = 5.0
LATE_S = 8.0  # for ranks that come when rank 0 is to end already: below the 10 s that are promised


@dataclass
class Rank:
    """One of the others, or rank 0's own node."""

    number: int
    host: str
    address: str
    trouble: str  # why it cannot measure
    line: Line | None


@dataclass
class _Wave:
    """Trials under way; `open` has the nodes of each from which nothing final was heard."""

    trials: Sequence[Trial]
    open: list[set[str]]
    reasons: list[str]
    samples: list[tuple[float, ...]]
    failed: list[str]  # the node of each that failed first
    over: threading.Event = field(default_factory=threading.Event)


class Crew:
    """The ranks while the block lasts; afterwards they end."""

    def __init__(self, listener: socket.socket, secret: str, size: int, host: str, folder: Path) -> None:
        self.door = Door(listener, secret)
        self._size = size
        self._folder = folder
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._wave: _Wave | None = None
        self._twice = ""
        self._gathered = False  # who has not come by then has no patience left either
        self._next_beat = 0.0
        theirs, ours = socket.socketpair()
        self._own = Line(theirs, float("inf"))  # the main thread also plans, writes and prints
        self._first = Rank(0, host, "127.0.0.1", "", Line(ours, float("inf")))
        self.ranks: dict[str, Rank] = {host: self._first}
        self._thread = threading.Thread(target=self._run, name="busbw fleet", daemon=True)

    def __enter__(self) -> Crew:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(LATE_S + GOODBYE_S)
        self._own.close()
        self.door.close()

    # --- the main thread ---------------------------------------------------------------------------------------

    def gather(self, limit_s: float) -> tuple[str, ...]:
        """Wait for all ranks; the nodes of those that came, by rank."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end and len(self.ranks) < self._size and not self._twice:
            time.sleep(0.05)
        self._gathered = True
        if self._twice:
            raise UserError(self._twice)
        return tuple(rank.host for rank in sorted(self.ranks.values(), key=lambda each: each.number))

    def missing(self) -> list[int]:
        """Ranks that have not come."""
        return sorted(set(range(self._size)) - {rank.number for rank in self.ranks.values()})

    def know(self, nodes: Sequence[str], where: str) -> None:
        """Call the ranks' nodes as the plan does: n1.site.org may be n1 there. UserError for nodes of another job."""
        with self._lock:
            for node in nodes:
                alike = [host for host in self.ranks if host.partition(".")[0] == node.partition(".")[0]]
                if node not in self.ranks and len(alike) == 1 and alike[0] not in nodes:
                    rank = self.ranks.pop(alike[0])
                    rank.host = node
                    self.ranks[node] = rank
            unknown = [node for node in nodes if node not in self.ranks]
            here = sorted(set(self.ranks) - set(nodes))
        if len(unknown) > len(self.missing()):
            raise UserError(
                f"{where} is to measure {unknown[0]}, on which this job has no rank; it has one on "
                f"{', '.join(here[:3]) or 'the others'}: name the job's own nodes, or none, and take a new file"
            )

    def measure(self, trials: Sequence[Trial], how: Launching, _file: Path, limits: Limits) -> list[Outcome]:
        """Trials at the same time, each on its nodes."""
        wave = _Wave(trials, [set(t.nodes) for t in trials], [""] * len(trials), [()] * len(trials), [""] * len(trials))
        deadline = time.monotonic() + limits.trial_seconds + PATIENCE_S
        with self._lock:
            self._wave = wave
            self._hand_out(wave, limits.trial_seconds)
        while not wave.over.is_set():
            if time.monotonic() > deadline:
                with self._lock:
                    for number, nodes in enumerate(wave.open):
                        for node in sorted(nodes):
                            self._fail(wave, number, node, TOO_LONG)
            try:
                message = self._own.first(LOOK_EVERY_S)
                if message and message.get("do") == "wave":
                    do_wave(self._own, message, how, self._folder)
            except LostError:
                raise UserError("rank 0 of the fleet lost its own thread") from None
        with self._lock:
            self._wave = None
        return [self._outcome(wave, number) for number in range(len(trials))]

    def _outcome(self, wave: _Wave, number: int) -> Outcome:
        trial, reason = wave.trials[number], wave.reasons[number]
        if reason:
            return Outcome(trial, (), reason)
        return Outcome(trial, wave.samples[number], "" if wave.samples[number] else "it measured nothing")

    def _hand_out(self, wave: _Wave, limit_s: float) -> None:
        tasks: dict[str, list[dict[str, Any]]] = {}
        for number, trial in enumerate(wave.trials):
            absent = next((node for node in trial.nodes if self._why_not(node)), None)
            if absent is not None:
                self._fail(wave, number, absent, self._why_not(absent))
                wave.open[number].clear()
                continue
            secret = secrets.token_hex(16)
            address = self.ranks[trial.nodes[0]].address
            for seat, node in enumerate(trial.nodes):
                tasks.setdefault(node, []).append({
                    "id": number, "kind": trial.kind, "nodes": trial.nodes, "channel": trial.channel, "seat": seat,
                    "repeats": trial.repeats, "address": address, "secret": secret,
                })  # fmt: skip
        for node, mine in tasks.items():
            self._send(self.ranks[node], {"do": "wave", "limit": limit_s, "tasks": mine})
        self._finish(wave)

    def _why_not(self, node: str) -> str:
        rank = self.ranks.get(node)
        return "no rank of this job came from it" if rank is None else rank.trouble

    # --- the thread that speaks with all -----------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ending.is_set():
            self._look(LOOK_EVERY_S)
        end, late = time.monotonic() + GOODBYE_S, time.monotonic() + LATE_S
        told: set[int] = set()
        # Who has not come yet would look for us until its patience ends.
        while time.monotonic() < (late if self.missing() and not self._gathered else end):
            for rank in list(self.ranks.values()):
                if rank.line and rank.number not in told:
                    told.add(rank.number)
                    self._send(rank, {"do": "end"})
            if (self._gathered or not self.missing()) and not any(
                rank.line for rank in self.ranks.values() if rank.number
            ):
                break
            self._look(LOOK_EVERY_S)
        for rank in self.ranks.values():
            if rank.line:
                rank.line.close()

    def _look(self, seconds: float) -> None:
        poll = select.poll()
        of = {rank.line.fileno(): rank for rank in self.ranks.values() if rank.line}
        for number in (*of, *self.door.descriptors()):
            poll.register(number, select.POLLIN)
        ready = [number for number, _ in poll.poll(seconds * 1000)]
        now = time.monotonic()
        everyone = now >= self._next_beat
        self._next_beat = now + BEAT_S / 2 if everyone else self._next_beat
        with self._lock:
            self.door.accept()
            for caller, introduction in self.door.known():
                self._join(caller, introduction)
            for rank in list(of.values()) if everyone else [of[number] for number in ready if number in of]:
                self._hear(rank)

    def _join(self, caller: Caller, introduction: Mapping[str, Any]) -> None:
        from busbw import __version__

        number, host = introduction.get("rank"), introduction.get("host")
        version, trouble = introduction.get("version"), str(introduction.get("trouble") or "")[:300]
        if not isinstance(number, int) or not 0 < number < self._size or not isinstance(host, str):
            self.door.refuse(caller, "another_job")
            return
        refused = ""
        if version != __version__:
            trouble = f"it has busbw {clean(str(version))[:40]}, and rank 0 has {__version__}"
        if host in self.ranks or number in {rank.number for rank in self.ranks.values()}:
            other = self.ranks[host].number if host in self.ranks else number
            self._twice = refused = (
                f"ranks {other} and {number} are both on {clean(host)[:80]}: start busbw once on each node, as by "
                "`mpirun --map-by ppr:1:node` or `srun --ntasks-per-node=1`; BUSBW_NODE names a node otherwise"
            )
        try:
            line = caller.greeting.answer(refused)
        except LostError:
            self.door.refuse(caller, "unfinished")
            return
        if refused:
            line.close()
            return
        self.ranks[host] = Rank(number, host, caller.theirs, clean(trouble), line)
        if self._first.address.startswith("127.") and not caller.theirs.startswith("127."):
            self._first.address = caller.ours  # as others see us

    def _hear(self, rank: Rank) -> None:
        if rank.line is None:
            return
        try:
            for message in rank.line.read(0.0):
                self._take(rank, message)
        except LostError as lost:
            self._lose(rank, str(lost))

    def _take(self, rank: Rank, message: Mapping[str, Any]) -> None:
        wave = self._wave
        if wave is None:
            return
        if isinstance(number := message.get("failed"), int) and 0 <= number < len(wave.trials):
            self._note_failed(wave, number, rank.host)
        for entry in listed(message, "done"):
            number, reason, samples = _result(entry, len(wave.trials))
            wave.open[number].discard(rank.host)
            wave.samples[number] = wave.samples[number] or samples
            if reason:
                self._fail(wave, number, rank.host, reason)
        self._finish(wave)

    def _note_failed(self, wave: _Wave, number: int, host: str) -> None:
        """The others of the group are not waited for."""
        if not wave.failed[number]:
            wave.failed[number] = host
            for node in wave.open[number] - {host}:
                if node in self.ranks:
                    self._send(self.ranks[node], {"do": "stop", "id": number})

    def _fail(self, wave: _Wave, number: int, node: str, reason: str) -> None:
        self._note_failed(wave, number, node)
        wave.open[number].discard(node)
        # Who failed first says why: the others only miss it.
        if wave.failed[number] == node or not wave.reasons[number]:
            # Of a group that takes too long nobody knows who holds the others up.
            told = reason if reason == TOO_LONG else f"{node}: {reason.removeprefix(f'{node} ')}"
            wave.reasons[number] = hide(clean(told))[:500]
        self._finish(wave)

    def _finish(self, wave: _Wave) -> None:
        if not any(wave.open):
            wave.over.set()

    def _lose(self, rank: Rank, why: str) -> None:
        if rank.line:
            rank.line.close()
        rank.line, rank.trouble = None, f"its busbw was lost: {why}"
        wave = self._wave
        for number, nodes in enumerate(wave.open if wave else ()):
            if wave and rank.host in nodes:
                self._fail(wave, number, rank.host, rank.trouble)

    def _send(self, rank: Rank, message: dict[str, Any]) -> None:
        if rank.line:
            try:
                rank.line.send(message)
            except LostError as lost:
                self._lose(rank, str(lost))


def _result(entry: object, count: int) -> tuple[int, str, tuple[float, ...]]:
    if isinstance(entry, list) and len(entry) == 3:
        number, reason, samples = entry
        good = isinstance(number, int) and 0 <= number < count and isinstance(reason, str)
        good = good and isinstance(samples, list) and len(samples) <= MOST_SAMPLES
        if good and all(isinstance(each, int | float) and 0 < each < 1e18 for each in samples):
            return number, reason, tuple(map(float, samples))
    raise LostError("it sent what is no result")
