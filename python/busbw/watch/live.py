"""Follows the recordings of a running job: who holds it up, once for each stall, and who comes late again and again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from busbw.base.errors import UserError
from busbw.watch.arrivals import Arrivals, Meeting
from busbw.watch.late import LATE_S, Late, Stragglers
from busbw.watch.metrics import Sums
from busbw.watch.recording import Recording, find
from busbw.watch.table import Window, draw
from busbw.watch.verdict import Verdict, after_the_end, judge, progress, snapshot, waits

LEAST_S = 10.0
MOST_S = 600.0
_GAPS = 10
MAX_RECORDINGS = 4096


NEWEST = 1024
"""Calls of one process that a look reads while the job runs: some 5,000 a second are followed, of more the newest."""
MAX_LATES = 1000


class Follower:
    """What the calls themselves say while the job runs: the live table, and stragglers."""

    def __init__(self, late_s: float = LATE_S, newest: int | None = NEWEST) -> None:
        self.stragglers = Stragglers(late_s)
        self.arrivals = Arrivals(newest)
        self.lates: list[Late] = []
        self.sums = Sums()
        self._window = Window()
        self._drawn_ns = 0
        self._drawn_calls = 0

    def look(self, recordings: Iterable[Recording]) -> list[Late]:
        """Take in what is new; ranks that have become stragglers by it."""
        found: list[Late] = []
        for each in self.arrivals.look(recordings):
            if isinstance(each, Meeting):
                self._window.meet(each)
                found += self.stragglers.take(each)
            else:
                self._window.see(each)
                self.sums.see(each)
        self.lates = [*self.lates, *found][-MAX_LATES:]
        return found

    def read_all(self, recordings: Iterable[Recording]) -> None:
        """Everything that recordings hold."""
        recordings = list(recordings)
        calls = -1
        while calls != self._window.calls:
            calls = self._window.calls
            self.look(recordings)

    def table(self, recordings: Iterable[Recording], now_ns: int, width: int) -> list[str]:
        """Of what came since the last table."""
        total = sum(recording.header().calls for recording in recordings)
        seconds = (now_ns - self._drawn_ns) / 1e9 if self._drawn_ns else 1.0
        calls = total - self._drawn_calls
        lines = draw(self._window, seconds, calls=calls, total=total, lates=self.lates, width=width)
        self._window, self._drawn_ns, self._drawn_calls = Window(), now_ns, total
        return lines


@dataclass
class Watcher:
    """`hang_after_s` is how long nothing may move while a rank waits; None takes it from the job's own pace."""

    folder: Path
    hang_after_s: float | None = None
    recordings: dict[Path, Recording] = field(default_factory=dict)
    refused: dict[Path, str] = field(default_factory=dict)
    _seen: object = None
    _since_ns: int = 0
    _longest_ns: int = 0
    _told: bool = False

    def close(self) -> None:
        """Give the files back."""
        for recording in self.recordings.values():
            recording.close()
        self.recordings.clear()

    def threshold_s(self) -> float:
        """After so long without progress a wait is called a hang: ten of the longest pauses so far, within bounds."""
        if self.hang_after_s is not None:
            return self.hang_after_s
        return min(MOST_S, max(LEAST_S, _GAPS * self._longest_ns / 1e9))

    def poll(self, now_ns: int) -> Verdict | None:
        """Look once; a Verdict is given once for each stall."""
        self._open_new()
        processes = snapshot(self.recordings.values())
        seen = progress(processes)
        if seen != self._seen:
            if self._seen and not self._told:
                self._longest_ns = max(self._longest_ns, now_ns - self._since_ns)
            self._seen, self._since_ns, self._told = seen, now_ns, False
            return None
        if self._told or now_ns - self._since_ns < self.threshold_s() * 1e9 or not waits(processes):
            return None
        # With what each rank called, which is read for a verdict only.
        verdict = judge(snapshot(self.recordings.values(), with_history=True), now_ns)
        self._told = verdict is not None
        return verdict

    def after_the_end(self) -> Verdict | None:
        """Of a job that failed."""
        self._open_new()
        return after_the_end(snapshot(self.recordings.values(), with_history=True))

    def look_once_more(self) -> None:
        """A process that was just beginning at the last look has written its header since."""
        self._open_new()

    def _open_new(self) -> None:
        for path in find(self.folder)[:MAX_RECORDINGS]:
            if path in self.recordings:
                continue
            try:
                self.recordings[path] = Recording(path)
            except UserError as error:
                # Its process may be about to write the header; what stays so is told at the end.
                self.refused[path] = str(error)
            else:
                self.refused.pop(path, None)
