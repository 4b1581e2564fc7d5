"""What is said while a job runs: hangs, late ranks, a table where one is asked for, and metrics for other programs."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.prometheus import write_exposition
from busbw.watch.arrivals import who_of
from busbw.watch.endpoint import Endpoint, Pusher
from busbw.watch.hardware import Hardware
from busbw.watch.late import LATE_S, Late
from busbw.watch.live import Follower, Watcher
from busbw.watch.members import Verdict
from busbw.watch.notes import Notes
from busbw.watch.processes import is_here, monotonic_ns, snapshot, waited_ns
from busbw.watch.recording import Recording
from busbw.watch.screen import Screen
from busbw.watch.share import merged
from busbw.watch.stacks import signal_all, stacks

TABLE_S = 1.0
_SHARE = 0.1
"""Of a processor, for the calls themselves: following many of them must not keep from seeing that nothing moves."""
_STILL_NS = 1_000_000_000
_SHORTEST_NS = 100_000_000
_WAITS = 0.02
"""The part of its time that a process may wait for a processor without being said to."""
_NOTES_NS = 500_000_000
_STACKS_S = 10.0
"""So long after a verdict another host's stacks are looked for."""


@dataclass(frozen=True)
class Wishes:
    """What the user wants to be told, and where."""

    late_s: float = LATE_S
    live: bool = False
    signals: bool = False
    metrics: Path | None = None
    port: int | None = None
    """Of 127.0.0.1, for Prometheus."""
    collector: str | None = None
    """Address of one of OpenTelemetry's."""


def spoken(verdict: Verdict, threshold_s: float) -> str:
    """What is said of a hang."""
    quiet = f"{verdict.quiet_s:.0f} s, but in {verdict.beside}" if verdict.beside else f"{threshold_s:g} s"
    return f"no progress for {quiet}. {verdict.text}"


class Watching:
    """Takes a Watcher's findings to stderr, and to whom else asked for them."""

    def __init__(self, wishes: Wishes, watcher: Watcher, hardware: Hardware | None = None) -> None:
        self.watcher = watcher
        self._hardware = hardware or Hardware()
        self._notes = Notes(watcher.hang_after_s)
        self._next_notes_ns = 0
        self._follower = Follower(wishes.late_s)
        self._screen = Screen(sys.stderr) if wishes.live else None
        self._next_table = 0.0
        self._next_follow = 0.0
        self._next_stock_ns = 0
        self._waited: list[dict[int, tuple[int, int]]] = [{}, {}]
        """Of each process when it was looked at and how long it had waited for a processor, the older look first."""
        self._signals = wishes.signals
        self._metrics = wishes.metrics
        self._accused: tuple[tuple[str, int], ...] = ()
        self._asked_until = 0.0
        self._endpoint = Endpoint(wishes.port) if wishes.port is not None else None
        if self._endpoint:
            self._say(f"metrics are at {self._endpoint.url} for processes of this user")
        self._pusher = Pusher(wishes.collector, self._say) if wishes.collector else None

    def __enter__(self) -> Watching:
        return self

    def __exit__(self, *_: object) -> None:
        self._write_metrics(list(self.watcher.recordings.values()))
        if self._screen:
            self._screen.close()
        if self._endpoint:
            self._endpoint.close()
            if told := self._endpoint.strangers():
                self._say(told)
        if self._pusher:
            self._pusher.close()
        self._hardware.close()

    def look(self) -> Verdict | None:
        """Once; a verdict where the job hangs."""
        now = monotonic_ns()
        verdict = self._poll(now)
        if (quiet_ns := self.watcher.quiet_ns(now)) == 0:
            self._hardware.moved(now)
        elif quiet_ns >= _STILL_NS:
            self._hardware.still(now)
        if verdict:
            self._say(spoken(verdict, self.watcher.threshold_s()))
            self._ask(verdict)
        elif now >= self._next_notes_ns:
            self._next_notes_ns = now + _NOTES_NS
            for note in self._new_notes(now):
                self._say(note)
        self._hear()
        recordings = list(self.watcher.recordings.values())
        self._take_stock(recordings, now)
        if time.monotonic() >= self._next_follow:
            used = time.thread_time()
            for late in self._follower.look(recordings):
                self._say(late.text + self._oversubscribed(late, recordings, now))
            self._next_follow = time.monotonic() + (time.thread_time() - used) / _SHARE
        if time.monotonic() >= self._next_table:
            self._next_table = time.monotonic() + TABLE_S
            if self._screen:
                self._screen.draw(self._follower.table(recordings, now, self._screen.width, self._screen.height))
            self._write_metrics(recordings)
        return verdict

    def _new_notes(self, now_ns: int) -> list[str]:
        """Of waits that are long and of which no verdict was given, nor is about to be."""
        watcher = self.watcher
        # A verdict comes as soon, where the user has said how long is too long and nothing moves at all.
        is_due = watcher.hang_after_s is not None and watcher.quiet_ns(now_ns) >= _STILL_NS
        if watcher.said or is_due:
            return []
        ours = snapshot(watcher.recordings.values())
        return self._notes.look(merged(ours, watcher.share.processes(now_ns)) if watcher.share else ours, now_ns)

    def _take_stock(self, recordings: list[Recording], now_ns: int) -> None:
        """How long each process has waited for a processor so far: once a second, and of a new one at once."""
        is_due = now_ns >= self._next_stock_ns
        heads = [head for each in recordings if is_here(head := each.header())]
        fresh = {
            head.pid: (now_ns, waited)
            for head in heads
            if (is_due or head.pid not in self._waited[1]) and (waited := waited_ns(head.pid)) is not None
        }
        if is_due:
            self._waited, self._next_stock_ns = [self._waited[1], fresh], now_ns + int(TABLE_S * 1e9)
        else:
            self._waited[1].update(fresh)

    def _oversubscribed(self, late: Late, recordings: list[Recording], now_ns: int) -> str:
        """Whether a late rank had no processor for a part of the last seconds: then the machine makes it late."""
        pid = next((head.pid for each in recordings if who_of(head := each.header()) == late.who and is_here(head)), 0)
        then = self._waited[0].get(pid) or self._waited[1].get(pid)
        waited = waited_ns(pid) if then else None
        if then is None or waited is None or now_ns - then[0] < _SHORTEST_NS:
            return ""
        share = (waited - then[1]) / (now_ns - then[0])
        if share < _WAITS:
            return ""
        return f" Meanwhile it waited {100 * min(share, 1.0):.0f} % of the time for a processor that others used."

    def _poll(self, now_ns: int) -> Verdict | None:
        """A folder that cannot be written is told once; then this host is watched alone."""
        try:
            return self.watcher.poll(now_ns)
        except UserError as error:
            if self.watcher.share is None:
                raise
            self._say(f"{error}; from here on this host is watched alone")
            self.watcher.share = None
            return self.watcher.poll(now_ns)

    def _write_metrics(self, recordings: list[Recording]) -> None:
        """For Prometheus and OpenTelemetry; a file that cannot be written is told once, and the job goes on."""
        if not (self._metrics or self._endpoint or self._pusher):
            return
        follower = self._follower
        families = follower.sums.families(recordings, follower.stragglers, follower.lates, follower.arrivals.skipped)
        for one in (self._endpoint, self._pusher):
            if one:
                one.show(families)
        if self._metrics:
            try:
                write_exposition(self._metrics, families)
            except UserError as error:
                self._say(str(error))
                self._metrics = None

    def _ask(self, verdict: Verdict) -> None:
        """Where the accused processes are, and a signal to all where that was wanted."""
        there = [head for each in self.watcher.recordings.values() if is_here(head := each.header())]
        # One that is on its way through its exit may hang there.
        lines = stacks([head for head in there if (head.host, head.pid) in verdict.accused])
        here = [head for head in there if not head.ended]
        for _, line in lines:
            self._say(line)
        self.tell_of_hardware(verdict)
        if lines and self.watcher.share:
            self.watcher.publish_now(stacks=lines)
        if self._signals:
            self._say(signal_all(here))
        ours = {(head.host, head.pid) for head in here}
        self._accused = tuple(each for each in verdict.accused if each not in ours)
        self._asked_until = time.monotonic() + _STACKS_S

    def tell_of_hardware(self, verdict: Verdict) -> None:
        """What this host's links, kernel and GPUs say meanwhile."""
        for line in self._hardware.lines(verdict.cause, monotonic_ns(), self.watcher.devices_of(verdict.accused)):
            self._say(line)

    def _hear(self) -> None:
        """Stacks that the accused ranks' own hosts have written since."""
        if not self._accused:
            return
        if time.monotonic() > self._asked_until:
            self._accused = ()
            return
        lines = self.watcher.stacks_elsewhere(self._accused)
        for line in lines:
            self._say(line)
        if lines:
            self._accused = ()

    def hear_out(self, limit_s: float = 2.0) -> None:
        """Before the job is ended: what the accused ranks' own hosts have still to say."""
        end = time.monotonic() + limit_s
        while self._accused and time.monotonic() < end:
            self._hear()
            time.sleep(0.05)

    @staticmethod
    def _say(text: str) -> None:
        print(f"busbw watch: {text}", file=sys.stderr, flush=True)
