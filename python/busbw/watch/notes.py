"""Ranks that have waited for long for others that go on elsewhere, or that rest: told as a note, as it may be no fault.

An evaluation or a checkpoint of some ranks looks like a fault for as long as it lasts. So the note says who waits for
whom and at which call, and the verdict on a hang is given by others, later or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw.watch.members import SHOWN, Member, Verdict, ago, by_communicator, elsewhere, name_of, newest, ranks_of
from busbw.watch.processes import EXITED, GONE, RUNNING, Process
from busbw.watch.standing import blockers, moved_ns_of

NOTE_S = 8.0
"""After so long a wait is told, where the user gave no time."""
_WORKS = 0.05
"""Of a processor, since nothing moves: who waits for a lock or sleeps uses less."""
_AGAIN = 2
"""So many times the longest wait that has ended on a communicator: who saves a model each hour is told of it once."""


@dataclass(frozen=True)
class Wait:
    """Ranks of one communicator that wait for others of it since `since_ns`."""

    waiting: tuple[Member, ...]
    late: tuple[Member, ...]
    since_ns: int


def waits_for_others(processes: Sequence[Process]) -> dict[int, Wait]:
    """By communicator; without those whose late ranks wait themselves, in a call of another communicator."""
    groups = by_communicator(processes)
    found = {}
    for key, members in groups.items():
        late = blockers(members)
        most = max(each.row.collectives for each in members)
        waiting = [each for each in members if each not in late and (each.inside or each.row.collectives == most > 0)]
        if not late or not waiting or not _holds(waiting, late):
            continue
        if all(elsewhere(groups, each) for each in late):
            continue
        found[key] = Wait(tuple(waiting), tuple(late), max(map(moved_ns_of, members)))
    return found


def at_work(verdict: Verdict, processes: Sequence[Process]) -> bool:
    """Whether a rank did not call as it computes: it may evaluate, or save what was trained, and come yet."""
    late = [each for each in processes if (each.host, each.pid) in verdict.accused]
    return verdict.cause == "missing" and any((each.busy or 0.0) >= _WORKS for each in late)


def _holds(waiting: Sequence[Member], late: Sequence[Member]) -> bool:
    """Over NCCL calls come back at once: there who has called more than others may wait."""
    behind = max(each.row.collectives for each in waiting) > min(each.row.collectives for each in late)
    return any(each.inside for each in waiting) or (behind and any(each.process.gpus for each in waiting))


@dataclass
class Notes:
    """What was told; `hang_after_s` is the user's word for how long is long."""

    hang_after_s: float | None = None
    _told: dict[int, int] = field(default_factory=dict)
    """Since when the wait lasts that was told, by communicator."""
    _longest: dict[int, int] = field(default_factory=dict)
    """Of waits that were told and have ended, in ns."""

    def look(self, processes: Sequence[Process], now_ns: int) -> list[str]:
        """New notes: at most one of a wait that lasts, as the others follow from it, and those that have ended."""
        groups = by_communicator(processes)
        self._longest = {key: longest for key, longest in self._longest.items() if key in groups}
        lines = []
        for key, since_ns in list(self._told.items()):
            moved_ns = max(map(moved_ns_of, groups[key])) if key in groups else since_ns
            if key in groups and moved_ns <= since_ns:
                continue
            del self._told[key]
            if key in groups:
                self._longest[key] = max(self._longest.get(key, 0), moved_ns - since_ns)
                lines.append(f"note: {name_of(groups[key])} goes on after {(moved_ns - since_ns) / 1e9:.1f} s.")
        waits = waits_for_others(processes)
        long = {key: wait for key, wait in waits.items() if now_ns - wait.since_ns >= self._least_ns(key)}
        if not long.keys() - self._told.keys():
            return lines[:1]
        is_new = not self._told
        self._told |= {key: wait.since_ns for key, wait in long.items()}
        if is_new:
            lines.append(_text(max(long.values(), key=lambda each: len(each.waiting)), len(long), groups, now_ns))
        return lines

    def _least_ns(self, key: int) -> float:
        least_s = NOTE_S if self.hang_after_s is None else self.hang_after_s
        return max(least_s * 1e9, _AGAIN * self._longest.get(key, 0))


def _text(wait: Wait, many: int, groups: Mapping[int, Sequence[Member]], now_ns: int) -> str:
    first, late = newest(wait.waiting), wait.late[0]
    more = f" So it is in {many - 1} more communicators." if many > 1 else ""
    return (
        f"note: rank {_ranks(wait.waiting)} of {name_of(wait.waiting)} "
        f"{'have' if len(wait.waiting) > 1 else 'has'} waited for {(now_ns - wait.since_ns) / 1e9:.1f} s in "
        f"#{first.row.collectives:,}, {_call(first)}. "
        f"Rank {_ranks(wait.late)} {'have' if len(wait.late) > 1 else 'has'} not called it; the last call there was "
        f"#{late.row.collectives:,}, {_call(late)}, {ago(now_ns, late.row.entered_ns)}. "
        f"{_meanwhile(wait, groups, now_ns)}{more} An evaluation or a checkpoint of some ranks looks like this too."
    )


def _meanwhile(wait: Wait, groups: Mapping[int, Sequence[Member]], now_ns: int) -> str:
    """What the late ranks do."""
    ended = [each for each in wait.late if each.process.state in {GONE, EXITED}]
    if ended:
        return f"Rank {_ranks(ended)} {'have' if len(ended) > 1 else 'has'} ended."
    if held := [each for each in wait.late if each.process.state != RUNNING]:
        return f"The process of rank {_ranks(held)} is {held[0].process.state}."
    keys = {each.process.key for each in wait.late}
    calls = [
        each
        for members in groups.values() for each in members
        if each.process.key in keys and each.row.entered_ns > wait.since_ns
    ]  # fmt: skip
    many = len(wait.late) > 1
    if not calls:
        return f"{'They have' if many else 'It has'} called nothing since."
    last = max(calls, key=lambda each: each.row.entered_ns)
    where = f"#{last.row.collectives:,} of {name_of([last])}, {_call(last)}"
    goes = "They go on elsewhere: their" if many else "It goes on elsewhere: its"
    return f"{goes} newest call is {where}, {ago(now_ns, last.row.entered_ns)}."


def _call(member: Member) -> str:
    if not member.row.entered:
        return "none"
    return f"{member.row.last} ({member.row.last.bytes(member.row.ranks):,} bytes)"


def _ranks(members: Sequence[Member]) -> str:
    more = f" and {len(members) - SHOWN} more" if len(members) > SHOWN else ""
    return ranks_of(members) + more
