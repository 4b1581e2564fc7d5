"""Ranks that stay: others wait for them where a communicator ends, or have all gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from busbw.watch.members import SHOWN, Member, Verdict, accused, ago, last_of, name_of, ranks_of, sentence
from busbw.watch.processes import EXITED, GONE, RUNNING, Process

_IDLE = 0.01
"""A process that uses less of a processor saves nothing, as a model at the end."""


def not_ended(processes: Sequence[Process], now_ns: int) -> Verdict | None:
    """Ranks wait in the end of a communicator, as NCCL may, and others have not come there."""
    for members in _with_over(processes):
        waiting = [each for each in members if each.row.in_end and each.process.state == RUNNING]
        absent = [each for each in members if each.row.ended == "alive" and not each.row.in_end]
        if not waiting or not absent or any(_is_within(each.process) for each in absent):
            continue
        function = "ncclCommDestroy" if waiting[0].row.ended == "destroyed" else "ncclCommFinalize"
        ranks = ranks_of(waiting)
        text = (
            f"{_names(absent)} {_how(absent[0].process, function)}; rank {ranks} of {name_of(members)} waits in "
            f"{function}. {sentence(last_of(absent[0], now_ns))}."
        )
        return Verdict("stays", tuple(each.row.rank for each in absent), sentence(text), accused(absent))
    return None


def stays(processes: Sequence[Process], now_ns: int, *, is_longest: bool, is_use_known: bool = True) -> Verdict | None:
    """Half of the ranks or fewer have not exited, and do nothing, while all others have: only a launcher waits.

    Where NCCL gave those an error it is told at once, else where it `is_longest`. Where `is_use_known`, who does
    nothing is told by the processor that it uses.
    """
    for members in _with_over(processes):
        there = [each for each in members if _is_there(each.process)]
        gone = [each for each in members if not _is_there(each.process)]
        everybody = len({each.row.rank for each in members}) == members[0].row.ranks
        if not there or 2 * len(there) > len(members) or not everybody:
            continue
        failed = any(each.row.last_error for each in gone)
        if not (failed or is_longest) or any(_is_within(each.process) for each in there):
            continue
        if is_use_known and any(_may_work(each.process) for each in there):
            continue
        first = there[0]
        text = (
            f"{_names(there)} {_stays(first.process)} since #{first.row.collectives:,} of {name_of(members)}, "
            f"{first.row.last}, {ago(now_ns, first.row.entered_ns)}, and the other {len(gone)} have all ended"
            f"{', after an error of NCCL' if failed else ''}: no rank waits for it, but who waits for the job does."
        )
        return Verdict("stays", tuple(each.row.rank for each in there), sentence(text), accused(there))
    return None


def _with_over(processes: Sequence[Process]) -> list[list[Member]]:
    """The ranks of each communicator, with those that have ended it."""
    found: dict[int, list[Member]] = defaultdict(list)
    for process in processes:
        for row in (*process.communicators, *process.over):
            found[row.identity].append(Member(process, row))
    return [sorted(members, key=lambda each: each.row.rank) for members in found.values()]


def _is_there(process: Process) -> bool:
    return process.is_leaving or process.state not in {EXITED, GONE}


def _is_within(process: Process) -> bool:
    """In a call, or in the making of a communicator."""
    return process.making is not None or any(row.entered > row.returned for row in process.communicators)


def _may_work(process: Process) -> bool:
    if process.busy is None:
        return process.state == RUNNING or process.is_leaving
    return process.busy >= _IDLE


def _names(members: Sequence[Member]) -> str:
    more = f" and {len(members) - SHOWN} more" if len(members) > SHOWN else ""
    return ", ".join(map(str, members[:SHOWN])) + more


def _how(process: Process, function: str) -> str:
    ways = {RUNNING: f"has not called {function}", EXITED: "has exited", GONE: "has ended without a word"}
    return ways.get(process.state, f"is {process.state}")


def _stays(process: Process) -> str:
    if process.is_leaving:
        return "has begun its exit and does not come to the end of it,"
    return "has called nothing" if process.state == RUNNING else f"is {process.state}, and has called nothing"
