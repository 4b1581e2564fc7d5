"""Injects stragglers into a job over the CPU library and counts how many are named, how soon, and how often wrongly.

    python3 bench/watch/stragglers.py --build build --ranks 4 --healthy 100000 --injected 100 --seed 1

Each step works for about --work microseconds (the rank sleeps) and then all-reduces. For ten steps in a row one rank
sleeps 200 to 1000 us more; which one, when and how long comes from the seed. Between two such spells are at least 100
healthy steps. The result has the load of the machine, as that makes ranks late too.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

SPELL = 10
SOON = 3


class UniqueId(ctypes.Structure):
    """As ncclUniqueId."""

    _fields_ = [("internal", ctypes.c_char * 128)]


def spells(seed: int, injected: int, healthy: int, ranks: int) -> list[tuple[int, int, float]]:
    """(first step, rank, seconds more) of each straggler; the same in every process."""
    chance = random.Random(seed)
    at, found = 0, []
    for _ in range(injected):
        at += max(100, healthy // max(injected, 1)) + chance.randrange(20)
        found.append((at, chance.randrange(ranks), chance.uniform(200e-6, 1e-3)))
        at += SPELL
    return found


def steps_of(args: argparse.Namespace) -> int:
    """How many steps the job has."""
    planned = spells(args.seed, args.injected, args.healthy, args.ranks)
    return max(args.healthy, planned[-1][0] + SPELL + 100 if planned else 0)


def rank(args: argparse.Namespace) -> None:
    """One rank of the job."""
    me = int(os.environ["RANK"])
    nccl = ctypes.CDLL(args.nccl)
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    unique, file = UniqueId(), Path(args.folder) / "id"
    if me == 0:
        assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
        file.with_suffix(".part").write_bytes(bytes(unique))
        file.with_suffix(".part").rename(file)
    else:
        end = time.monotonic() + 60
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.01)
        unique = UniqueId.from_buffer_copy(file.read_bytes())
    comm = ctypes.c_void_p()
    assert nccl.ncclCommInitRank(ctypes.byref(comm), args.ranks, unique, me) == 0
    values = (ctypes.c_float * 64)()
    late = {}
    for first, who, seconds in spells(args.seed, args.injected, args.healthy, args.ranks):
        if who == me:
            late.update(dict.fromkeys(range(first, first + SPELL), seconds))
    for step in range(1, steps_of(args) + 1):
        time.sleep(args.work * 1e-6 + late.get(step, 0.0))
        assert nccl.ncclAllReduce(values, values, ctypes.c_size_t(64), 7, 0, comm, None) == 0
    nccl.ncclCommDestroy(comm)


def measure(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Start the ranks with the recorder in front, then judge what it recorded."""
    from busbw.launch.supervise import Child, Rules, Supervisor
    from busbw.watch.arrivals import Arrivals, Meeting
    from busbw.watch.late import Stragglers
    from busbw.watch.recording import Recording, find

    nccl = folder / "libnccl.so.2"
    shutil.copy(args.build / "lib" / "libbusbw_cpu.so", nccl)
    records = folder / "recordings"
    records.mkdir(mode=0o700)
    environ = {
        **os.environ, "BUSBW_RECORD_DIR": str(records), "BUSBW_REAL_NCCL": str(nccl),
        "BUSBW_RECORD_CALLS": str(1 << (steps_of(args) - 1).bit_length()),
    }  # fmt: skip
    words = [sys.executable, __file__, *sys.argv[1:], "--nccl", str(args.build / "lib" / "libbusbw_record.so")]
    load = os.getloadavg()[0]
    ranks = [
        Child(f"rank {number}", [*words, "--folder", str(folder)], {**environ, "RANK": str(number)})
        for number in range(args.ranks)
    ]
    if Supervisor(ranks, Rules(speaker="stragglers")).run() != 0:
        raise SystemExit("the job failed")
    recordings = [Recording(path) for path in find(records)]
    stragglers, arrivals = Stragglers(args.late * 1e-6), Arrivals()
    named: list[tuple[int, int]] = []
    more = True
    while more:
        more = False
        for each in arrivals.look(recordings):
            more = True
            if isinstance(each, Meeting):
                named += [(late.at, late.rank) for late in stragglers.take(each)]
    planned = spells(args.seed, args.injected, args.healthy, args.ranks)
    soon = sum(any(who == by and first <= at < first + SOON for at, by in named) for first, who, _ in planned)
    ever = sum(any(who == by and first <= at < first + SPELL for at, by in named) for first, who, _ in planned)
    false = [(at, by) for at, by in named
             if not any(who == by and first <= at < first + SPELL for first, who, _ in planned)]  # fmt: skip
    return {
        "steps": steps_of(args), "ranks": args.ranks, "injected": len(planned), "named_within_3_steps": soon,
        "named_within_10_steps": ever, "false": len(false), "false_at": false[:20], "meetings": stragglers.meetings,
        "not_looked_at": arrivals.skipped, "load_before": load, "load_after": os.getloadavg()[0],
        "processors": os.cpu_count(), "machine": platform.processor() or platform.machine(), "seed": args.seed,
    }  # fmt: skip


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--healthy", type=int, default=100_000)
    parser.add_argument("--injected", type=int, default=100)
    parser.add_argument("--work", type=float, default=500.0)
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
        print(json.dumps(measure(args, args.keep)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(args, Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
