"""The bandwidth page's benchmark: one blocking all_reduce of 4 GB at a time, told by each rank in Gbps.

"algo throughput" there counts what is sent and what is received, twice the size; busbw is nccl-tests', in Gbps.
"""

from __future__ import annotations

import socket
import sys
import time

import torch

from busbw.records.bandwidth import Gbps_from_GBps, bus_factor
from busbw.torch_bench.collectives import Case, Spec
from busbw.torch_bench.place import Place


def trial(case: Case) -> float:
    """Microseconds of one call, from asking for it to having an element of the result on the host."""
    gpu = case.spec.device.type == "cuda"
    begin = time.perf_counter()
    case.call().wait()
    case.first_element()
    if gpu:
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e6


def tell(place: Place, spec: Spec, number: int, time_us: float) -> None:
    """The lines of one rank, written at once so that ranks do not tear each other's apart."""
    sys.stdout.write(lines(f"{socket.gethostname()}:{place.local_rank}", place, spec, number, time_us))
    sys.stdout.flush()


def lines(who: str, place: Place, spec: Spec, number: int, time_us: float) -> str:
    """What the page's script prints for one trial of one rank."""
    rate = spec.bytes / (time_us * 1e-6) / 1e9
    throughput = 2 * Gbps_from_GBps(rate)
    bus = Gbps_from_GBps(rate) * (bus_factor("all_reduce", place.size) or 0)
    start = f" {who} data size: {spec.bytes / 1e9} GB\n" if number == 0 else ""
    heading = f"-----------trial-{number}----------------\n" if place.rank == 0 else ""
    return (
        f"{start}{heading}{who}:\n duration: {time_us / 1e6:.6f} sec\n"
        f" algo throughput: {throughput * 1e9:.4f} bps, {throughput:.4f} Gbps\n busbw: {bus:.4f}  Gbps\n"
    )
