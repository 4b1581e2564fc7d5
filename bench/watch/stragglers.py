"""Injects stragglers into a job over the CPU library or NCCL: how many are named, how soon, and how often wrongly.

    python3 bench/watch/stragglers.py --build build --ranks 4 --healthy 100000 --injected 100 --seed 1
    python3 bench/watch/stragglers.py --build build --ranks 2 --healthy 20000 --injected 100 --library libnccl.so.2

With --library each rank has a GPU and waits for each call; who is late is told by the times of all calls on the GPU.
With --shared too, all ranks share one GPU, for which CUDA's MPS has to run.
Each step works for about --work microseconds (the rank sleeps) and then all-reduces. For ten steps in a row one rank
sleeps --slower microseconds more, or between two numbers as 200:1000; which one, when and how long comes from the seed.
Between two such spells are at least 100 healthy steps. --pin gives each rank a processor of its own.

It prints the noise (how far healthy arrivals are from the median rank's), the smallest straggler that the tool says it
can name within three steps (just before each spell), how many were named within three and ten steps, and false names.
The result has the load of the machine, as that makes ranks late too. On 16 processors the defaults take 80 s.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import platform
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(Path(__file__).resolve().parent)]

from communicators import communicator  # noqa: E402

from busbw.watch.arrivals import Arrivals, Meeting  # noqa: E402
from busbw.watch.gpu_times import GpuTimes  # noqa: E402
from busbw.watch.late import Stragglers  # noqa: E402
from busbw.watch.recording import Recording  # noqa: E402

SPELL = 10
SOON = 3
SHARES = ("50", "90", "95", "99", "99.9", "99.99")


def spells(args: argparse.Namespace) -> list[tuple[int, int, float]]:
    """(first step, rank, seconds more) of each straggler; the same in every process."""
    chance = random.Random(args.seed)
    least, _, most = args.slower.partition(":")
    at, found = 0, []
    for _ in range(args.injected):
        at += max(100, args.healthy // max(args.injected, 1)) + chance.randrange(20)
        found.append((at, chance.randrange(args.ranks), 1e-6 * chance.uniform(float(least), float(most or least))))
        at += SPELL
    return found


def steps_of(args: argparse.Namespace) -> int:
    """How many steps the job has."""
    planned = spells(args)
    return max(int(args.healthy), planned[-1][0] + SPELL + 100 if planned else 0)


def rank(args: argparse.Namespace) -> None:
    """One rank of the job."""
    from busbw.watch.gpu_memory import Gpu

    me = int(os.environ["RANK"])
    gpu = Gpu(0 if args.shared else me) if args.library else None
    if args.pin:
        mine = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {mine[me % len(mine)]})
    nccl = ctypes.CDLL(args.nccl)
    comm = communicator(nccl, args.ranks, me, Path(args.folder) / "id")
    host = (ctypes.c_float * 64)()
    values = ctypes.c_void_p(gpu.allocate(256)) if gpu else host
    stream = gpu.stream() if gpu else None
    late = {}
    for first, who, seconds in spells(args):
        if who == me:
            late.update(dict.fromkeys(range(first, first + SPELL), seconds))
    for step in range(1, steps_of(args) + 1):
        time.sleep(args.work * 1e-6 + late.get(step, 0.0))
        assert nccl.ncclAllReduce(values, values, ctypes.c_size_t(64), 7, 0, comm, stream) == 0
        if gpu and stream:
            gpu.wait(stream)
    nccl.ncclCommDestroy(comm)


def on_the_host(recordings: list[Recording]) -> Iterator[Meeting]:
    """Every collective, by when the host called it."""
    arrivals, more = Arrivals(), True
    while more:
        more = False
        for each in arrivals.look(recordings):
            more = True
            if isinstance(each, Meeting):
                yield each


def on_gpus(recordings: list[Recording]) -> Iterator[Meeting]:
    """Every collective, by its times on the GPUs."""
    times, before = GpuTimes(), -1
    while before != times.seen:
        before = times.seen
        for timed in times.look(recordings):
            if meeting := timed.meeting():
                yield meeting


def measure(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Start the ranks with the recorder in front, then judge what it recorded."""
    from busbw.launch.supervise import Child, Rules, Supervisor
    from busbw.watch.recording import find

    nccl = args.library or folder / "libnccl.so.2"
    if not args.library:
        shutil.copy(args.build / "lib" / "libbusbw_cpu.so", nccl)
    records = folder / "recordings"
    records.mkdir(mode=0o700)
    environ = {
        **os.environ, "BUSBW_RECORD_DIR": str(records), "BUSBW_REAL_NCCL": str(nccl),
        "BUSBW_RECORD_TIMES": "all" if args.library else "none",
        "BUSBW_RECORD_CALLS": str(max(1024, 1 << (steps_of(args) - 1).bit_length())),
    }  # fmt: skip
    words = [sys.executable, __file__, *sys.argv[1:], "--nccl", str(args.build / "lib" / "libbusbw_record.so")]
    load = os.getloadavg()[0]
    ranks = [
        Child(
            f"rank {number}",
            [*words, "--folder", str(folder)],
            {**environ, "RANK": str(number), **({"NCCL_HOSTID": f"host{number}"} if args.shared else {})},
        )
        for number in range(args.ranks)
    ]
    if Supervisor(ranks, Rules(speaker="stragglers")).run() != 0:
        raise SystemExit("the job failed")
    recordings = [Recording(path) for path in find(records)]
    judged = judge(args, on_gpus(recordings) if args.library else on_the_host(recordings))
    return judged | {
        "not_timed": sum(each.gpu().missed for each in recordings),
        "load_before": load, "load_after": os.getloadavg()[0],
        "processors": os.cpu_count(), "machine": platform.processor() or platform.machine(), "seed": args.seed,
    }  # fmt: skip


def judge(args: argparse.Namespace, meetings: Iterator[Meeting]) -> dict[str, object]:
    """Whom the tool names, and what noise it and this bench see."""
    stragglers, planned = Stragglers(args.late * 1e-6), spells(args)
    slowed = {first + at: who for first, who, _ in planned for at in range(SPELL)}
    befores = {first - 1: by for first, _, by in planned}
    named: list[tuple[int, int]] = []
    texts: dict[tuple[int, int], str] = {}
    late_us: list[float] = []
    nameable: list[float] = []
    sure: list[bool] = []
    for meeting in meetings:
        for late in stragglers.take(meeting):
            named.append((late.at, late.rank))
            texts[named[-1]] = late.text
        if meeting.sequence in befores:
            nameable.append(stragglers.nameable_ns(meeting.communicator) / 1000)
            sure.append(stragglers.is_nameable(meeting.communicator, befores[meeting.sequence] * 1e9))
        begun = sorted(arrival.begun_ns for arrival in meeting.arrivals)
        if meeting.sequence not in slowed:
            late_us += [(each - begun[(len(begun) - 1) // 2]) / 1000 for each in begun]
    soon = [any(who == by and first <= at < first + SOON for at, by in named) for first, who, _ in planned]
    ever = [any(who == by and first <= at < first + SPELL for at, by in named) for first, who, _ in planned]
    false = [each for each in named if slowed.get(each[0]) != each[1]]
    late_us.sort()
    return {
        "steps": steps_of(args), "ranks": args.ranks, "injected": len(planned),
        "slower_us": args.slower, "late_us": args.late,
        "noise_us": {share: round(late_us[int(float(share) / 100 * (len(late_us) - 1))], 1) for share in SHARES}
        if late_us else {},
        "late_arrivals_percent": round(100 * sum(each > args.late for each in late_us) / max(1, len(late_us)), 3),
        "nameable_us": [round(each) if each < math.inf else None for each in quartiles(nameable)],
        "nameable_said": sum(sure),
        "nameable_said_and_named": sum(here and found for here, found in zip(sure, soon, strict=False)),
        "named_within_3_steps": sum(soon), "named_within_10_steps": sum(ever),
        "false": len(false), "false_at": [[*each, texts[each]] for each in false[:20]],
        "meetings": stragglers.meetings,
    }  # fmt: skip


def quartiles(values: list[float]) -> list[float]:
    """The least, the quartiles and the most."""
    ordered = sorted(values)
    return [ordered[at * (len(ordered) - 1) // 4] for at in range(5)] if ordered else []


def told(result: dict[str, Any]) -> str:
    """The figures in words."""
    least = result["nameable_us"][2] if result["nameable_us"] else None
    noise = ", ".join(f"{share} % {late:g}" for share, late in result["noise_us"].items())
    return (
        f"noise (healthy arrivals after the median rank's, us): {noise}; {result['late_arrivals_percent']} % above "
        f"{result['late_us']:g}\n"
        f"smallest straggler nameable within {SOON} steps, as the tool says (median): "
        f"{'none' if least is None else f'{least} us'}\n"
        f"injected {result['injected']} of {result['slower_us']} us: {result['named_within_3_steps']} named within "
        f"{SOON} steps, {result['named_within_10_steps']} within {SPELL}; of {result['nameable_said']} that the tool "
        f"had called nameable {result['nameable_said_and_named']} within {SOON}\n"
        f"false: {result['false']} in {result['meetings']:,} calls"
    )


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--library", type=Path, help="an NCCL, with a GPU for each rank")
    parser.add_argument("--shared", action="store_true", help="all on GPU 0 under CUDA's MPS, each a host for NCCL")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--healthy", type=int, default=100_000)
    parser.add_argument("--injected", type=int, default=100)
    parser.add_argument("--work", type=float, default=500.0)
    parser.add_argument("--slower", default="200", help="microseconds that a straggler is slower")
    parser.add_argument("--pin", action="store_true", help="a processor for each rank")
    parser.add_argument("--late", type=float, default=100.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--nccl", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.nccl:
        rank(args)
        return 0
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
        result = measure(args, args.keep)
    else:
        with tempfile.TemporaryDirectory() as folder:
            result = measure(args, Path(folder))
    print(told(result))
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
