"""Records a job and replays it in turns, and says how far a replay's medians are from the recording's, and why.

    python3 bench/watch/replay_scatter.py --build build --ranks 4 --rounds 8
    python3 bench/watch/replay_scatter.py --build build --ranks 4 --rounds 8 --pin

Each round records a job over the CPU library, then replays that recording with its pauses. The job has collectives of
three sizes in three phases, each on a communicator of its own: one call after the other, after work that computes, and
after a sleep. So a line of the table is a shape in a phase. For each it has the medians of all calls and ranks in
microseconds (least and most of the rounds), the ratio of a replay to its recording (median, least, most), and that of
a recording to the one before, which is what a ratio cannot be nearer than. `transfer` is the same for the shortest of
all ranks in each call: what is left without the wait for ranks that come late. With --pin each rank of the job and of
the replay has a processor of its own. On 16 processors the defaults take about 60 s, elsewhere minutes: --seconds
ends it with the rounds that were made.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from communicators import communicator  # noqa: E402

from busbw.watch.arrivals import Arrivals, Meeting  # noqa: E402
from busbw.watch.recording import Recording, find  # noqa: E402

PHASES = ("at once", "computes", "sleeps")
KINDS = ("all_reduce", "all_gather", "reduce_scatter")
FLOAT32, SUM = 7, 0
BOUNDS = (0.03, 0.10)
FIRST = 8
"""Calls of each shape and phase that are left out: buffers are touched first, and ranks come from their start."""
Key = tuple[int, str, int]
Times = dict[Key, tuple[float, float, float, float]]
"""By phase, collective and count: medians of all calls and ranks, of the shortest rank and of the last one's lateness;
and the call that a tenth of all is shorter than, as other programs disturb the others more."""


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=math.inf, help="no round begins that would end later")
    parser.add_argument("--calls", type=int, default=150, help="of each shape in each phase")
    parser.add_argument("--counts", default="64,16384,1048576", help="elements of 4 bytes")
    parser.add_argument("--work", type=float, default=300.0, help="microseconds before a call")
    parser.add_argument("--pin", action="store_true", help="a processor for each rank")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        rank(args, Path(args.rank))
        return 0
    load = os.getloadavg()[0]
    recorded, replayed = [], []
    with tempfile.TemporaryDirectory() as folder:
        begun, longest_s = time.monotonic(), 0.0
        for number in range(args.rounds):
            # The first round is made in any case: a replay and its recording are the least that can be told.
            if number and time.monotonic() - begun + longest_s > args.seconds:
                print(f"{number} of {args.rounds} rounds were made in {args.seconds:g} s")
                break
            round_begun = time.monotonic()
            was, now = Path(folder) / f"job{number}", Path(folder) / f"replay{number}"
            record(args, was)
            replay(args, was, now)
            recorded.append(times_of(was))
            replayed.append(times_of(now))
            longest_s = max(longest_s, time.monotonic() - round_begun)
            shutil.rmtree(was)
            shutil.rmtree(now)
    table(recorded, replayed)
    print(f"{args.ranks} ranks, {len(recorded)} rounds, {os.cpu_count()} processors ({platform.machine()}), "
          f"load {load:.1f} to {os.getloadavg()[0]:.1f}, {'pinned' if args.pin else 'not pinned'}")  # fmt: skip
    return 0


def environment(args: argparse.Namespace) -> dict[str, str]:
    """Of both: where the build and the package are."""
    return {**os.environ, "BUSBW_BUILD": str(args.build), "PYTHONPATH": str(ROOT / "python"), "BUSBW_WITH_QUIET": "1",
            **({"BUSBW_REPLAY_PIN": "1"} if args.pin else {})}  # fmt: skip


def record(args: argparse.Namespace, folder: Path) -> None:
    """The job, each rank a process of its own with the recorder in front."""
    folder.mkdir(mode=0o700)
    ids = folder.with_suffix(".ids")
    ids.mkdir()
    environ = environment(args) | {
        "BUSBW_RECORD_DIR": str(folder), "BUSBW_REAL_NCCL": str((args.build / "lib" / "libbusbw_cpu.so").absolute()),
        "BUSBW_RECORD_CALLS": str(max(1024, 1 << (len(shapes(args)) * len(PHASES) * (args.calls + 1)).bit_length())),
    }  # fmt: skip
    words = [sys.executable, __file__, *sys.argv[1:], "--rank", str(ids)]
    ranks = [subprocess.Popen(words, env={**environ, "RANK": str(each)}) for each in range(args.ranks)]
    codes = [each.wait(timeout=300) for each in ranks]
    if any(codes):
        raise SystemExit("the job failed")


def replay(args: argparse.Namespace, recording: Path, into: Path) -> None:
    """With the pauses of the recording; its own recordings are kept."""
    words = [sys.executable, "-m", "busbw", "replay", str(recording), "--gaps", "--output", str(into)]
    done = subprocess.run(words, env=environment(args), capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the replay failed:\n{done.stdout}{done.stderr}")


def shapes(args: argparse.Namespace) -> list[tuple[str, int]]:
    """Of a phase."""
    return [(kind, int(count)) for count in args.counts.split(",") for kind in KINDS]


def rank(args: argparse.Namespace, ids: Path) -> None:
    """One rank of the job: sizes in turn, as the layers of a model."""
    me = int(os.environ["RANK"])
    if args.pin:
        mine = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {mine[me % len(mine)]})
    nccl = ctypes.CDLL(str(args.build / "lib" / "libbusbw_record.so"))
    comms = [communicator(nccl, args.ranks, me, ids / f"id{phase}") for phase in range(len(PHASES))]
    most = max(count for _, count in shapes(args))
    send, receive = ((ctypes.c_float * (most * args.ranks))() for _ in range(2))
    for buffer in (send, receive):  # pages that nobody wrote are all one page of zeros, which is read in another way
        ctypes.memmove(buffer, struct.pack("<f", 1.0) * (most * args.ranks), ctypes.sizeof(buffer))
    for phase, comm in enumerate(comms):
        for _ in range(args.calls):
            for kind, count in shapes(args):
                pause(phase, args.work * 1e-6)
                call(nccl, kind, (send, receive, count), comm)
    for comm in comms:
        nccl.ncclCommDestroy(comm)


def call(nccl: ctypes.CDLL, kind: str, what: tuple[object, object, int], comm: ctypes.c_void_p) -> None:
    """From one buffer to the other, as PyTorch's gathers; an all-reduce in place, as its gradients."""
    send, receive, many = what
    count = ctypes.c_size_t(many)
    if kind == "all_reduce":
        result = nccl.ncclAllReduce(receive, receive, count, FLOAT32, SUM, comm, None)
    elif kind == "all_gather":
        result = nccl.ncclAllGather(send, receive, count, FLOAT32, comm, None)
    else:
        result = nccl.ncclReduceScatter(send, receive, count, FLOAT32, SUM, comm, None)
    assert result == 0


def pause(phase: int, seconds: float) -> None:
    """Before a call."""
    if phase == 1:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sum(range(100))
    elif phase == 2:
        time.sleep(seconds)


def times_of(folder: Path) -> Times:
    """Medians of one recording. Communicators come in the order in which they were made."""
    recordings = [Recording(path) for path in find(folder)]
    calls: dict[Key, list[Meeting]] = defaultdict(list)
    arrivals, more = Arrivals(), True
    while more:
        found = list(arrivals.look(recordings))
        more = bool(found)
        for each in found:
            if isinstance(each, Meeting):
                calls[each.arrivals[0].place, each.shape.kind, each.shape.count].append(each)
    for recording in recordings:
        recording.close()
    return {key: _medians(each[FIRST:]) for key, each in calls.items() if len(each) > FIRST}


def _medians(meetings: list[Meeting]) -> tuple[float, float, float, float]:
    took = [[(each.ended_ns or 0) - each.begun_ns for each in meeting.arrivals] for meeting in meetings]
    late = [meeting.last.begun_ns - min(each.begun_ns for each in meeting.arrivals) for meeting in meetings]
    all_ = sorted(each for some in took for each in some)
    return (
        median(all_) / 1000,
        median(min(some) for some in took) / 1000,
        median(late) / 1000,
        all_[len(all_) // 10] / 1000,
    )


def table(recorded: list[Times], replayed: list[Times]) -> None:
    """A line for each shape and phase, then how many are within the bounds."""
    print(f"{'phase':9} {'collective':14} {'count':>9}  {'recorded us':>22} {'replayed us':>22}  {'ratio':>17}  "
          f"{'two recordings':>17}  {'transfer, ratio':>17}  {'late us':>13}")  # fmt: skip
    ratios: dict[str, list[float]] = defaultdict(list)
    for key in sorted(recorded[0]):
        was, now = [each[key] for each in recorded], [each[key] for each in replayed]
        each_ratio = [
            [after[at] / max(before[at], 1e-3) for before, after in zip(was, now, strict=True)] for at in range(4)
        ]
        again = [after[0] / before[0] for before, after in pairwise(was)] or [1.0]
        print(
            f"{PHASES[key[0]]:9} {key[1]:14} {key[2]:9,}  {spread([each[0] for each in was], 1):>22} "
            f"{spread([each[0] for each in now], 1):>22}  {spread(each_ratio[0], 2):>17}  {spread(again, 2):>17}  "
            f"{spread(each_ratio[1], 2):>17}  "
            f"{median(each[2] for each in was):6.1f} {median(each[2] for each in now):6.1f}"
        )
        ratios["a replay and its recording, medians of the rounds"].append(median(each_ratio[0]))
        ratios["a replay and its recording, each round"] += each_ratio[0]
        ratios["the same of transfers, medians of the rounds"].append(median(each_ratio[1]))
        ratios["the same of the quickest tenth, medians of the rounds"].append(median(each_ratio[3]))
        ratios["a recording and the one before"] += again
    for what, values in ratios.items():
        apart = [max(each, 1 / each) - 1 for each in values]
        within = ", ".join(f"{sum(each <= bound for each in apart)} within {100 * bound:.0f} %" for bound in BOUNDS)
        print(f"{what}: of {len(values)} {within}; median {100 * median(apart):.1f} % apart, "
              f"most {100 * max(apart):.0f} %")  # fmt: skip


def spread(values: list[float], digits: int) -> str:
    """Median, with the least and the most."""
    return f"{median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


if __name__ == "__main__":
    raise SystemExit(main())
