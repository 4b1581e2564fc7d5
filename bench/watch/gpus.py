"""The aims of the recorder and the watcher on the GPUs of this machine, within a time.

    PYTHON-WITH-TORCH bench/watch/gpus.py --build build --output FOLDER [--seconds 300] [PART ...]
    PYTHON-WITH-TORCH bench/watch/gpus.py --build build --output FOLDER --without-gpus
    python3 bench/watch/gpus.py --build build --output FOLDER --nccl NCCL --ranks 1 --seconds 120 calls

The last one takes one GPU: a communicator of one rank, whose calls are mostly the host's work.

PART is one of these; default all, in this order:

calls       what the recorder costs a 1 KiB all-reduce, in a graph and eager, by starts in turn and by blocks in turn
steps       what it costs a step of DDP and of FSDP2, by starts in turn
stragglers  ranks that come 200 us late: how many are named within 3 steps, and how many wrongly
replay      a job of DDP is recorded and replayed twice with its gaps
programs    others' programs under `busbw watch`: results, recordings and counts of calls
faults      jobs that hang by four faults (beside `programs`, where both are asked for)

The build needs `busbw_recorder` and what `busbw with` has, no kernel of ours: lib/libbusbw_record.so, libbusbw_with.so
and busbw_with/. A folder that --others names may hold programs of others (gpus_programs.py says which). What each part
printed is in PART.txt of the output's folder, all figures in summary.json, and a summary comes at the end. Nothing
begins after --seconds, every part is ended at its own limit, and what fails says FAILED and why. Multicast is off in
all of it. Exit code: 1 where something failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpus_bench import ROOT, Bench, FailedError, found_nccl, json_of, ran, ranks_of, staged
from gpus_programs import programs
from on_gpus import spread, write_summary

CALL_WAYS = ("plain", "always", "full", "full, read aside")
STEP_WAYS = ("plain", "always", "plain", "always", "full")
"""A round; the cheap level gets most of the starts."""
WORST_GRAPH, WORST_EAGER_NS, WORST_STEP = 0.01, 150.0, 0.002
FAULTS = ("stop", "skip", "count", "spin")
ON_HOST = ("stop", "skip", "count", "sleep")


def calls(bench: Bench, end: float) -> None:
    """Starts of each way in turn; with the recorder each block is made through NCCL itself too."""
    program = compiled(bench)
    found: dict[str, list[dict[str, float]]] = {way: [] for way in CALL_WAYS}
    round_s, made = 0.0, 0
    while made < bench.starts and time.monotonic() + 1.1 * round_s < end:
        begun = time.monotonic()
        for at in range(len(CALL_WAYS)):
            way = CALL_WAYS[(at + made) % len(CALL_WAYS)]
            words = [[str(program), "{folder}"]] * bench.ranks
            environ = {**bench.recorded(way), **({"PLAIN": str(bench.nccl)} if way != "plain" else {})}
            found[way].append(json_of(ranks_of(bench, words, environ, end)))
        round_s, made = max(round_s, time.monotonic() - begun), made + 1
    plain = found.pop("plain")
    for what, bound in (("graph", WORST_GRAPH), ("eager", None), ("host", None)):
        if not bench.on_gpus and what == "graph":
            continue
        before = [each[what] for each in plain]
        bench.say(f"1 KiB all-reduce, {NAMES[what]}: {spread(before)} ns without ({len(before)} starts)")
        for way, each in found.items():
            more = [one[what] - other for one, other in zip(each, before, strict=False)]
            blocks = [one[f"{what}_more"] for one in each]
            share = median(blocks) / median(before)
            fine = share <= bound if bound is not None else median(blocks) <= WORST_EAGER_NS
            bench.say(f"  {way}: by blocks in turn {spread(blocks)} ns more ({100 * share:+.2f} %), by starts "
                      f"{spread(more)}; aim {'met' if fine else 'not met'} by blocks")  # fmt: skip
    bench.keep("calls", {"plain": plain, **found})


NAMES = {"graph": "one of a graph of 100", "eager": "eager, until it is done", "host": "eager, the host's part"}


def compiled(bench: Bench) -> Path:
    """The program, linked with NCCL and CUDA's runtime as a shared library."""
    made = bench.folder / "calls_cost"
    words = ["cc", "-O2", "-o", str(made), str(ROOT / "bench/watch/calls_cost.c"), str(bench.nccl), "-ldl",
             f"-Wl,-rpath,{bench.nccl.parent}"]  # fmt: skip
    if bench.on_gpus:
        words += cudart()
    else:
        words.append("-DHOST")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise FailedError(f"the compiler refused calls_cost.c: {done.stderr[-400:]}")
    return made


def cudart() -> list[str]:
    """Words for the compiler: CUDA's headers and its runtime, where nvcc lies or where installers put it."""
    nvcc = shutil.which("nvcc")
    homes = [Path(nvcc).resolve().parents[1]] if nvcc else []
    for home in [*homes, Path("/usr/local/cuda"), *sorted(Path("/usr/local").glob("cuda-*"), reverse=True)]:
        for inner in (home, home / "targets" / "x86_64-linux"):
            libraries = [each for each in (inner / "lib64", inner / "lib") if (each / "libcudart.so").exists()]
            if libraries and (inner / "include" / "cuda_runtime_api.h").is_file():
                return [f"-I{inner}/include", f"-L{libraries[0]}", f"-Wl,-rpath,{libraries[0]}", "-lcudart"]
    raise FailedError("cuda_runtime_api.h and libcudart.so were not found beside nvcc or in /usr/local/cuda")


def steps(bench: Bench, end: float) -> None:
    """Starts in turn: neighbours are compared, and the medians of all."""
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in dict.fromkeys(STEP_WAYS)}
    small = ["--layers", "2", "--width", "64", "--rows", "8", "--steps", "40", "--backend", "gloo"]
    words = [sys.executable, str(ROOT / "bench/watch/steps_cost.py"), "{folder}", "--ranks", str(bench.ranks),
             *([] if bench.on_gpus else small)]  # fmt: skip
    made, longest, order = 0, 0.0, [*STEP_WAYS, *STEP_WAYS, "plain", "always"]
    while made < len(order) and time.monotonic() + 1.1 * longest < end:
        begun = time.monotonic()
        way = order[made]
        found[way].append(json_of(ranks_of(bench, [words] * bench.ranks, bench.recorded(way), end)))
        longest, made = max(longest, time.monotonic() - begun), made + 1
    for kind in ("ddp", "fsdp2"):
        times = {way: [each[kind]["step_us"] for each in some] for way, some in found.items() if some}
        sums = {start[kind]["sum"] for some in found.values() for start in some}
        plain = times.pop("plain")
        alike = "alike in all starts" if len(sums) == 1 else f"of {len(sums)} kinds: {sorted(sums)[:4]}"
        bench.say(f"step of {kind}: {spread(plain)} us without ({len(plain)} starts); weights after it {alike}")
        for way, each in times.items():
            pairs = [100 * (one / other - 1) for one, other in zip(each, plain, strict=False)]
            share = median(each) / median(plain) - 1
            bench.say(f"  {way}: {spread(each)} us ({len(each)} starts), medians {100 * share:+.2f} %, "
                      f"pairs {', '.join(f'{pair:+.2f}' for pair in pairs)} %; aim of {100 * WORST_STEP:g} % "
                      f"{'met' if share <= WORST_STEP else 'not met'}")  # fmt: skip
    bench.keep("steps", found)


def stragglers(bench: Bench, end: float) -> None:
    words = [sys.executable, str(ROOT / "bench/watch/stragglers.py"), "--build", str(bench.build), "--ranks",
             str(bench.ranks), "--healthy", "5000", "--injected", "50", "--work", "300", "--slower", "200"]  # fmt: skip
    code, text = ran(bench, [*words, *bench.library()], {}, end)
    bench.say(*[line for line in text.splitlines() if line.strip() and not line.startswith("{")][-6:])
    if code:
        raise FailedError(f"exit code {code}")
    bench.keep("stragglers", json_of(text))


def replay(bench: Bench, end: float) -> None:
    """What is recorded has times of all calls, else there is nothing to compare a replay with."""
    recordings, files = bench.folder / "recordings", [bench.output / f"replay{number}.json" for number in (1, 2)]
    train = [sys.executable, ROOT / "bench/watch/train.py", "--ranks", bench.ranks, "--steps", 30, "--calls", 20,
             "--layers", 4, "--width", 2048, "--rows", 1024, "--largest", 1 << 24, "--seconds", 40]  # fmt: skip
    nccl: list[str] = []
    if not bench.on_gpus:
        meeting = bench.folder / "meeting"
        meeting.mkdir()
        train = [sys.executable, ROOT / "python/tests/watch/job.py", bench.nccl, bench.ranks, 200, "none", meeting]
        nccl = ["--nccl", str(bench.nccl)]
    job = [*bench.watch(recordings), *nccl, "--", *map(str, train)]
    code, text = ran(bench, job, {"BUSBW_RECORD_TIMES": "all"}, end)
    if code:
        raise FailedError(f"the job ended with {code}: {text[-400:]}")
    for file in files:
        words = [*bench.busbw, "replay", str(recordings), "--gaps", "--times", str(file), *bench.library()]
        code, text = ran(bench, words, {}, end)
        if not file.exists():
            raise FailedError(f"the replay ended with {code}: {text[-400:]}")
    code, text = ran(bench, [sys.executable, str(ROOT / "bench/watch/replay_ratios.py"), *map(str, files)], {}, end)
    bench.say(*text.splitlines()[-30:])
    bench.keep("replay", text.splitlines()[-2:])
    if code:
        raise FailedError("a result was wrong, or nothing had a time")


def faults(bench: Bench, end: float) -> None:
    """Two at once; the kernel that never ends comes last."""

    def one(name: str) -> tuple[int, str]:
        words = [sys.executable, str(ROOT / "bench/watch/faults.py"), "--build", str(bench.build), "--ranks",
                 str(max(bench.ranks, 2)), "--trials", "1", "--steps", "200", "--faults", name]  # fmt: skip
        return ran(bench, [*words, *bench.library()], {}, end)

    names = FAULTS if bench.on_gpus else ON_HOST
    with ThreadPoolExecutor(2) as workers:
        done = dict(zip(names, workers.map(one, names), strict=True))
    right = sum(code == 0 for code, _ in done.values())
    for name, (code, text) in done.items():
        lines = [line for line in text.splitlines() if line.startswith((name, "wrong"))]
        bench.say(f"fault {name}: {lines[-1] if code == 0 and lines else f'FAILED ({code}): {text[-500:]}'}")
    bench.say(f"faults: {right} of {len(done)} verdicts right")
    bench.keep("faults", {name: code == 0 for name, (code, _) in done.items()})


PARTS: dict[str, tuple[float, Callable[[Bench, float], None]]] = {
    "calls": (50.0, calls), "steps": (125.0, steps), "stragglers": (25.0, stragglers), "replay": (45.0, replay),
    "programs": (140.0, programs), "faults": (110.0, faults),
}  # fmt: skip
"""The most that each takes, in seconds."""


def carried_out(bench: Bench, name: str, end: float) -> bool:
    """One part, within its limit; its failure is told and ends nothing else."""
    limit, part = PARTS[name]
    begun = time.monotonic()
    own = bench.for_part(name)
    why = ""
    if end - begun < 5.0:
        why = "no time was left"
    else:
        try:
            part(own, min(end, begun + limit))
        except FailedError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001 - the other parts go on, whatever it was
            why = f"{type(error).__name__}: {error}"
    if why:
        own.say(f"FAILED: {' '.join(why.split())[:700]}")
    own.write(time.monotonic() - begun)
    return not why


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--nccl", type=Path, help="default the one that PyTorch has")
    parser.add_argument("--others", type=Path, default=ROOT / "build-others", help="programs of others")
    parser.add_argument("--without-gpus", action="store_true", help="a rehearsal in host memory")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + args.seconds
    names = [name for name in PARTS if name in (args.parts or PARTS)]
    with tempfile.TemporaryDirectory(prefix="busbw-gpus-") as made:
        folder = Path(made)
        build = staged(args.build.resolve(), folder)
        nccl = args.nccl or (found_nccl() if not args.without_gpus else build / "lib" / "libbusbw_cpu.so")
        bench = Bench(args.output.resolve(), folder, build, nccl.absolute(), args.others.resolve(), args.ranks,
                      args.starts, not args.without_gpus)  # fmt: skip
        print(f"NCCL: {bench.nccl}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)
        fine = [carried_out(bench, name, end) for name in names if name not in {"programs", "faults"}]
        with ThreadPoolExecutor(2) as workers:
            beside = [name for name in names if name in {"programs", "faults"}]
            fine += workers.map(lambda name: carried_out(bench, name, end), beside)
        write_summary(bench.output, bench.kept)
        print("\n==== summary", *(line for name in names for line in bench.said.get(name, [])), sep="\n", flush=True)
    return int(not all(fine))


if __name__ == "__main__":
    sys.exit(main())
