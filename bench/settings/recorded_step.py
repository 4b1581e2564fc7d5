"""Records steps over one library, predicts them over another by `busbw predict step FOLDER`, and measures both.

    BUSBW_BUILD=build python3 bench/settings/recorded_step.py [JOB ...] [--steps 60]

Jobs are processes over the CPU library in shapes that training has: DDP, FSDP, tensor and data parallel, a pipeline,
gradients over microbatches. Work is a pause, so that ranks need no processor each. The other library is the stand-in
for NCCL whose calls sleep longer; where it lacks a call, the job sleeps as long before each (`late`). Its calls are
measured alone, in processes of their own; no step over it is used for the prediction, and the recording has no call of
it. It ends with 1 where a step is off by more than 5 %.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / each) for each in ("python", "python/tests/watch", "bench/watch")]

from communicators import communicator  # noqa: E402
from job import FLOAT32, SUM  # noqa: E402

from busbw.records import Case, End, Record, Run, Tool  # noqa: E402
from busbw.runs import store  # noqa: E402

BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))
LIBRARIES = BUILD / "lib"
LATER_US = 3000
"""By which calls of the other library take longer from 64 KiB on."""
LATER_FROM = 1 << 16
MOST = 4 << 20
LIMIT_S = 120
Comm = ctypes.c_void_p


class Rank:
    """One rank of a job."""

    def __init__(self, library: str, me: int, ranks: int, folder: Path, late_us: float) -> None:
        self.late_us = late_us
        self.nccl, self.me, self.ranks, self.folder = ctypes.CDLL(library), me, ranks, folder
        self.values = (ctypes.c_char * MOST)()
        self.others = (ctypes.c_char * (MOST * ranks))()
        self.comms: dict[str, Comm] = {}
        self.pause = random.Random(me)

    def comm(self, name: str, members: list[int]) -> Comm:
        """A communicator of these ranks."""
        if name not in self.comms:
            number = members.index(self.me)
            self.comms[name] = communicator(self.nccl, len(members), number, self.folder / name)
        return self.comms[name]

    def work(self, ms: float) -> None:
        """Work of a layer, a little different each time."""
        time.sleep(ms / 1e3 * self.pause.uniform(0.98, 1.02))

    def call(self, kind: str, size: int, comm: Comm, peer: int = 0) -> None:
        """One call of `size` bytes, as nccl-tests counts them."""
        nccl, values, others = self.nccl, self.values, self.others
        if self.late_us and size >= LATER_FROM:
            time.sleep(self.late_us / 1e6)
        ranks = ctypes.c_int()
        nccl.ncclCommCount(comm, ctypes.byref(ranks))
        whole, part = ctypes.c_size_t(size // 4), ctypes.c_size_t(size // 4 // ranks.value)
        done = {
            "all_reduce": lambda: nccl.ncclAllReduce(values, others, whole, FLOAT32, SUM, comm, None),
            "all_gather": lambda: nccl.ncclAllGather(values, others, part, FLOAT32, comm, None),
            "reduce_scatter": lambda: nccl.ncclReduceScatter(others, values, part, FLOAT32, SUM, comm, None),
            "broadcast": lambda: nccl.ncclBroadcast(values, others, whole, FLOAT32, 0, comm, None),
            "send": lambda: nccl.ncclSend(values, whole, FLOAT32, peer, comm, None),
            "recv": lambda: nccl.ncclRecv(others, whole, FLOAT32, peer, comm, None),
        }[kind]()
        assert done == 0


def ddp(rank: Rank) -> None:
    """Four buckets that are not overlapped, and the loss."""
    world = rank.comm("world", list(range(rank.ranks)))
    rank.work(6)
    for _ in range(4):
        rank.work(3)
        rank.call("all_reduce", 1 << 20, world)
    rank.call("all_reduce", 4, world)


def fsdp(rank: Rank) -> None:
    """Layers of two sizes: gathered in forward and in backward, scattered behind it."""
    world = rank.comm("world", list(range(rank.ranks)))
    sizes = [1 << 20, 1 << 18, 1 << 18, 1 << 20]
    for size in sizes:
        rank.call("all_gather", size, world)
        rank.work(2)
    for size in reversed(sizes):
        rank.call("all_gather", size, world)
        rank.work(4)
        rank.call("reduce_scatter", size, world)
    rank.work(3)


def tp_dp(rank: Rank) -> None:
    """Two by two: activations are reduced in pairs that follow each other, gradients across them."""
    pair, half = rank.me // 2, rank.me % 2
    tp = rank.comm(f"tp{pair}", [2 * pair, 2 * pair + 1])
    dp = rank.comm(f"dp{half}", [half, half + 2])
    for ms in (2.0, 2.0, 4.0, 4.0):
        for _ in range(2):
            rank.work(ms + rank.me // 2)
            rank.call("all_reduce", 1 << 18, tp)
    rank.call("all_reduce", 1 << 21, dp)
    rank.work(2)


def pipeline(rank: Rank) -> None:
    """Three stages, four microbatches forward and back, then the gradients' norm."""
    world = rank.comm("world", list(range(rank.ranks)))
    for to, source, ms in ((1, -1, 3.0), (-1, 1, 6.0)):
        for _ in range(4):
            if 0 <= rank.me + source < rank.ranks:
                rank.call("recv", 1 << 18, world, rank.me + source)
            rank.work(ms)
            if 0 <= rank.me + to < rank.ranks:
                rank.call("send", 1 << 18, world, rank.me + to)
    rank.call("all_reduce", 1 << 16, world)


def accumulates(rank: Rank) -> None:
    """Four microbatches with reductions of activations, gradients behind the last; a log line every tenth step."""
    world = rank.comm("world", list(range(rank.ranks)))
    for _ in range(4):
        rank.work(2)
        rank.call("all_reduce", 1 << 17, world)
        rank.work(4)
        rank.call("all_reduce", 1 << 17, world)
    rank.call("reduce_scatter", 1 << 21, world)
    rank.call("all_gather", 1 << 21, world)
    rank.pause.count = getattr(rank.pause, "count", 0) + 1  # type: ignore[attr-defined]
    if rank.pause.count % 10 == 0:  # type: ignore[attr-defined]
        rank.call("all_reduce", 8, world)


def uneven(rank: Rank) -> None:
    """Rank 1 has twice the work in the first half of the step, rank 0 in the second."""
    world = rank.comm("world", list(range(rank.ranks)))
    rank.work(8 if rank.me == 1 else 4)
    rank.call("all_reduce", 1 << 19, world)
    rank.work(4 if rank.me == 1 else 8)
    rank.call("all_reduce", 1 << 20, world)


HAS_NO_OTHER = {"fsdp", "pipeline", "accumulates"}
JOBS = {"ddp": (ddp, 2), "fsdp": (fsdp, 2), "tp_dp": (tp_dp, 4), "pipeline": (pipeline, 3),
        "accumulates": (accumulates, 2), "uneven": (uneven, 2)}  # fmt: skip
CALLED = [(kind, size) for kind in ("all_reduce", "all_gather", "reduce_scatter", "sendrecv")
          for size in (4, 1 << 10, *(1 << n for n in range(16, 22)))]  # fmt: skip


def one_rank(args: argparse.Namespace) -> None:
    """A rank of a job, or of the measurement of calls."""
    rank = Rank(args.library, args.rank, args.ranks, Path(args.folder), args.late)
    if args.job == "calls":
        world = rank.comm("meet", list(range(args.ranks)))
        found = []
        for kind, size in CALLED:
            if not hasattr(rank.nccl, "ncclReduceScatter") and kind in {"reduce_scatter", "sendrecv"}:
                continue
            took = []
            for _ in range(15):
                rank.work(1)
                rank.call("all_reduce", 4, world)
                begun = time.perf_counter()
                if kind != "sendrecv":
                    rank.call(kind, size, world)
                elif rank.me < 2:
                    rank.call("recv" if rank.me else "send", size, world, 1 - rank.me)
                took.append((time.perf_counter() - begun) * 1e6)
            found.append([kind, size, median(took)])
        said: Any = found
    else:
        begins = []
        for _ in range(args.steps + 1):
            begins.append(time.perf_counter())
            JOBS[args.job][0](rank)
        said = median(after - before for before, after in pairwise(begins[5:])) * 1e6
    if args.rank == 0:
        print(json.dumps(said), flush=True)


def start(job: str, ranks: int, over: tuple[Path, float], steps: int, record: Path | None = None) -> Any:
    """Start the ranks, and what rank 0 said."""
    library, late = over
    with tempfile.TemporaryDirectory() as folder:
        path, extra = library, {}
        if record is not None:
            path = LIBRARIES / "libbusbw_record.so"
            extra = {"BUSBW_RECORD_DIR": str(record), "BUSBW_REAL_NCCL": str(library)}
        words = [sys.executable, __file__, job, "--ranks", str(ranks), "--library", str(path), "--folder", folder,
                 "--steps", str(steps), "--late", str(late), "--rank"]  # fmt: skip
        all_ranks = [subprocess.Popen([*words, str(me)], env={**os.environ, **extra, "RANK": str(me)},
                                      stdout=subprocess.PIPE if me == 0 else subprocess.DEVNULL, text=True)
                     for me in range(ranks)]  # fmt: skip
        try:
            said = all_ranks[0].communicate(timeout=LIMIT_S)[0]
            assert all(each.wait(timeout=LIMIT_S) == 0 for each in all_ranks)
            return json.loads(said)
        finally:
            for each in all_ranks:
                each.kill()
                each.wait()


def keep(name: str, ranks: int, found: list[Any], folder: Path) -> None:
    """Times of calls alone as a kept run."""
    cases = [Case(name, number, kind, size, "out_of_place", "measured", us, type="float", ranks=ranks)
             for number, (kind, size, us) in enumerate(found)]  # fmt: skip
    store.add(Record(Run(name, None, Tool("bench/settings/recorded_step.py"), None), tuple(cases),
                     End(name, "completed", len(cases))), folder)  # fmt: skip


def predicted(folder: Path, runs: Path, name: str) -> list[dict[str, float]]:
    """What `busbw predict step` says."""
    words = [sys.executable, "-m", "busbw", "predict", "step", str(folder), "--times", name, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_RUNS": str(runs)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    rows: list[dict[str, float]] = json.loads(done.stdout)["rows"]
    return rows


def main() -> int:
    """Record, measure, predict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", nargs="*", choices=[[], *JOBS, "calls"])
    parser.add_argument("--steps", type=int, default=60)
    for hidden in ("--library", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, default=2, help=argparse.SUPPRESS)
    parser.add_argument("--late", type=float, default=0.0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank is not None:
        args.job = args.job[0]
        one_rank(args)
        return 0
    worst = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        other = place / "other.so"
        stand_in = (LIBRARIES / "libbusbw_test_tuned_nccl.so").read_bytes()
        other.write_bytes(stand_in + f"\nbusbw-test-release 22809 {LATER_US} {1 << 16} {1 << 40}".encode())
        cpu = LIBRARIES / "libbusbw_cpu.so"
        places = {"cpu": (cpu, 0.0), "other": (other, 0.0), "late": (cpu, float(LATER_US))}
        for name, over in places.items():
            for ranks in (2, 3):
                keep(f"{name}{ranks}", ranks, start("calls", ranks, over, 0), place / "runs")
        for job in args.job or JOBS:
            ranks = JOBS[job][1]
            pairs = [("cpu", "late")] if job in HAS_NO_OTHER else [("cpu", "other"), ("other", "cpu")]
            for name, to in pairs:
                folder = place / f"{job}-{name}"
                folder.mkdir()
                here = start(job, ranks, places[name], args.steps, folder)
                there = start(job, ranks, places[to], args.steps)
                rows = predicted(folder, place / "runs", f"{to}{ranks if ranks < 4 else 2}")
                off = rows[1]["step_us"] / there - 1
                worst = max(worst, abs(off))
                was = rows[0]["step_us"]
                print(f"{job:12} recorded over {name:5} {was / 1e3:7.2f} ms (measured {here / 1e3:7.2f}); "
                      f"over {to:5} predicted {rows[1]['step_us'] / 1e3:7.2f} ms, measured {there / 1e3:7.2f} ms, "
                      f"{100 * off:+.1f} %", flush=True)  # fmt: skip
    print(f"off by at most {100 * worst:.1f} %, load average {os.getloadavg()[0]:.1f} of {os.cpu_count()} processors")
    return 0 if worst <= 0.05 else 1


if __name__ == "__main__":
    sys.exit(main())
