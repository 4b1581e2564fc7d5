"""Ranks that wait while a communicator is made, in ncclCommInitRank or ncclCommSplit, for one that has not come."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from busbw.watch.makings import Making
from busbw.watch.members import Verdict, ago, sentence
from busbw.watch.processes import EXITED, GONE, RUNNING, Process

_PUBLIC = {"init": "ncclCommInitRank", "init_all": "ncclCommInitAll", "split": "ncclCommSplit",
           "shrink": "ncclCommShrink", "grow": "ncclCommGrow"}  # fmt: skip
_SHOWN = 8


def in_making(processes: Sequence[Process], now_ns: int, where: str) -> Verdict | None:
    """Who has not come to the communicator that others have waited for the longest."""
    groups: dict[tuple[str, int], list[Process]] = defaultdict(list)
    for process in processes:
        if process.making:
            groups[process.making.how, process.making.identity].append(process)
    making = [process for process in processes if process.making]
    if found := unlike_sizes(making) or twice_the_same(making):
        return found
    for (how, identity), inside in sorted(groups.items(), key=lambda item: _since(item[1])):
        judged = _of_new(processes, inside, now_ns, where) if how == "init" else _of_child(processes, inside, identity)
        if judged:
            missing, who, what = judged
            text = (
                f"{who} has not come to {_PUBLIC[how]}, {what}, in which {_names(inside)} "
                f"wait{'s' * (len(inside) == 1)}, the first since {(now_ns - _since(inside)) / 1e9:.1f} s."
            )
            accused = tuple((process.host, process.pid) for process in missing)
            return Verdict("making", tuple(_rank_of(process, identity) for process in missing), sentence(text), accused)
    return None


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


def _named(rank: int, process: Process) -> str:
    job = f", rank {process.name} of the job" if process.name.isdecimal() and int(process.name) != rank else ""
    return f"rank {rank} ({process.host}, pid {process.pid}{job})"


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
    row = next((row for row in process.communicators if row.identity == identity), None)
    return row.rank if row else int(process.name) if process.name.isdecimal() else -1


def _names(processes: Sequence[Process]) -> str:
    numbers = sorted(_rank_of(each, each.making.identity) if each.making else -1 for each in processes)
    return f"rank {', '.join(map(str, numbers[:_SHOWN]))}" + (" and more" if len(numbers) > _SHOWN else "")


def _of_child(
    processes: Sequence[Process], inside: Sequence[Process], identity: int
) -> tuple[list[Process], str, str] | None:
    """Of a communicator that is split: ranks of the parent that are elsewhere."""
    rows = [(process, row) for process in processes for row in process.communicators if row.identity == identity]
    out = [(process, row) for process, row in rows if not any(process is each for each in inside)]
    if not out:
        return None
    who = "; ".join(
        f"rank {row.rank} ({process.host}, pid {process.pid}{_state(process)}), its last call there "
        f"#{row.collectives:,}, {row.last}," for process, row in out[:_SHOWN]
    )  # fmt: skip
    size = rows[0][1].ranks
    return [each for each, _ in out], who, f"of the communicator of {size} ranks ({identity:016x})"


def _of_new(
    processes: Sequence[Process], inside: Sequence[Process], now_ns: int, where: str
) -> tuple[list[Process], str, str] | None:
    """By their numbers: who is missing, and what a process of that number in the job does."""
    made = [each.making for each in inside if each.making]
    ranks = max(each.ranks for each in made)
    there = {each.rank for each in made}
    missing = [rank for rank in range(ranks) if rank not in there]
    if not missing:
        return None
    whole_job = len({process.key for process in processes}) <= ranks
    named = {process.name: process for process in processes if not any(process is each for each in inside)}
    found = [named[str(rank)] for rank in missing if str(rank) in named and whole_job]
    who = []
    for rank in missing[:_SHOWN]:
        process = named.get(str(rank)) if whole_job else None
        if process is None:
            who.append(f"rank {rank}, of which nothing was seen {where},")
            continue
        other = process.making
        doing = (
            f"; it makes another communicator ({other.identity:016x}), begun {ago(now_ns, other.since_ns)}"
            if other
            else ""
        )
        who.append(f"rank {rank} ({process.host}, pid {process.pid}{_state(process)}{doing})")
    more = " and more" if len(missing) > _SHOWN else ""
    return found, "; ".join(who) + more, f"of a communicator of {ranks} ranks ({made[0].identity:016x})"


def _state(process: Process) -> str:
    if process.state == RUNNING:
        return ""
    ended = {GONE: "has ended without a word", EXITED: "has exited"}
    return f", which {ended.get(process.state, f'is {process.state}')}"
