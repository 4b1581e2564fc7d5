"""The machine that a log or a record was made on, as far as the names of its GPUs tell: whole boards, no NICs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busbw.machine.nccl.log_model import NcclLog
from busbw.machine.topology.model import SWITCH, Gpu, Machine, NvLinks, with_generation
from busbw.machine.topology.names import product
from busbw.machine.topology.paths import connections
from busbw.records import Record

MAX_GPUS = 64
"""Of one host: more are a log that lies, or hosts that share a name."""


def machine_of_logs(logs: Sequence[NcclLog]) -> Machine | None:
    """The GPUs of the first host of a job, whose ranks may have a log each; None where no log names ranks."""
    first = next((log for log in logs if log.largest is not None and log.largest.ranks), None)
    if first is None or first.largest is None:
        return None
    job, host = first.largest.id, first.largest.ranks[0].host
    # Only from 2.18 on have communicators a name that no other job has.
    mine = [log for log in logs if log is first or job.startswith("0x")]
    communicators = [each for log in mine for each in log.communicators if each.id == job]
    names = {name for log in mine for name in log.gpu_names.values()}
    name = names.pop() if len(names) == 1 else None
    gpus = [
        _gpu(place.nvml_device if place.nvml_device is not None else place.cuda_device or 0, place.bus_id, name)
        for each in communicators
        for place in each.ranks
        if place.host == host
    ]
    return _machine(first.source, gpus, host)


def machine_of_records(records: Sequence[Record]) -> Machine | None:
    """The GPUs of the first host of a record; None where no record names GPUs."""
    for record in records:
        ranks = [rank for rank in record.run.ranks if rank.device is not None and rank.device.kind == "gpu"]
        if ranks:
            here = [rank.device for rank in ranks if rank.host == ranks[0].host and rank.device is not None]
            gpus = [_gpu(device.index, device.bus_id, device.name) for device in here]
            return _machine(f"the record {record.run.run}", gpus, ranks[0].host)
    return None


def _gpu(index: int, bus_id: str | None, name: str | None) -> Gpu:
    known = product(name)
    links = (NvLinks(SWITCH, known.nvlinks),) if known and known.nvlinks else ()
    return with_generation(Gpu(index, bus_id, name, known.sm if known else None, nvlinks=links))


def _machine(source: str, gpus: Sequence[Gpu], host: str) -> Machine:
    unique = tuple({gpu.index: gpu for gpu in gpus}.values())[:MAX_GPUS]
    return replace(Machine(source, unique, host=host), connections=connections(unique, ()))
