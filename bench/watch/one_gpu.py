"""Measures on ONE GPU what needs several: each rank is a host of its own for NCCL, and all of them share the GPU.

    python3 bench/watch/one_gpu.py --build build --library libnccl.so.2 --output figures [STEP ...]
    python3 bench/watch/one_gpu.py --build build --library build/lib/libbusbw_cpu.so --without-gpus --output figures

STEP is one of cost, replay, faults, hosts, spin, overlap, tune and torch; default all of them, in this order.
NCCL_HOSTID of each rank is another, so that NCCL goes through sockets on `lo`, and takes one GPU for several. CUDA's
MPS lets their kernels run at once; each command has a daemon of its own, since a killed rank can take one with it.
--mps no leaves it out: then ranks take turns on the GPU, and times mean little. `replay` and `torch` need a Python with
torch (--torch-python).

What each step printed is in STEP.txt of the output's folder, how long it took and how it ended in summary.json.
Nothing begins after --seconds, and every step is ended at its own limit. Exit code: 1 where a step failed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from on_gpus import ended, write_summary

ROOT = Path(__file__).resolve().parents[2]
OWN_HOST = """\
import os
if "RANK" in os.environ:
    os.environ.setdefault("NCCL_HOSTID", "host" + os.environ["RANK"])
"""
ENGINE = """\
#!/bin/sh
NCCL_HOSTID="host${{BUSBW_RANK:-${{OMPI_COMM_WORLD_RANK:-0}}}}" exec {engine} "$@"
"""
NETWORK = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN"}
FAULTS = (
    ("none", "pause", "sleep", "order", "stop"),
    ("busy", "skip", "count", "exception", "kill"),
    ("group", "collective", "debugger", "exit", "memory"),
)
"""Jobs of one row follow each other, rows run side by side."""
ON_HOSTS = (("none", "sleep", "count"), ("skip", "stop", "exception"))
TORCH = (
    ("uneven", "unused", "objects", "shapes", "experts", "order"),
    ("barrier", "checkpoint", "loader", "swallowed", "skips", "pipeline"),
    ("fsdp", "tensor", "graph", "evaluates", "accumulates", "handles"),
)
MPS_STARTS_S = 10.0


@dataclass(frozen=True)
class Bench:
    """What all steps share."""

    build: Path
    staged: Path
    """A build whose engine makes each rank a host."""
    library: Path
    ranks: int
    output: Path
    on_gpus: bool
    mps: bool
    torch_python: str
    starts: int
    trials: int = 1
    """Of each fault; every one at a moment of its own."""
    seed: int = 1


Lanes = list[list[list[str]]]
"""Commands of a lane follow each other, lanes run side by side."""


@dataclass(frozen=True)
class Step:
    """What it runs, for how long at most, and which exit codes are answers."""

    limit_s: float
    lanes: Callable[[Bench], Lanes]
    fine: tuple[int, ...] = (0,)


def python(*words: object) -> list[str]:
    """A program of this repository, or a verb of busbw."""
    return [sys.executable, *map(str, words)]


def busbw(*words: object) -> list[str]:
    return python("-m", "busbw", *words)


def cost(bench: Bench) -> Lanes:
    """First what the driver's own functions take."""
    parts = [python(ROOT / "bench/watch/driver_calls.py")] if bench.on_gpus else []
    return [[*parts, python(ROOT / "bench/watch/recorder_cost.py", "--build", bench.staged, "--library", bench.library,
                   "--ranks", bench.ranks, "--starts", bench.starts)]]  # fmt: skip


def replay(bench: Bench) -> Lanes:
    """A small job of PyTorch's DDP is recorded and replayed, twice; in host memory one of tests."""
    train = [bench.torch_python, ROOT / "bench/watch/train.py", "--ranks", bench.ranks, "--steps", 20, "--calls", 20,
             "--layers", 3, "--width", 1024, "--rows", 512, "--largest", 1 << 24, "--seconds", 45]  # fmt: skip
    files = [bench.output / f"replay{number}.json" for number in (1, 2)]
    lane = []
    for number, file in enumerate(files, 1):
        recordings, meeting = bench.output / f"recordings{number}", bench.output / f"meeting{number}"
        for old in (recordings, meeting):
            shutil.rmtree(old, ignore_errors=True)
        if not bench.on_gpus:
            meeting.mkdir()
            nccl = shutil.copy(bench.library, meeting / "libnccl.so.2")
            train = [sys.executable, ROOT / "python/tests/watch/job.py", nccl, bench.ranks, 200, "none", meeting]
        lane += [
            [*busbw("watch", "--output", recordings, "--nccl", bench.library, "--"), *map(str, train)],
            busbw("replay", recordings, "--gaps", "--library", bench.library, "--times", file),
        ]
    return [[*lane, python(ROOT / "bench/watch/replay_ratios.py", *files)]]


def faults(bench: Bench) -> Lanes:
    """Each trial is a command, and has an MPS of its own: a killed rank may have taken the last one with it."""
    return [[one_fault(bench, name, number) for name in names for number in range(bench.trials)] for names in FAULTS]


def one_fault(bench: Bench, name: str, number: int = 0) -> list[str]:
    library = ["--library", bench.library] if bench.on_gpus else []
    return python(ROOT / "bench/watch/faults.py", "--build", bench.build, *library, "--ranks", bench.ranks,
                  "--trials", 1, "--seed", bench.seed + number, "--steps", 200, "--faults", name)  # fmt: skip


def hosts(bench: Bench) -> Lanes:
    """A watcher for each host; they tell each other."""
    return [[[*one_fault(bench, name), "--hosts"] for name in names] for names in ON_HOSTS]


def spin(bench: Bench) -> Lanes:
    """A kernel that never ends in front of rank 1's next call; on processors a rank that computes in its call."""
    if not bench.on_gpus:
        return [[one_fault(bench, "inside")]]
    train = [bench.torch_python, ROOT / "bench/watch/train.py", "--ranks", bench.ranks, "--steps", 20, "--calls", 1,
             "--layers", 3, "--width", 1024, "--rows", 512, "--largest", 1 << 20, "--spin"]  # fmt: skip
    watch = busbw("watch", "--hang-after", "4", "--on-hang", "abort", "--nccl", bench.library, "--")
    return [
        [one_fault(bench, "spinning")] * 3,
        [one_fault(bench, "spin")] * 3,
        [[*one_fault(bench, "spinning"), "--hosts"], [*watch, *map(str, train)]],
    ]


def overlap(bench: Bench) -> Lanes:
    product = "product:512x512x1024" if bench.on_gpus else "product"
    return [[busbw("overlap", "--rounds", 3, "--beside", product, "--ranks", bench.ranks,
                   "--runs", bench.output / "runs", "--", "all_reduce", "-b", "64K", "-e", "16M", "-f", 16,
                   "--library", bench.library)]]  # fmt: skip


def tune(bench: Bench) -> Lanes:
    """A search with a small budget; then NCCL with our plugin and tables of its own, of others, cut off and newer."""
    table = bench.output / "nccl-table.txt"
    perf = busbw("run", "--ranks", bench.ranks, "--env", "NCCL_DEBUG=INFO", "all_reduce", "-b", "16K", "-e", "16K",
                 "-n", 5, "-c", 1, "--no-record", "--library", bench.library)  # fmt: skip
    words = ("-b", "64K", "-e", "1M", "--ranks", bench.ranks, "--library", bench.library, "--budget", "60s")
    plugin = (ROOT / "bench/settings/plugin.py", "--build", bench.build, "--output", bench.output / "plugin")
    return [[
        busbw("tune", "nccl", "all_reduce", *words, "--output", table, "--runs", bench.output / "runs"),
        python(*plugin, "--", *perf),
    ]]  # fmt: skip


def torch(bench: Bench) -> Lanes:
    """Jobs of PyTorch with faults as users write them, of three ranks at least, so that one can be unlike others."""
    library = ["--library", bench.library] if bench.on_gpus else []
    words = (ROOT / "bench/watch/torch_faults.py", "--build", bench.build, *library,
             "--torch-python", bench.torch_python, "--ranks", max(3, bench.ranks))  # fmt: skip
    return [[python(*words, name) for name in names] for names in TORCH]


STEPS = {
    "cost": Step(200.0, cost),
    "replay": Step(150.0, replay),
    "faults": Step(130.0, faults),
    "hosts": Step(90.0, hosts),
    "spin": Step(130.0, spin, fine=(0, 1, 124)),
    "overlap": Step(60.0, overlap),
    "tune": Step(150.0, tune, fine=(0, 1)),
    "torch": Step(420.0, torch),
}


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(STEPS))
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="folder of the build")
    parser.add_argument("--library", type=Path, required=True, help="an NCCL")
    parser.add_argument("--output", type=Path, required=True, help="where figures go")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--torch-python", default=sys.executable, help="a Python with torch")
    parser.add_argument("--starts", type=int, default=5, help="of the step cost")
    parser.add_argument("--trials", type=int, default=1, help="of each fault")
    parser.add_argument("--seed", type=int, default=1, help="of the moments of faults")
    parser.add_argument("--mps", choices=("yes", "no"), default="yes")
    parser.add_argument("--without-gpus", action="store_true", help="the library works in host memory: to try this")
    parser.add_argument("--seconds", type=float, default=360.0, help="for all steps together")
    args = parser.parse_args()
    if unknown := set(args.steps) - set(STEPS):
        parser.error(f"no step: {', '.join(sorted(unknown))}")
    args.output.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + args.seconds
    summary = {}
    # What an ended step leaves has to be ended too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="busbw-one-") as folder:
        bench = Bench(
            args.build.resolve(), staged(args.build.resolve(), Path(folder)), args.library.resolve(), args.ranks,
            args.output.resolve(), not args.without_gpus, args.mps == "yes" and not args.without_gpus,
            args.torch_python, args.starts, args.trials, args.seed,
        )  # fmt: skip
        for name in args.steps or STEPS:
            left_s = end - time.monotonic()
            if left_s < 5.0:
                summary[name] = {"right": False, "why": "no time was left"}
                print(f"{name}: no time was left", flush=True)
            else:
                summary[name] = carried_out(bench, name, min(left_s, args.trials * STEPS[name].limit_s), Path(folder))
            write_summary(bench.output, summary)
    return int(any(not each["right"] for each in summary.values()))


def staged(build: Path, folder: Path) -> Path:
    """A folder like that of the build, whose engine gives each rank an NCCL_HOSTID; and the same for Python's ranks."""
    made = folder / "build"
    (made / "bin").mkdir(parents=True)
    (made / "lib").symlink_to(build / "lib")
    engine = made / "bin" / "busbw-engine"
    engine.write_text(ENGINE.format(engine=shlex.quote(str(build / "bin" / "busbw-engine"))))
    engine.chmod(0o755)
    (folder / "sitecustomize.py").write_text(OWN_HOST)
    return made


def carried_out(bench: Bench, name: str, limit_s: float, folder: Path) -> dict[str, object]:
    """Run the step's commands; what they printed goes to a file, its end to stdout."""
    step, begun = STEPS[name], time.monotonic()
    environ = environment(bench, folder, name)
    lanes = step.lanes(bench)
    with ThreadPoolExecutor(len(lanes)) as workers:
        done = list(workers.map(lambda lane: [ran(bench, words, environ, begun + limit_s) for words in lane], lanes))
    together = [each for lane in done for each in lane]
    codes, lines = [code for code, _ in together], [line for _, said in together for line in said]
    (bench.output / f"{name}.txt").write_text("\n".join(lines) + "\n")
    took = round(time.monotonic() - begun, 1)
    print(f"== {name}: codes {codes}, {took} s", *lines[-60:], sep="\n", flush=True)
    return {"right": all(code in step.fine for code in codes), "codes": codes, "took_s": took,
            "lines": [each[:300] for each in lines[-200:]]}  # fmt: skip


def ran(bench: Bench, words: list[str], environ: dict[str, str], end: float) -> tuple[int, list[str]]:
    """Exit code and lines of one command; 124 where the time was up."""
    if time.monotonic() > end:
        return 124, [f"$ {shlex.join(words)}", "no time was left"]
    with tempfile.TemporaryFile("w+", errors="replace") as out, mps(bench.mps) as own:
        process = subprocess.Popen(words, env=environ | own, stdout=out, stderr=subprocess.STDOUT,
                                   stdin=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        try:
            code = waited(process, end - time.monotonic())
        finally:
            ended(process)
        out.seek(0)
        return code, [f"$ {shlex.join(words)}", *out.read().splitlines()]


def environment(bench: Bench, folder: Path, name: str) -> dict[str, str]:
    made = {
        **NETWORK, **os.environ, "BUSBW_ENGINE": str(bench.staged / "bin" / "busbw-engine"), "HOSTS": "1",
        "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT / "python"))),
        "BUSBW_RUNS": str(bench.output / "runs"),
    }  # fmt: skip
    return made | ({"BUSBW_RECORD_TIMES": "all"} if name == "replay" else {})


def waited(process: subprocess.Popen[bytes], limit_s: float) -> int:
    """Its exit code; 124 where the time was up."""
    try:
        return process.wait(max(0.1, limit_s))
    except subprocess.TimeoutExpired:
        ended(process)
        return 124


@contextmanager
def mps(wanted: bool) -> Iterator[dict[str, str]]:
    """A daemon of CUDA's MPS in the foreground, so that it can be ended; what programs need to find it."""
    if not wanted:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        own = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
        for path in own.values():
            Path(path).mkdir()
        try:
            daemon = subprocess.Popen(["nvidia-cuda-mps-control", "-f"], env={**os.environ, **own},
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      start_new_session=True)  # fmt: skip
        except OSError as why:
            raise SystemExit(f"nvidia-cuda-mps-control cannot be started: {why.strerror}; see --mps no") from why
        try:
            end = time.monotonic() + MPS_STARTS_S
            while not answers(own) and time.monotonic() < end and daemon.poll() is None:
                time.sleep(0.05)
            yield own
        finally:
            answers(own, "quit -t 2\n")
            ended(daemon)
            # Its server is of its session; where it did not end by itself it is killed with it.
            with suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL)


def answers(own: dict[str, str], question: str = "get_server_list\n") -> bool:
    """Whether the daemon answers."""
    with suppress(subprocess.TimeoutExpired):
        words: Sequence[str] = ["nvidia-cuda-mps-control"]
        done = subprocess.run(words, input=question, env={**os.environ, **own}, capture_output=True, text=True,
                              timeout=8.0, check=False)  # fmt: skip
        return done.returncode == 0
    return False


if __name__ == "__main__":
    sys.exit(main())
