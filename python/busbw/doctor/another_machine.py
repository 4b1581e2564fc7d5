"""Whether a topology is of another machine than a log or a record: files that somebody swapped make false findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.base.secrets import shortened
from busbw.machine.nccl.log_model import NcclLog
from busbw.machine.topology.model import Machine
from busbw.machine.topology.names import is_amd, is_part, product
from busbw.records import Record


@dataclass(frozen=True, slots=True)
class _Ran:
    """What a log or record says of its GPUs: their name, and how many of them its fullest host used."""

    source: str
    name: str
    gpus: int


def differs(machine: Machine | None, records: Sequence[Record], logs: Sequence[NcclLog]) -> str:
    """A sentence where the machine cannot be that of the records or logs; empty where it can.

    A job may use fewer GPUs than its machine has, and never more.
    """
    if machine is None or not machine.gpus:
        return ""
    for ran in (*_of_records(records), *_of_logs(logs)):
        theirs, ours = _model(ran.name), {_model(gpu.name) or _capability(gpu.sm) for gpu in machine.gpus}
        kinds = " and ".join(sorted(ours))
        if theirs and all(ours) and theirs not in ours:
            return (
                f"{machine.source} is of another machine than {ran.source}: it has GPUs of {kinds}, the other one "
                f"{shortened(ran.name, 60)} ({theirs})"
            )
        if ran.gpus > len(machine.gpus):
            return (
                f"{machine.source} is of another machine than {ran.source}: it has {len(machine.gpus)} GPUs, the other "
                f"one ran on {ran.gpus} GPUs of one host"
            )
    return ""


def _model(name: str | None) -> str:
    """AMD, or the compute capability of that product; empty where it is not known."""
    if is_amd(name):
        return "AMD"
    known = product(name)
    return _capability(known.sm) if known is not None else ""


def _capability(sm: int | None) -> str:
    return f"compute capability {sm / 10:.1f}" if sm else ""


def _of_records(records: Sequence[Record]) -> Iterator[_Ran]:
    for record in records:
        used = defaultdict[str, set[object]](set)
        names = set[str]()
        for rank in record.run.ranks:
            if rank.device is not None and rank.device.kind == "gpu" and not is_part(rank.device.name):
                used[rank.host].add(rank.device.bus_id or rank.device.index)
                names.add(rank.device.name)
        yield _Ran(f"the record {record.run.run}", names.pop() if len(names) == 1 else "", _most(used))


def _of_logs(logs: Sequence[NcclLog]) -> Iterator[_Ran]:
    for log in logs:
        names = set(log.gpu_names.values())
        parts = any(map(is_part, names))
        used = defaultdict[str, set[object]](set)
        for each in log.largest.ranks if log.largest is not None and not parts else ():
            # A name that hosts of a cloud share would join their GPUs.
            if each.bus_id is not None and each.host:
                used[each.host].add(each.bus_id)
        yield _Ran(log.source, names.pop() if len(names) == 1 else "", _most(used))


def _most(used: dict[str, set[object]]) -> int:
    return max(map(len, used.values()), default=0)
