"""Writes the logs of many ranks and times `busbw doctor` on them: many_logs.py --ranks 100 --megabytes 200."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from busbw.base.programs import ask, with_this_package

LIMIT_S = 3600.0

GPUS = 8
CHANNELS = 24
FAULT = "misc/socket.cc:452 NCCL WARN socketStartConnect: Connect to 10.0.0.5<41021> failed : Connection refused"


def lines_of(rank: int, ranks: int) -> list[str]:
    """What a rank prints while it initialises and connects."""
    gpu, host = rank % GPUS, rank // GPUS
    who = f"node{host:03}:{4000 + gpu}:{4100 + gpu} [{gpu}]"
    comm = f"ncclCommInitRankConfig comm 0x55e{rank:05x} rank {rank} nranks {ranks} cudaDev {gpu} nvmlDev {gpu} "
    comm += f"busId {gpu + 1:x}b000 commId 0x3f2ad1d0f7c8e1a - Init "
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    made = [
        f"{who} NCCL INFO NCCL version 2.27.7+cuda12.9",
        f"{who} NCCL INFO Using network IB",
        f"{who} NCCL INFO {comm}START",
    ]
    for channel in range(CHANNELS):
        head = f"{who} NCCL INFO Channel {channel:02}/0 : "
        made.append(f"{head}{before}[{before % GPUS}] -> {rank}[{gpu}] [receive] via NET/IB/{gpu}/GDRDMA")
        made.append(f"{head}{rank}[{gpu}] -> {after}[{after % GPUS}] via P2P/CUMEM")
    made.append(f"{who} NCCL INFO Trees " + " ".join(f"[{c}] {after}/-1/-1->{rank}->{before}" for c in range(CHANNELS)))
    made.append(f"{who} NCCL INFO {comm}COMPLETE")
    return made


def write_logs(folder: Path, ranks: int, megabytes: float) -> list[Path]:
    """A log for each rank: its init, then collectives and a program's lines up to the size; one rank has a fault."""
    each, paths = int(megabytes * 1e6 / ranks), []
    for rank in range(ranks):
        path = folder / f"rank{rank:05}.log"
        gpu, host = rank % GPUS, rank // GPUS
        who = f"node{host:03}:{4000 + gpu}:{4100 + gpu} [{gpu}]"
        lines = lines_of(rank, ranks)
        size, step = sum(map(len, lines)) + len(lines), 0
        while size < each:
            other = (rank * 7 + step) % ranks
            more = [
                f"{who} NCCL INFO AllReduce: opCount {step:x} sendbuff 0x7f{step:08x} recvbuff 0x7f{step + 9:08x} "
                f"count {4096 + step} datatype 7 op 0 root 0 comm 0x55e{rank:05x} [nranks={ranks}] stream 0x55d3",
                f"{who} NCCL INFO Channel {step % CHANNELS:02}/1 : {rank}[{gpu}] -> {other}[0] via NET/IB/{gpu}",
                f"step {step} loss {2.0 + step % 97 / 100:.4f} tokens/s {18000 + step % 500}",
            ]
            lines += more
            size += sum(map(len, more)) + 3
            step += 1
        if rank == ranks // 2:
            lines.append(f"{who} {FAULT}")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        paths.append(path)
    return paths


def main() -> int:
    """Write, run, and print seconds, MB/s and the largest resident size of any process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=100)
    parser.add_argument("--megabytes", type=float, default=200.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        paths = write_logs(Path(name), args.ranks, args.megabytes)
        total = sum(path.stat().st_size for path in paths) / 1e6
        started = time.monotonic()
        ran = ask(
            [sys.executable, "-m", "busbw", "doctor", *map(str, paths)],
            LIMIT_S,
            environment=with_this_package(os.environ),
        )
        seconds = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    largest, busy = used.ru_maxrss / 1024, used.ru_utime + used.ru_stime
    found = "connection-refused" in ran.stdout
    print(f"{args.ranks} logs, {total:.0f} MB: {seconds:.1f} s, {total / seconds:.1f} MB/s; {busy:.1f} s of processors")
    print(f"largest process {largest:.0f} MiB, exit code {ran.returncode}, fault {'found' if found else 'NOT found'}")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
