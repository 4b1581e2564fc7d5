"""Follows the recordings of a running job: who holds it up, once for each stall, and who comes late again and again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from busbw.base.errors import UserError
from busbw.watch.alone import Key, goes_on_alone, going_alone, last_move_ns
from busbw.watch.arrivals import Arrivals, Meeting
from busbw.watch.at_rest import Rest
from busbw.watch.departed import has_failed
from busbw.watch.ends import Ends
from busbw.watch.generations import generations
from busbw.watch.gpu_times import GpuSums, GpuTimes
from busbw.watch.late import LATE_S, Late, Stragglers
from busbw.watch.members import Verdict
from busbw.watch.memory import kills
from busbw.watch.metrics import Sums
from busbw.watch.notes import at_work
from busbw.watch.processes import (
    EXITED,
    GONE,
    Process,
    as_now,
    monotonic_ns,
    progress,
    snapshot,
    state_now,
)
from busbw.watch.recording import Recording, find
from busbw.watch.share import Summary, merged
from busbw.watch.shared_folder import SharedFolder, wait_for_others
from busbw.watch.standing import Paces, Still
from busbw.watch.table import Window, draw
from busbw.watch.verdict import after_the_end, judge, may_wait, waits

LEAST_S = 10.0
_V = TypeVar("_V", Verdict, Verdict | None)
MOST_S = 600.0
WORKS_S = 60.0
"""So long a rank that computes is waited for at least, where the user gave no time: a note tells of it meanwhile."""
_GAPS = 10
ALONE = 10
"""So many times --hang-after a rank may stay that nobody waits for."""
_LOOK_NS = 500_000_000
MAX_RECORDINGS = 4096
_SOON_NS = 2_000_000_000
_PATIENCE_S = 2.5
"""So long the last words of other hosts are waited for when a job has failed."""
NEWEST = 4096
"""Calls of all processes that a look reads while the job runs: of more the newest, of each process as many."""
MAX_LATES = 1000


class Follower:
    """What the calls themselves say while the job runs: the live table, and stragglers."""

    def __init__(self, late_s: float = LATE_S, newest: int | None = NEWEST) -> None:
        self.stragglers = Stragglers(late_s)
        self._on_gpus = Stragglers(late_s)
        """Of calls that come back before they have run, by their times on the GPU."""
        self.arrivals = Arrivals(newest)
        self.lates: list[Late] = []
        self.sums = Sums()
        self._window = Window()
        self._gpu, self._gpu_sums = GpuTimes(), GpuSums()
        self._drawn_ns = 0
        self._drawn_calls = 0

    def look(self, recordings: Iterable[Recording]) -> list[Late]:
        """Take in what is new; ranks that have become stragglers by it."""
        found: list[Late] = []
        recordings = list(recordings)
        for each in self.arrivals.look(recordings):
            if isinstance(each, Meeting):
                self._window.meet(each)
                found += self.stragglers.take(each)
            else:
                self._window.see(each)
                self.sums.see(each)
        for timed in self._gpu.look(recordings):
            self._gpu_sums.add(timed)
            if meeting := timed.meeting():
                found += self._on_gpus.take(meeting)
        self.lates = [*self.lates, *found][-MAX_LATES:]
        return found

    def read_all(self, recordings: Iterable[Recording]) -> None:
        """Everything that recordings hold."""
        recordings = list(recordings)
        calls = -1
        while calls != self._window.calls:
            calls = self._window.calls
            self.look(recordings)

    def table(self, recordings: Iterable[Recording], now_ns: int, width: int, height: int = 100) -> list[str]:
        """Of what came since the last table."""
        total = sum(recording.header().calls for recording in recordings)
        seconds = (now_ns - self._drawn_ns) / 1e9 if self._drawn_ns else 1.0
        calls = total - self._drawn_calls
        share = self._gpu_sums.share()
        height -= bool(share)
        lines = draw(self._window, seconds, calls=calls, total=total, lates=self.lates, width=width, height=height)
        if share:
            lines.insert(min(1, len(lines)), share[: max(width - 1, 20)])
        self._window, self._drawn_ns, self._drawn_calls = Window(), now_ns, total
        self._gpu_sums = GpuSums()
        return lines


@dataclass
class Watcher:
    """`hang_after_s` is how long nothing may move while a rank waits; None takes it from the job's own pace."""

    folder: Path
    hang_after_s: float | None = None
    recordings: dict[Path, Recording] = field(default_factory=dict)
    refused: dict[Path, str] = field(default_factory=dict)
    share: SharedFolder | None = None
    """Where the watchers of the job's other hosts write."""
    said: str = ""
    """The verdict on the stall that lasts."""
    former: set[Path] = field(default_factory=set)
    """Recordings of jobs that were over before this one began: they are left alone."""
    _history: list[Process] | None = None
    """Of all processes with what they called, since nothing moves."""
    _is_history_told: bool = False
    _rest: Rest = field(default_factory=Rest)
    """Since nothing moves."""
    _paces: Paces = field(default_factory=Paces)
    _rest_of_some: Rest | None = None
    """Since a communicator stands still, while others go on."""
    _still_told: frozenset[int] = frozenset()
    """Communicators of which a verdict was given while others went on, and that have not moved since."""
    _on_gpus: dict[tuple[tuple[str, int, int], int, int], tuple[int, int]] = field(default_factory=dict)
    """How far the GPUs had come at the last look, of the same calls."""
    _ends: Ends = field(default_factory=Ends)
    _kills: int = field(default_factory=kills)
    _stacks: tuple[tuple[int, str], ...] = ()
    _seen: object = None
    _since_ns: int = 0
    _longest_ns: int = 0
    _told: bool = False
    _next_look_ns: int = 0

    def close(self, *, keep: bool = False) -> None:
        """Give the files back; `keep` leaves our summary to the watchers of other hosts."""
        if self.share:
            self.share.close(keep=keep)
        self._ends.close()
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
        for each in processes:
            if each.is_here and each.state not in {GONE, EXITED}:
                self._ends.follow(each.key, each.pid)
        least_ns = int(self.threshold_s() * 1e9)
        lone = going_alone(self._for_lone(processes, now_ns, least_ns), now_ns, least_ns)
        seen = progress([each for each in processes if each.key not in lone])
        moved = seen != self._seen or self._gpus_moved(processes)
        if moved:
            if self._seen:
                # One that was told and went on was no hang: twice as long is long by then.
                gaps_ns = (now_ns - self._since_ns) * (2 if self._told else _GAPS)
                self._longest_ns = max(self._longest_ns, gaps_ns // _GAPS)
            self._seen, self._since_ns, self._told = seen, last_move_ns(processes, lone) if lone else now_ns, False
            self._history, self._is_history_told, self.said = None, False, ""
            self._rest.begin(processes, now_ns)
        quiet_ns = now_ns - self._since_ns
        if quiet_ns >= min(_SOON_NS, self.threshold_s() * 5e8) and self._history is None and not self._told:
            # What was called stays the same while nothing moves: it is read before the verdict is due.
            self._history = snapshot(self.recordings.values(), with_history=True)
            self._rest.note_turns(processes)
        if self.share:
            self._publish(processes, now_ns, quiet_ns)
        if quiet_ns < self.threshold_s() * 1e9:
            return self._of_some(processes, now_ns)
        if (moved and not lone) or self._told or self._still_told:
            return None
        if self.share and not self._is_quiet_elsewhere(now_ns, lone):
            return None
        if not waits(everyone := self._with_others(processes, now_ns)) and not self._may_look(everyone, now_ns):
            return None
        # With what each rank called, which is read for a verdict only.
        mine = [self._rest.seen(each) for each in self._lasting(processes)]
        is_long = self.hang_after_s is not None or quiet_ns >= MOST_S * 1e9
        alone_s = MOST_S if self.hang_after_s is None else ALONE * self.hang_after_s
        everyone = self._with_others(mine, now_ns)
        verdict = goes_on_alone(everyone, lone, now_ns) or judge(
            everyone, now_ns, self._where, is_long=is_long, is_longest=quiet_ns >= alone_s * 1e9
        )
        if verdict and quiet_ns < WORKS_S * 1e9 and self.hang_after_s is None and at_work(verdict, everyone):
            return None
        self._told = verdict is not None
        return self._given(self._with_kills(verdict))

    def _for_lone(self, processes: list[Process], now_ns: int, least_ns: int) -> list[Process]:
        """Ranks of other hosts are looked for only where one of this host has waited for long."""
        rows = [row for each in processes for row in each.communicators if row.entered > row.returned]
        is_due = self.share and any(row.entered_ns < now_ns - least_ns for row in rows)
        return self._with_others(processes, now_ns) if is_due else processes

    def _given(self, verdict: Verdict | None) -> Verdict | None:
        if verdict:
            self.said = verdict.text
            if self.share:
                self.publish_now()
        return verdict

    def _of_some(self, processes: list[Process], now_ns: int) -> Verdict | None:
        """Of communicators that stand still while calls go on in others."""
        self._paces.see(processes, now_ns)
        soon_ns = int(min(_SOON_NS, self.threshold_s() * 5e8))
        if not self._still(processes, now_ns, soon_ns):
            self._rest_of_some, self._still_told = None, frozenset()
            return None
        if self._rest_of_some is None:
            self._rest_of_some = Rest()
            self._rest_of_some.begin(processes, now_ns)
            self._rest_of_some.note_turns(processes)
        least_ns = int(self.threshold_s() * 1e9)
        everyone = self._with_others(processes, now_ns) if self._still(processes, now_ns, least_ns) else []
        still = self._still(everyone, now_ns, least_ns)
        if still is None or still.identities <= self._still_told or now_ns < self._next_look_ns:
            return None
        self._next_look_ns = now_ns + _LOOK_NS
        mine = [self._rest_of_some.seen(each) for each in snapshot(self.recordings.values(), with_history=True)]
        found = judge(still.only(self._with_others(mine, now_ns)), now_ns, self._where)
        if found is None:
            return None
        self._still_told = still.identities
        return self._given(replace(self._with_kills(found), quiet_s=still.quiet_ns / 1e9, beside=still.beside))

    def _still(self, processes: list[Process], now_ns: int, least_ns: int) -> Still | None:
        """Where the user gave no time, no wait has to be longer than the longest threshold."""
        return self._paces.still(processes, now_ns, least_ns, None if self.hang_after_s else int(MOST_S * 1e9))

    def _gpus_moved(self, processes: list[Process]) -> bool:
        """Whether a GPU has got on with calls that it had been given before the last look."""
        now = {(each.key, place, pulse.entered): (pulse.begun, pulse.ended)
               for each in processes for place, pulse in each.pulses.items()}  # fmt: skip
        before, self._on_gpus = self._on_gpus, now
        return any(before.get(key, reached) != reached for key, reached in now.items())

    def _may_look(self, processes: list[Process], now_ns: int) -> bool:
        """Where ranks may wait on the GPU: a job that just computes is not looked at all the time."""
        if not may_wait(processes) or now_ns < self._next_look_ns:
            return False
        self._next_look_ns = now_ns + _LOOK_NS
        return True

    def after_the_end(self) -> Verdict | None:
        """Of a job that failed."""
        self._open_new()
        if self.share:
            self.publish_now(is_final=True)
            wait_for_others(self.share, _PATIENCE_S)
        now_ns = monotonic_ns()
        if self.share:
            told = {summary.said for summary, _ in self.share.others(now_ns) if summary.said}
            if told:
                return Verdict("told", (), min(told))
        attempts = generations(self._with_others(self._with_history(), now_ns))
        found = (after_the_end(each, self._ends.at_ns) for each in attempts)
        return self._with_kills(next((verdict for verdict in found if verdict), None))

    def has_seen_errors(self) -> bool:
        """Whether NCCL has refused a call or given one up in any process that was not through with its work."""
        return any(map(has_failed, snapshot(self.recordings.values())))

    def publish_now(self, *, is_final: bool = False, stacks: Sequence[tuple[int, str]] | None = None) -> None:
        """Tell the other hosts, with what each rank called."""
        now_ns = monotonic_ns()
        if stacks is not None:
            self._stacks = tuple(stacks)
        if self.share:
            mine = tuple(process for process in self._with_history() if process.is_here)
            quiet_ns = now_ns - self._since_ns
            self.share.publish(Summary(now_ns, quiet_ns, is_final, self.said, mine, self._stacks))

    def quiet_ns(self, now_ns: int) -> int:
        """How long nothing has moved; 0 where it just did."""
        return now_ns - self._since_ns

    def devices_of(self, accused: Iterable[tuple[str, int]]) -> tuple[int, ...]:
        """Numbers of the GPUs that these processes of this host use, as CUDA counts them in the process."""
        wanted = set(accused)
        found = {
            row.device
            for process in snapshot(self.recordings.values())
            if process.gpus and process.is_here and (process.host, process.pid) in wanted
            for row in process.communicators
            if row.device >= 0
        }
        return tuple(sorted(found))

    def stacks_elsewhere(self, accused: Iterable[tuple[str, int]]) -> list[str]:
        """What other hosts' watchers have written of these processes' stacks."""
        if not self.share:
            return []
        wanted = set(accused)
        return [
            f"{line} (on {process.host})"
            for summary, _ in self.share.others(monotonic_ns())
            for process in summary.processes
            if (process.host, process.pid) in wanted
            for pid, line in summary.stacks
            if pid == process.pid
        ]

    @property
    def _where(self) -> str:
        return f"on this host, nor by a watcher that shares {self.share.path}" if self.share else "on this host"

    def _with_others(self, ours: list[Process], now_ns: int) -> list[Process]:
        return merged(ours, self.share.processes(now_ns)) if self.share else ours

    def _with_history(self) -> list[Process]:
        """What each rank called, and what its process does meanwhile."""
        return [self._rest.seen(process) for process in snapshot(self.recordings.values(), with_history=True)]

    def _with_kills(self, verdict: _V) -> _V:
        """Whether a process that ended without a word may have had to for its memory."""
        if verdict is None or verdict.cause not in {GONE, "ended"} or kills() <= self._kills:
            return verdict
        return replace(
            verdict,
            text=f"{verdict.text} Meanwhile the kernel has ended a process of this control group for lack of memory.",
        )

    def _is_quiet_elsewhere(self, now_ns: int, lone: frozenset[Key]) -> bool:
        """Whether nothing moves on the other hosts of this job either, as far as their watchers wrote."""
        assert self.share is not None
        ours = snapshot(self.recordings.values())
        job = {process.key for process in merged(ours, self.share.processes(now_ns))}
        return all(
            summary.quiet_ns + age_ns >= self.threshold_s() * 1e9
            for summary, age_ns in self.share.others(now_ns)
            if not summary.is_final and any(process.key in job - lone for process in summary.processes)
        )

    def _publish(self, processes: list[Process], now_ns: int, quiet_ns: int) -> None:
        """Each second, and at once when nothing has moved for so long that others may soon want to know why."""
        assert self.share is not None
        is_new = self._history is not None and not self._is_history_told
        if not is_new and not self.share.is_due(now_ns):
            return
        self._is_history_told = self._history is not None
        here = [process for process in self._lasting(processes) if process.is_here]
        mine = here if self._history is None else [self._rest.seen(process) for process in here]
        self.share.publish(Summary(now_ns, quiet_ns, False, self.said, tuple(mine), self._stacks))

    def _lasting(self, processes: list[Process]) -> list[Process]:
        """With what was called, where that was read: it stays the same while nothing moves; what runs may not."""
        if self._history is None:
            return processes
        now = {process.key: process for process in processes}
        return [as_now(process, now.get(process.key, process)) for process in self._history]

    def look_once_more(self) -> None:
        """A process that was just beginning at the last look has written its header since."""
        self._open_new()

    def leave_former(self) -> None:
        """What lies in the folder now and whose process has ended is another job's."""
        self._open_new()
        for path, recording in list(self.recordings.items()):
            if state_now(recording.header()) in {EXITED, GONE}:
                self.recordings.pop(path).close()
                self.former.add(path)

    def _open_new(self) -> None:
        for path in find(self.folder)[:MAX_RECORDINGS]:
            if path in self.recordings or path in self.former:
                continue
            try:
                self.recordings[path] = Recording(path)
            except UserError as error:
                # Its process may be about to write the header; what stays so is told at the end.
                self.refused[path] = str(error)
            else:
                self.refused.pop(path, None)
