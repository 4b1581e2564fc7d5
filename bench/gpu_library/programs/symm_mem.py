"""All-reduce by torch's symmetric memory, as a player beside the engine's: same turns, same clock, same kind of record.

Its two ways, one_shot_all_reduce and two_shot_all_reduce_ (which works in place), are timed in a CUDA graph in fp32;
the record has the faster one of each cycle and says which it was.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ONE_SHOT_MOST = 1 << 20
"""Beyond it one-shot only wastes time: every rank reads everything of all others."""


class Turn:
    """A place in the round of engines that take turns: BUSBW_TURNS is `PLAYERS SOCKET`; @NAME is one without a file."""

    def __init__(self, setting: str | None) -> None:
        self._socket = None
        if setting:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            name = setting.partition(" ")[2]
            self._socket.connect("\0" + name[1:] if name.startswith("@") else name)

    def take(self, *, cycle_begins: bool) -> None:
        """Asks for the next turn and waits until it comes; until the next call it is ours."""
        if self._socket is None:
            return
        self._socket.sendall(b"c" if cycle_begins else b"r")
        if self._socket.recv(1) != b"g":
            raise ConnectionError("whoever hands out turns has ended")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


def sizes(first: int, last: int, factor: int) -> Iterator[int]:
    """From first to last, each `factor` times the one before."""
    size = first
    while size <= last:
        yield size
        size *= factor


def case_line(size: int, us: float, wrong: int, algorithm: str, cycle: int) -> str:
    """One measured case, with the fields of a record that a comparison of times reads."""
    return json.dumps({
        "kind": "case", "collective": "all_reduce", "type": "float", "op": "sum", "bytes": size, "cycle": cycle,
        "placement": "out_of_place", "outcome": "measured", "time_us": us, "wrong": wrong, "algorithm": algorithm,
    })  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--last", type=int, required=True)
    parser.add_argument("--factor", type=int, default=4)
    parser.add_argument("--calls", type=int, default=20, help="in a graph")
    parser.add_argument("--launches", type=int, default=20, help="of the graph")
    parser.add_argument("--cycles", type=int, default=3)
    return parser.parse_args()


def start_ranks(ranks: int) -> int:
    """This program again, once for each GPU."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
              "SYMM_MEM_JOB": secrets.token_hex(4)}  # fmt: skip
    children = [
        subprocess.Popen(
            [sys.executable, *sys.argv], env={**os.environ, **shared, "RANK": str(r), "LOCAL_RANK": str(r)}
        )
        for r in range(ranks)
    ]
    while any(child.poll() is None for child in children):
        if any(child.poll() for child in children):
            time.sleep(3)
            for child in children:
                child.kill()
        time.sleep(0.05)
    return max(abs(child.wait()) for child in children)


def rank_main(args: argparse.Namespace) -> int:
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symm_mem

    rank = int(os.environ["RANK"])
    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl")
    group = dist.group.WORLD.group_name
    buffer = symm_mem.empty(args.last // 4, dtype=torch.float32, device=device)
    symm_mem.rendezvous(buffer, group)
    turn = Turn(os.environ.get("BUSBW_TURNS")) if rank == 0 else Turn(None)
    for cycle in range(args.cycles):
        for size in sizes(args.first, args.last, args.factor):
            turn.take(cycle_begins=size == args.first)
            _meet(torch, dist)
            us, wrong, name = min(_measure(torch, dist, buffer[: size // 4], group, args))
            if rank == 0:
                with args.record.open("a") as record:
                    record.write(case_line(size, us, wrong, name, cycle) + "\n")
    dist.destroy_process_group()
    return 0


def _meet(torch: Any, dist: Any) -> None:
    """A barrier of the processors: nobody who waits here touches a GPU."""
    dist.all_reduce(torch.zeros(1))


def _measure(
    torch: Any, dist: Any, data: Any, group: str, args: argparse.Namespace
) -> Iterator[tuple[float, int, str]]:  # fmt: skip
    ops = torch.ops.symm_mem
    yield _time(torch, dist, data, lambda: ops.two_shot_all_reduce_(data, "sum", group), "two_shot", args)
    if data.numel() * 4 <= ONE_SHOT_MOST:
        yield _time(torch, dist, data, lambda: ops.one_shot_all_reduce(data, "sum", group), "one_shot", args)


def _time(  # noqa: PLR0913, PLR0917 - torch is imported in one place only
    torch: Any, dist: Any, data: Any, call: Callable[[], Any], name: str, args: argparse.Namespace
) -> tuple[float, int, str]:  # fmt: skip
    """Microseconds per call, averaged over the ranks, and how many elements of one checked call are wrong."""
    data.fill_(float(dist.get_rank() + 1))
    torch.cuda.synchronize()
    _meet(torch, dist)
    result = call()
    torch.cuda.synchronize()
    expected = dist.get_world_size() * (dist.get_world_size() + 1) / 2
    wrong = int((result != expected).sum().item())
    data.zero_()  # sums of sums would overflow
    torch.cuda.synchronize()
    _meet(torch, dist)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(args.calls):
            call()
    graph.replay()
    torch.cuda.synchronize()
    _meet(torch, dist)
    begin = time.perf_counter()
    for _ in range(args.launches):
        graph.replay()
    torch.cuda.synchronize()
    took = torch.tensor([(time.perf_counter() - begin) / (args.calls * args.launches) * 1e6, float(wrong)])
    dist.all_reduce(took)
    return float(took[0]) / dist.get_world_size(), int(took[1]), name


def main() -> int:
    args = arguments()
    return rank_main(args) if "SYMM_MEM_JOB" in os.environ else start_ranks(args.ranks)


if __name__ == "__main__":
    sys.exit(main())
