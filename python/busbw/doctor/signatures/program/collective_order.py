"""Watchdogs of ranks wait in different collectives at the same place: their order differs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage

_SIZED_ALIKE = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"})
"""Of these all ranks give as many elements; of others they may differ."""
Place = tuple[str, str]
Groups = Sequence[Mapping[str, str]]


def parted(groups: Groups) -> dict[Place, dict[tuple[str, str], list[int]]]:
    """By process group and number of a collective, what ranks call there, where they do not call the same."""
    alike = all(each.get("who", each.get("rank")) == each.get("rank") for each in groups)
    found: defaultdict[Place, dict[tuple[str, str], list[int]]] = defaultdict(dict)
    for each in groups:
        where = each.get("guid") or each.get("pg") or ("" if alike else None)
        if where is None or not {"seq", "op", "rank"} <= each.keys():
            continue
        call = each["op"], each.get("size", "") if each["op"] in _SIZED_ALIKE else ""
        ranks = found[where, each["seq"]].setdefault(call, [])
        ranks.append(int(each.get("who", each["rank"])))
    return {place: calls for place, calls in found.items() if len(calls) > 1 and not _are_peers(calls)}


def _are_peers(calls: Mapping[tuple[str, str], list[int]]) -> bool:
    """Whether one side sends what the other receives: both halves of one transfer."""
    return {op for op, _ in calls} == {"SEND", "RECV"}


def tell(groups: Groups) -> str:
    """Which ranks call what."""
    (_, number), calls = next(iter(parted(groups).items()))
    said = [
        f"rank {', '.join(map(str, sorted(set(ranks))[:6]))} calls {op}{f' of {size} elements' if size else ''}"
        for (op, size), ranks in list(calls.items())[:3]
    ]
    return f"ranks call different collectives as number {number}: {'; '.join(said)}{_ahead(calls)}"


_SMALL, _LARGE = 64, 1000


def _ahead(calls: Mapping[tuple[str, str], list[int]]) -> str:
    """Who reduces a number or two (a loss, a metric, a flag) while others still reduce gradients."""
    sizes = {int(size): ranks for (op, size), ranks in calls.items() if op == "ALLREDUCE" and size}
    small = {size: ranks for size, ranks in sizes.items() if size <= _SMALL}
    if len(sizes) != 2 or len(small) != 1 or max(sizes) < _LARGE:
        return ""
    ranks = sorted(set(next(iter(small.values()))))
    return (
        f"; rank {', '.join(map(str, ranks[:6]))} is past the gradients of the others: fewer batches there, or a "
        "metric that others do not reduce"
    )


SIGNATURE = Signature(
    name="collective-order",
    stage=Stage.PROGRAM,
    title="ranks call different collectives at the same place of their order",
    patterns=(
        r"(?:\[rank(?P<who>\d+)\].{0,90}?)?"
        r"(?:\[PG (?:ID )?(?P<pg>\d+) (?:PG GUID (?P<guid>\d+))?[^\]]{0,80}?|\[)Rank (?P<rank>\d+)\].{0,160}?"
        r"WorkNCCL\(SeqNum=(?P<seq>\d+), OpType=(?P<op>\w+), NumelIn=(?P<size>\d+)",
    ),
    explains=("watchdog-timeout", "message-truncated"),
    confirm="TORCH_NCCL_TRACE_BUFFER_SIZE=2000 keeps what each rank called: give all ranks' dumps to busbw doctor",
    cure=(
        "let all ranks take the same branches: no collective inside `if rank == 0`, the same number of batches, the "
        "same order of process groups and of checkpoint calls. Start at the ranks that are named"
    ),
    cost="all ranks wait until the watchdog ends the job",
    source="torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
    tell=tell,
    holds=lambda groups: bool(parted(groups)),
)
