"""Ranks that wait while a communicator is made, in ncclCommInitRank or ncclCommSplit, for one that has not come."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from busbw.watch.makings import Making
from busbw.watch.members import Member, Verdict, ago, in_the_job, name_of, sentence
from busbw.watch.processes import EXITED, GONE, RUNNING, Process
from busbw.watch.recording import Communicator

_PUBLIC = {"init": "ncclCommInitRank", "init_all": "ncclCommInitAll", "split": "ncclCommSplit",
           "shrink": "ncclCommShrink", "grow": "ncclCommGrow"}  # fmt: skip
_SHOWN = 8


def in_making(processes: Sequence[Process], now_ns: int, where: str) -> Verdict | None:
    """Who has not come to the communicator that others have waited for the longest, or cannot go on there."""
    groups: dict[tuple[str, int], list[Process]] = defaultdict(list)
    for process in processes:
        if process.making and process.state == RUNNING:
            groups[process.making.how, process.making.identity].append(process)
    making = [process for process in processes if process.making]
    if found := unlike_sizes(making) or twice_the_same(making):
        return found
    for (how, identity), inside in sorted(groups.items(), key=lambda item: _since(item[1])):
        of_new = how == "init"
        judged = _of_new(processes, inside, now_ns, where) if of_new else _of_child(processes, inside, identity, now_ns)
        if judged:
            missing, who, what = judged
            text = (
                f"{who} has not come to {_PUBLIC[how]}, {what}, in which {_names(inside)} "
                f"wait{'s' * (len(inside) == 1)}, the first since {(now_ns - _since(inside)) / 1e9:.1f} s."
            )
            accused = tuple((process.host, process.pid) for process in missing)
            return Verdict("making", tuple(_rank_of(process, identity) for process in missing), sentence(text), accused)
    return _stays_within(making)


def _stays_within(making: Sequence[Process]) -> Verdict | None:
    """All have come, but the process of one is stopped there, or gone."""
    still = [process for process in making if process.state != RUNNING]
    if not still or not (first := still[0].making):
        return None
    there = [each for each in making if each.making and each.making.identity == first.identity]
    waiting = [each for each in there if each.state == RUNNING]
    still = [each for each in there if each.state != RUNNING]
    if not waiting:
        return None
    who = "; ".join(_with_state(_rank_of(each, first.identity), each) for each in still[:_SHOWN])
    text = (
        f"{who} had come to {_PUBLIC[first.how]} ({first.identity:016x}), in which {_names(waiting)} "
        f"wait{'s' * (len(waiting) == 1)}."
    )
    ranks = tuple(_rank_of(each, first.identity) for each in still)
    return Verdict("making", ranks, sentence(text), tuple((each.host, each.pid) for each in still))


def who_has_not_come(processes: Sequence[Process], making: Making) -> str:
    """Of the ranks of a communicator that is split, those that are elsewhere, where they are not most of them."""
    rows = [Member(process, row) for process in processes for row in process.communicators
            if row.identity == making.identity]  # fmt: skip
    out = [each for each in rows if not each.process.making or each.process.making.identity != making.identity]
    if making.how == "init" or not out or 2 * len(out) > len(rows):
        return ""
    have = "has" if len(out) == 1 else "have"
    return f", to which {'; '.join(map(str, out[:_SHOWN]))}{_more(out)} {have} not come"


def unlike_sizes(processes: Sequence[Process]) -> Verdict | None:
    """Ranks that do not agree how many of them make a communicator, in the making or when NCCL has refused it."""
    for identity, makings in _by_identity(processes).items():
        sizes = Counter(making.ranks for _, making in makings)
        if len(sizes) < 2:
            continue
        usual = max(sizes, key=lambda size: (sizes[size], size))
        others = [(process, making) for process, making in makings if making.ranks != usual]
        who = "; ".join(f"rank {making.rank} ({process.host}, pid {process.pid}) says {making.ranks}"
                        for process, making in others[:_SHOWN])  # fmt: skip
        text = (
            f"Ranks do not agree how many of them make a communicator ({identity:016x}, ncclCommInitRank): {who}; "
            f"{sizes[usual]} say{'s' * (sizes[usual] == 1)} {usual}."
        )
        accused = tuple((process.host, process.pid) for process, _ in others)
        return Verdict("making", tuple(making.rank for _, making in others), text, accused)
    return None


def twice_the_same(processes: Sequence[Process]) -> Verdict | None:
    """Two processes that say the same number, in the making of a communicator or when NCCL has refused it."""
    for identity, makings in _by_identity(processes).items():
        said: dict[int, dict[tuple[str, int, int], Process]] = defaultdict(dict)
        for process, making in makings:
            said[making.rank][process.key] = process
        # One of them may have made it.
        for process in processes:
            for row in (*process.communicators, *process.over):
                if row.identity == identity and row.made == "init":
                    said[row.rank][process.key] = process
        double = {rank: list(those.values()) for rank, those in said.items() if rank >= 0 and len(those) > 1}
        if not double:
            continue
        who = "; ".join(
            f"{' and '.join(_named(rank, each) for each in those[:_SHOWN])} say the same number,"
            for rank, those in list(double.items())[:_SHOWN]
        )
        missing = [rank for rank in range(min(makings[0][1].ranks, 1 << 16)) if rank not in said]
        nobody = f", and nobody says {', '.join(map(str, missing[:_SHOWN]))}" if missing else ""
        text = f"{who} of a communicator ({identity:016x}, ncclCommInitRank){nobody}."
        accused = tuple((each.host, each.pid) for those in double.values() for each in those)
        return Verdict("making", tuple(double), sentence(text), accused)
    return None


def _with_state(rank: int, process: Process, more: str = "") -> str:
    return f"{_named(rank, process)[:-1]}{_state(process)}{more})"


def _named(rank: int, process: Process) -> str:
    ranks = process.making.ranks if process.making else 0
    return f"rank {rank} ({process.host}, pid {process.pid}{in_the_job(process, rank, ranks)})"


def _by_identity(processes: Sequence[Process]) -> dict[int, list[tuple[Process, Making]]]:
    """Communicators in the making by ncclCommInitRank, and refused ones."""
    groups: dict[int, list[tuple[Process, Making]]] = defaultdict(list)
    for process in processes:
        for making in (process.making, process.refused):
            if making and making.how == "init" and making.ranks > 0:
                groups[making.identity].append((process, making))
    return groups


def _since(inside: Sequence[Process]) -> int:
    return min(process.making.since_ns for process in inside if process.making)


def _rank_of(process: Process, identity: int) -> int:
    """Its number in the communicator that is made, or in the one that is split."""
    if process.making and process.making.how == "init" and process.making.identity == identity:
        return process.making.rank
    row = next((row for row in process.communicators if row.identity == identity), None)
    return row.rank if row else int(process.name) if process.name.isdecimal() else -1


def _names(processes: Sequence[Process]) -> str:
    numbers = sorted(_rank_of(each, each.making.identity) if each.making else -1 for each in processes)
    return f"rank {', '.join(map(str, numbers[:_SHOWN]))}" + (" and more" if len(numbers) > _SHOWN else "")


def _of_child(
    processes: Sequence[Process], inside: Sequence[Process], identity: int, now_ns: int
) -> tuple[list[Process], str, str] | None:
    """Of a communicator that is split: ranks of the parent that are elsewhere."""
    rows = [Member(process, row) for process in processes for row in process.communicators if row.identity == identity]
    out = [each for each in rows if not each.process.making or each.process.making.identity != identity]
    if not out:
        return None
    who = "; ".join(
        f"{_with_state(each.row.rank, each.process, _makes(each.process, now_ns))}, {_last(each.row)},"
        for each in out[:_SHOWN]
    )
    return [each.process for each in out], who + _more(out), f"of {name_of(rows)}"


def _of_new(
    processes: Sequence[Process], inside: Sequence[Process], now_ns: int, where: str
) -> tuple[list[Process], str, str] | None:
    """By their numbers: who is missing, and what a process of that number in the job does."""
    made = [each.making for each in inside if each.making]
    ranks, identity = max(each.ranks for each in made), made[0].identity
    # Who has died there had come, and is told as such where nobody is missing.
    there = {each.making.rank for each in processes if each.making and each.making.identity == identity}
    missing = [rank for rank in range(min(ranks, 1 << 16)) if rank not in there]
    if not missing:
        return None
    named = _by_number(processes, inside, ranks, missing)
    who = []
    for rank in missing[:_SHOWN]:
        process = named.get(rank)
        if process is None:
            who.append(f"rank {rank}, of which nothing was seen {where},")
        else:
            who.append(_with_state(rank, process, _makes(process, now_ns)))
    found = [named[rank] for rank in missing if rank in named]
    return found, "; ".join(who) + _more(missing), f"of a communicator of {ranks} ranks ({identity:016x})"


def _by_number(
    processes: Sequence[Process], inside: Sequence[Process], ranks: int, missing: Sequence[int]
) -> dict[int, Process]:
    """Who the missing ones are: those of the same numbers in the job, where that is what is made.

    Of a part of the job those whose numbers lie between their neighbours', where no others do.
    """
    others = {int(each.name): each for each in processes if each.name.isdecimal() and all(
        each is not one for one in inside)}  # fmt: skip
    if len({process.key for process in processes}) <= ranks:
        return {rank: others[rank] for rank in missing if rank in others}
    known = sorted((each.making.rank, int(each.name)) for each in inside if each.making and each.name.isdecimal())
    if len(known) < len(inside) or [number for _, number in known] != sorted({number for _, number in known}):
        return {}
    found: dict[int, Process] = {}
    for (low, first), (high, last) in pairwise(known):
        between = sorted(number for number in others if first < number < last)
        if len(between) == high - low - 1:
            found |= {low + 1 + at: others[number] for at, number in enumerate(between)}
    return found


def _makes(process: Process, now_ns: int) -> str:
    if not (other := process.making):
        return ""
    return f"; it makes another communicator ({other.identity:016x}), begun {ago(now_ns, other.since_ns)}"


def _last(row: Communicator) -> str:
    return f"its last call there #{row.collectives:,}, {row.last}" if row.entered else "which has called nothing there"


def _more(each: Sequence[object]) -> str:
    return f" and {len(each) - _SHOWN} more" if len(each) > _SHOWN else ""


def _state(process: Process) -> str:
    if process.state == RUNNING:
        return ""
    ended = {GONE: "has ended without a word", EXITED: "has exited"}
    return f", which {ended.get(process.state, f'is {process.state}')}"
