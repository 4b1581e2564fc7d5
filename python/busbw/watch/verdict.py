"""Who waits for whom: from the recordings of the ranks of one host, which rank holds a job up, and why.

A snapshot is a value and a verdict a pure function of it, so that every fault can be written down as a test.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from busbw.watch.recording import COLLECTIVES, Communicator, Header, Recording, Shape, shape_of

HISTORY = 4096
"""So many of a process's newest calls are compared with those of others."""
RUNNING, STOPPED, TRACED, GONE, EXITED = "running", "stopped", "in a debugger", "gone", "exited"


@dataclass(frozen=True)
class Process:
    """One process of the job at one moment."""

    name: str
    pid: int
    host: str
    state: str
    communicators: tuple[Communicator, ...]
    history: Mapping[int, Mapping[int, Shape]] = field(default_factory=dict)
    """Of each communicator's place, the newest collectives by their number."""
    gpus: bool = False
    """Its communicators' devices are GPUs."""
    start: int = 0
    """Clock ticks after boot, by which the process is told from another one of that number."""
    is_here: bool = True
    """/proc of this host speaks of it."""
    silent_s: float = 0.0
    """For so long the watcher of its host has written nothing; 0 while it writes."""

    @property
    def key(self) -> tuple[str, int, int]:
        """Equal for one process, wherever it is read of."""
        return self.host, self.pid, self.start


@dataclass(frozen=True)
class Verdict:
    """What holds the job up: a code for programs, and a paragraph for people."""

    cause: str
    ranks: tuple[int, ...]
    text: str
    accused: tuple[tuple[str, int], ...] = ()
    """Host and pid of those ranks."""


@dataclass(frozen=True)
class _Member:
    process: Process
    row: Communicator

    @property
    def inside(self) -> bool:
        return self.row.entered > self.row.returned

    def __str__(self) -> str:
        gpu = f", GPU {self.row.device}" if self.process.gpus and self.row.device >= 0 else ""
        return f"rank {self.row.rank} ({self.process.host}, pid {self.process.pid}{gpu})"


def snapshot(recordings: Iterable[Recording], *, with_history: bool = False) -> list[Process]:
    """What the recordings and /proc say now; history is for a verdict, and costs more."""
    found = []
    for recording in recordings:
        header = recording.header()
        rows = tuple(row for row in recording.communicators() if row.ended == "alive" and row.ranks > 1)
        state = state_now(header)
        history = _history(recording, header.calls) if with_history else {}
        found.append(
            Process(
                str(header.launched_rank), header.pid, header.host, state, rows, history,
                gpus=not header.synchronous, start=header.process_start, is_here=is_here(header),
            )
        )  # fmt: skip
    return found


def _history(recording: Recording, calls: int) -> Mapping[int, Mapping[int, Shape]]:
    history: dict[int, dict[int, Shape]] = defaultdict(dict)
    for _, (_, sequence, what, _, how) in recording.raw_calls(calls - HISTORY + 1):
        shape = shape_of(what, how)
        if shape.kind in COLLECTIVES:
            history[what >> 48][sequence] = shape
    return history


def state_now(header: Header) -> str:
    """Of the process of a recording. What runs on another host, or among other process numbers, is taken to run."""
    if header.ended:
        return EXITED
    return state_of(header.pid, header.process_start) if is_here(header) else RUNNING


def is_here(header: Header) -> bool:
    """Whether /proc of this host speaks of the recording's process."""
    if header.host != os.uname().nodename:
        return False
    try:
        return header.pid_namespace in (0, Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return True


def state_of(pid: int, start: int) -> str:
    """What /proc says of a process; `start` tells it from another one that has its number now."""
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        letter, begun = words[0].decode(), int(words[19])
    except (OSError, IndexError, ValueError):
        return GONE
    if start and begun != start:
        return GONE
    return {"T": STOPPED, "t": TRACED, "Z": GONE, "X": GONE}.get(letter, RUNNING)


def progress(processes: Iterable[Process]) -> tuple[tuple[object, ...], ...]:
    """Changes whenever a call begins or returns anywhere, or a communicator comes or goes."""
    return tuple((*p.key, row.place, row.entered, row.returned) for p in processes for row in p.communicators)


def waits(processes: Sequence[Process]) -> bool:
    """Whether some rank waits for another: is inside a call, or has called more than another rank."""
    for members in _by_communicator(processes).values():
        if any(member.inside for member in members) or len({m.row.collectives for m in members}) > 1:
            return True
    return False


def judge(processes: Sequence[Process], now_ns: int, where: str = "on this host") -> Verdict | None:
    """The root of a wait, or None where nobody waits; `now_ns` by the host's monotonic clock.

    `where` says in which place ranks were looked for.
    """
    groups = {key: members for key, members in _by_communicator(processes).items() if _holds(members)}
    if not groups:
        return None
    found = _of_processes(groups, now_ns) or _first(_unlike(members) for members in groups.values())
    if found:
        return found
    behind = {key: _behind(members) for key, members in groups.items()}
    return _crossed(groups, behind, now_ns) or _late(groups, behind, now_ns) or _of_all(groups, now_ns, where)


def after_the_end(processes: Sequence[Process]) -> Verdict | None:
    """Why a job that failed did, as far as its calls tell; None where they are the same on all ranks."""
    groups = _by_communicator(processes)
    unlike = _first(_unlike(members) for members in groups.values())
    if unlike:
        return unlike
    for members in groups.values():
        late = _behind(members)
        if late and len(members) > 1:
            first = _newest(members)
            who = ", ".join(map(str, late[:8]))
            text = (
                f"{who} called #{late[0].row.collectives:,} of {_number(members)} as the last one, {late[0].row.last}; "
                f"rank {first.row.rank} went on to #{first.row.collectives:,}, {first.row.last}."
            )
            return Verdict("ended", tuple(member.row.rank for member in late), _sentence(text), _accused(late))
    return None


def _first(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    return next((verdict for verdict in verdicts if verdict), None)


def _of_processes(groups: Mapping[int, Sequence[_Member]], now_ns: int) -> Verdict | None:
    """A process that is gone or stopped holds up whatever it takes part in."""
    for members in groups.values():
        for member in members:
            if member.process.state != RUNNING:
                return _not_running(member, members, now_ns)
    return None


def _late(
    groups: Mapping[int, Sequence[_Member]], behind: Mapping[int, Sequence[_Member]], now_ns: int
) -> Verdict | None:
    """Where the late rank itself waits on another communicator, that one is nearer to the root."""
    for key, late in behind.items():
        for member in late:
            if not _inside_of(groups, member.process):
                return _did_not_call(member, groups[key], late, now_ns)
    return None


def _of_all(groups: Mapping[int, Sequence[_Member]], now_ns: int, where: str) -> Verdict:
    for members in groups.values():
        if len(members) < members[0].row.ranks:
            return _unseen(members, now_ns, where)
    return _all_called(next(iter(groups.values())), now_ns)


def _by_communicator(processes: Iterable[Process]) -> dict[int, list[_Member]]:
    groups: dict[int, list[_Member]] = defaultdict(list)
    for process in processes:
        for row in process.communicators:
            groups[row.identity].append(_Member(process, row))
    for members in groups.values():
        members.sort(key=lambda member: member.row.rank)
    return dict(sorted(groups.items(), key=lambda item: min(member.row.made_ns for member in item[1])))


def _holds(members: Sequence[_Member]) -> bool:
    return any(member.inside for member in members) or len({member.row.collectives for member in members}) > 1


def _behind(members: Sequence[_Member]) -> list[_Member]:
    most = max(member.row.collectives for member in members)
    return [member for member in members if member.row.collectives < most]


def _inside_of(groups: Mapping[int, Sequence[_Member]], process: Process) -> list[_Member]:
    return [m for members in groups.values() for m in members if m.process is process and m.inside]


def _newest(members: Sequence[_Member]) -> _Member:
    return max(members, key=lambda member: (member.row.collectives, -member.row.rank))


def _number(members: Sequence[_Member]) -> str:
    first = members[0].row
    return f"the communicator of {first.ranks} ranks that was made as {first.made} ({first.identity:016x})"


def _ago(now_ns: int, then_ns: int) -> str:
    return f"{max(0, now_ns - then_ns) / 1e9:.1f} s ago" if then_ns else "never"


def _last(member: _Member, now_ns: int) -> str:
    row = member.row
    if not row.entered:
        return "it has called nothing there"
    back = "has not come back" if member.inside else "came back"
    silent = member.process.silent_s
    since = f"; its host's watcher has written nothing for {silent:.0f} s" if silent else ""
    return (
        f"its last call there was #{row.collectives:,}, {row.last}, {_ago(now_ns, row.entered_ns)}, and {back}{since}"
    )


def _not_running(member: _Member, members: Sequence[_Member], now_ns: int) -> Verdict:
    state = member.process.state
    waiting = [str(other.row.rank) for other in members if other is not member and other.process.state == RUNNING]
    how = {GONE: "has ended without a word", EXITED: "has exited"}.get(state, f"is {state}")
    then = f"; rank {', '.join(waiting)} of {_number(members)} waits" if waiting else ""
    return Verdict(
        state,
        (member.row.rank,),
        f"{member}: the process {how}{then}. {_sentence(_last(member, now_ns))}.",
        _accused([member]),
    )


def _unlike(members: Sequence[_Member]) -> Verdict | None:
    """Ranks that gave a collective of one number different shapes; the first such number is the root."""
    by_number: dict[int, list[tuple[_Member, Shape]]] = defaultdict(list)
    for member in members:
        for number, shape in member.process.history.get(member.row.place, {}).items():
            by_number[number].append((member, shape))
    for number, same in sorted(by_number.items()):
        shapes = Counter(shape for _, shape in same)
        if len(shapes) < 2:
            continue
        usual, times = shapes.most_common(1)[0]
        others = [(member, shape) for member, shape in same if shape != usual]
        names = ("kind", "count", "type", "op", "root")
        differs = [name for name in names if any(getattr(shape, name) != getattr(usual, name) for _, shape in others)]
        what = ", ".join({"kind": "collective", "op": "operator"}.get(name, name) for name in differs)
        called = "; ".join(f"{member} called {shape}" for member, shape in others[:8])
        text = (
            f"Call #{number:,} of {_number(members)} is not the same on all ranks, but another {what}: {called}; "
            f"{times} called {usual}."
        )
        return Verdict("unlike", tuple(member.row.rank for member, _ in others), text, _accused([m for m, _ in others]))
    return None


def _crossed(
    groups: Mapping[int, Sequence[_Member]], behind: Mapping[int, Sequence[_Member]], now_ns: int
) -> Verdict | None:
    """Two processes, each inside a call on the communicator for which the other one is late."""
    for key, late in sorted(behind.items(), key=lambda item: len(item[1])):
        for member in late:
            for other_key, other_late in behind.items():
                mine = next((m for m in groups[other_key] if m.process is member.process and m.inside), None)
                theirs = [m for m in groups[key] if m.inside and any(m.process is o.process for o in other_late)]
                if other_key == key or mine is None or not theirs:
                    continue
                wanted = member.row.collectives + 1
                text = (
                    f"{member} has left out #{wanted:,} of {_number(groups[key])}, or calls in another order than the "
                    f"others: it waits in #{mine.row.collectives:,} of {_number(groups[other_key])}, {mine.row.last}, "
                    f"while rank {', '.join(str(m.row.rank) for m in theirs[:8])} waits in #{wanted:,} of the former, "
                    f"{theirs[0].row.last}. {_sentence(_last(member, now_ns))}."
                )
                return Verdict("order", tuple(m.row.rank for m in late), text, _accused(late))
    return None


def _did_not_call(member: _Member, members: Sequence[_Member], late: Sequence[_Member], now_ns: int) -> Verdict:
    first = _newest(members)
    also = [str(other.row.rank) for other in late if other is not member]
    more = f" (nor did rank {', '.join(also)})" if also else ""
    wanted = member.row.collectives + 1
    shape = f", {first.row.last}" if first.row.collectives == wanted else ""
    text = (
        f"{member} did not call #{wanted:,}{shape}, of {_number(members)}{more}; "
        f"rank {first.row.rank} called #{first.row.collectives:,} {_ago(now_ns, first.row.entered_ns)}. "
        f"{_sentence(_last(member, now_ns))}."
    )
    return Verdict("missing", tuple(other.row.rank for other in late), text, _accused(late))


def _unseen(members: Sequence[_Member], now_ns: int, where: str) -> Verdict:
    there = {member.row.rank for member in members}
    missing = [rank for rank in range(min(members[0].row.ranks, 1 << 20)) if rank not in there]
    shown = ", ".join(map(str, missing[:8])) + (" and more" if len(missing) > 8 else "")
    first = _newest(members)
    text = (
        f"All ranks seen here called #{first.row.collectives:,} of {_number(members)}, the last one "
        f"{_ago(now_ns, first.row.entered_ns)}; rank {shown} was not seen {where}."
    )
    return Verdict("unseen", tuple(missing[:1024]), text)


def _all_called(members: Sequence[_Member], now_ns: int) -> Verdict:
    first = next((member for member in members if member.inside), members[0])
    text = (
        f"All ranks called #{first.row.collectives:,} of {_number(members)}, {first.row.last}, "
        f"{_ago(now_ns, first.row.entered_ns)}, and it has not come back: what moves the data stands still."
    )
    return Verdict("stuck", (), text, _accused(members))


def _accused(members: Iterable[_Member]) -> tuple[tuple[str, int], ...]:
    return tuple((member.process.host, member.process.pid) for member in members)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def monotonic_ns() -> int:
    """The clock of the recordings."""
    import time

    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
