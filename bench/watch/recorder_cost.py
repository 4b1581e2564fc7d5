"""What the recorder costs the host: processor time of a call and of a graph's launch, with it and without, in turn.

    python3 bench/watch/recorder_cost.py --build build [--in-turn]
    python3 bench/watch/recorder_cost.py --build build --library libnccl.so.2 --ranks 2 --starts 5

With --library all-reduces of 1 KiB are measured on GPUs as busbw does, eager and in graphs: over NCCL itself, over the
recorder, over it without its marks, and with times of every 100th call. Else the program calls an NCCL and a CUDA
without a GPU (library/tests/record), so that next to nothing but the recorder is left. Each figure is the median of the
differences between neighbouring starts, with their range. --in-turn has blocks of 200 calls with the recorder and
without in one process (calls_cost.c), where a call of NCCL and the questions to the driver take as long as on a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = {
    "a call, eager": ("calls", "400000"),
    "a call, every 100th timed": ("calls", "400000"),
    "a launch of a graph of 1 call": ("launches", "400000", "1"),
    "a launch of a graph of 10 calls": ("launches", "60000", "10"),
}
PACES = {
    "one after the other": {},
    "8 us each": {"FAKE_NCCL_COSTS": "8000,65536", "FAKE_CUDA_COSTS": "1340,309,100,20"},
}
IN_TURN = {
    "always": {"BUSBW_RECORD_TIMES": "none"}, "always, without marks": {"BUSBW_RECORD_MARKS": "0"},
    "full": {"BUSBW_RECORD_TIMES": "all"},
    "full, read aside": {"BUSBW_RECORD_TIMES": "all", "BUSBW_RECORD_TIMES_ASIDE": "1"},
}  # fmt: skip
WAYS = {
    "eager, the host's part": ("-n", "200", "-C", "1"),
    "in a graph": ("-n", "20", "-G", "100"),
    "eager": ("-n", "4000"),
}
"""On GPUs; only so many calls that none waits for room among those that have not run."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder of the build")
    parser.add_argument("--starts", type=int, default=9, help="pairs of starts of each figure")
    parser.add_argument("--library", type=Path, help="an NCCL, on GPUs")
    parser.add_argument("--ranks", type=int, default=2, help="GPUs")
    parser.add_argument(
        "--in-turn", action="store_true", help="blocks in turn, over calls that take as long as real ones"
    )
    args = parser.parse_args()
    build = Path(args.build).resolve()
    if args.in_turn:
        return in_turn(build, args.starts)
    if args.library:
        return on_gpus(build, args.library.resolve(), args.ranks, args.starts)
    for what, words in ROUNDS.items():
        plain, more = [], []
        for turn in range(args.starts):
            pair = {}
            for recorded in (turn % 2 == 0, turn % 2 != 0):
                pair[recorded] = once(build, words, recorded=recorded, times="100" if "timed" in what else "none")
            plain.append(pair[False])
            more.append(pair[True] - pair[False])
        low, high = min(more), max(more)
        print(f"{what}: {median(plain):.0f} ns without, {median(more):.0f} ns more with it ({low:.0f} to {high:.0f})")
    return 0


def in_turn(build: Path, starts: int) -> int:
    """Of each level the median of the starts' medians; the fakes have figures of an H100 where one was measured."""
    fakes = build / "lib" / "fake_cuda"
    with tempfile.TemporaryDirectory(prefix="busbw-cost-") as folder:
        program = Path(folder) / "calls_cost"
        libraries = [fakes / name for name in ("libnccl.so.2", "libcudart.so.1", "libcuda.so.1")]
        subprocess.run(["cc", "-O2", "-DFAKE", "-o", program, ROOT / "bench/watch/calls_cost.c", *libraries, "-ldl",
                        f"-Wl,-rpath,{fakes}"], check=True, timeout=60)  # fmt: skip
        for pace, costs in PACES.items():
            for level, setting in IN_TURN.items():
                more = []
                for start in range(starts):
                    own = Path(folder) / f"{pace} {level} {start}"
                    own.mkdir()
                    environ = {
                        **os.environ, **costs, **setting, "RANK": "0", "RANKS": "1", "PLAIN": str(libraries[0]),
                        "LD_PRELOAD": str(build / "lib" / "libbusbw_record.so"), "BUSBW_RECORD_DIR": str(own),
                        "BUSBW_RECORD_CALLS": str(1 << 18),
                    }  # fmt: skip
                    done = subprocess.run([program, own], env=environ, capture_output=True, text=True, timeout=120,
                                          check=True)  # fmt: skip
                    more.append(float(json.loads(done.stdout)["host_more"]))
                print(f"{pace}, {level}: {median(more):.0f} ns more ({min(more):.0f} to {max(more):.0f})", flush=True)
    return 0


def on_gpus(build: Path, nccl: Path, ranks: int, starts: int) -> int:
    """Of each way of calling, the recorder without and with times beside NCCL itself, in turns."""
    for way, options in WAYS.items():
        found: dict[str, list[float]] = {"": [], "none": [], "none, unmarked": [], "100": []}
        for turn in range(starts):
            order = list(found)[turn % len(found) :] + list(found)[: turn % len(found)]
            for times in order:
                found[times].append(call_us(build, nccl, ranks, options, times))
        plain = found.pop("")
        print(f"1 KiB {way}: {median(plain):.2f} us without ({min(plain):.2f} to {max(plain):.2f})", flush=True)
        for times, each in found.items():
            more = [one - other for one, other in zip(each, plain, strict=True)]
            print(f"  times of {times}: {median(each):.2f} us ({min(each):.2f} to {max(each):.2f}), of a pair "
                  f"{median(more):+.2f} us more ({min(more):+.2f} to {max(more):+.2f})", flush=True)  # fmt: skip
    return 0


def call_us(build: Path, nccl: Path, ranks: int, options: tuple[str, ...], times: str) -> float:
    """Out of place, of one start; `times` "" for NCCL itself."""
    library = build / "lib" / "libbusbw_record.so" if times else nccl
    words = [sys.executable, "-m", "busbw", "all_reduce", "--ranks", str(ranks), "--library", str(library),
             "-b", "1K", "-e", "1K", "-c", "0", *options]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="busbw-cost-") as folder:
        environ = {
            **os.environ, "PYTHONPATH": str(ROOT / "python"), "BUSBW_ENGINE": str(build / "bin" / "busbw-engine"),
            "BUSBW_RUNS": folder,
        }  # fmt: skip
        if times:
            every, _, unmarked = times.partition(", ")
            environ |= {"BUSBW_REAL_NCCL": str(nccl), "BUSBW_RECORD_DIR": folder, "BUSBW_RECORD_TIMES": every,
                        "BUSBW_RECORD_MARKS": "0" if unmarked else "1"}  # fmt: skip
        done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r"^\s+1024\s+256\s+\S+\s+\S+\s+\S+\s+([0-9.]+)", done.stdout, re.MULTILINE)
    if not found:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}")
    return float(found[1])


def once(build: Path, words: tuple[str, ...], *, recorded: bool, times: str) -> float:
    """Processor time in ns that the program prints."""
    with tempfile.TemporaryDirectory(prefix="busbw-cost-") as folder:
        environ = dict(os.environ)
        if recorded:
            environ |= {"LD_PRELOAD": str(build / "lib" / "libbusbw_record.so"), "BUSBW_RECORD_DIR": folder,
                        "BUSBW_RECORD_TIMES": times}  # fmt: skip
        done = subprocess.run([build / "bin" / "busbw_test_gpu_user", *words], env=environ, capture_output=True,
                              text=True, timeout=300, check=True)  # fmt: skip
    found = re.search(r"([0-9.]+) ns a", done.stdout)
    assert found, done.stdout
    return float(found[1])


if __name__ == "__main__":
    raise SystemExit(main())
