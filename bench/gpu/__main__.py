"""busbw against nccl-tests on the GPUs of one host: python3 bench/gpu [STAGE ...] (see README.md beside this)."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import launches
from launches import Setup, Sweep
from report import markdown
from stages import PARTS, REST, STAGES, Bench, Deadline

from busbw.base.errors import UserError
from busbw.base.programs import ask
from busbw.launch.supervise import Child, Rules, Supervisor

REPOSITORY = Path(__file__).resolve().parents[2]


def _output(*argv: str) -> str:
    return ask(argv, 60.0).stdout.strip()


def python_nccl() -> str | None:
    """The file of the wheel nvidia-nccl in this Python, which is also what PyTorch's wheels load."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        file = Path(folder) / "nccl" / "lib" / "libnccl.so.2"
        if file.is_file():
            return str(file)
    return None


def machine(setup: Setup) -> dict[str, str]:
    gpus = _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    return {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "GPUs": f"{len(gpus)} x {gpus[0]}" if gpus else "none",
        "driver": (_output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines() or ["?"])[
            0
        ],
        "CUDA compiler": (_output("nvcc", "--version").splitlines() or ["?"])[-1],
        "MPI": (_output(setup.mpirun[0], "--version").splitlines() or ["none"])[0],
        "NCCL": setup.library,
        "busbw": _output(str(setup.busbw / "all_reduce_perf"), "--version") or "?",
        "engine": f"sha256 {_sha256(setup.busbw / 'busbw-engine')[:12]}",
        "multicast": "off (NCCL_NVLS_ENABLE=0)",
    }


def _sha256(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return "?"


def build() -> None:
    """Builds busbw into build/ with code for this machine's GPUs only."""
    capability = _output("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader").splitlines()[0]
    ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
    configure = ["cmake", "-S", str(REPOSITORY), "-B", str(REPOSITORY / "build"), *ninja, "-DCMAKE_BUILD_TYPE=Release"]
    configure += ["-DBUSBW_TESTS=OFF", f"-DBUSBW_CUDA_ARCHITECTURES={capability.replace('.', '')}"]
    targets = ["busbw-engine", "busbw_cpu", "busbw_test_corrupting_gpu"]
    compile_ = ["cmake", "--build", str(REPOSITORY / "build"), "--parallel", "--target", *targets]
    for words in (configure, compile_):
        if Supervisor([Child("cmake", words, os.environ)], Rules(speaker="bench/gpu")).run() != 0:
            raise SystemExit(f"{' '.join(words)} failed")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 bench/gpu", description=__doc__)
    parser.add_argument("stages", nargs="*", default=["compare"], help=f"of: build {' '.join(STAGES)} report rest all")
    parser.add_argument("--collectives", default=",".join(launches.COLLECTIVES))
    parser.add_argument("--modes", default=",".join(launches.MODES))
    parser.add_argument("--runs", type=int, default=5, help="of each program")
    parser.add_argument("--budget", type=float, default=540, help="seconds for everything; runs past it are left out")
    parser.add_argument("--per-run-limit", type=float, default=120, help="seconds for one program")
    parser.add_argument("--min", default="8")
    parser.add_argument("--max", default="4G")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--graph-launches", type=int, default=20)
    parser.add_argument("--gpus", type=int, default=0, help="0: all that nvidia-smi lists")
    parser.add_argument("--library", default="", help="the NCCL for both programs; default: the wheel of this Python")
    parser.add_argument("--out", default=os.environ.get("OUT", str(REPOSITORY / "bench" / "out" / "gpu")))
    parser.add_argument(
        "--results", nargs="*", default=[], metavar="FILE[:STAGE[/MODE,...]]",
        help="for report: results.json of earlier calls to merge, whole or a stage, or modes of it",
    )  # fmt: skip
    return parser.parse_args()


def setup_from(args: argparse.Namespace) -> Setup:
    library = args.library or python_nccl()
    if not library:
        raise SystemExit("bench/gpu: this Python has no wheel nvidia-nccl; give the library with --library")
    peers = os.environ.get("NCCL_TESTS_BIN")
    root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
    return Setup(
        busbw=Path(os.environ.get("BUSBW_BIN", REPOSITORY / "build" / "bin")).resolve(),
        nccl_tests=Path(peers).resolve() if peers else None,
        library=str(Path(library).resolve()),
        gpus=args.gpus or len(_output("nvidia-smi", "-L").splitlines()),
        mpirun=("mpirun", *root, "--bind-to", "none", "--oversubscribe"),
    )


def measure(args: argparse.Namespace, names: list[str], out: Path) -> dict[str, Any]:
    deadline = Deadline(args.budget)
    if "build" in names:
        build()
    setup = setup_from(args)
    if setup.gpus < 2:
        raise SystemExit(f"bench/gpu: {setup.gpus} GPUs here; the comparison needs two or more")
    sweep = Sweep(smallest=args.min, largest=args.max, iterations=args.iterations, graph_launches=args.graph_launches)
    call: dict[str, Any] = {"machine": machine(setup), "arguments": sys.argv[1:], "stages": {}}
    steps = [(name, args.runs) for name in names if name in STAGES]
    limit = args.per_run_limit
    if "rest" in names:
        steps += [(name, 1) for name in REST]
        # The longest takes 10 s; one that hangs must not take the time of all others.
        limit = min(limit, 30.0)
    with tempfile.TemporaryDirectory(prefix="busbw-bench-") as scratch:
        bench = Bench(setup, sweep, deadline, out, limit, scratch)
        for name, runs in steps:
            if deadline.left() <= 0:
                print(f"no time left for {name}", flush=True)
                continue
            try:
                found = STAGES[name](bench, tuple(args.collectives.split(",")), tuple(args.modes.split(",")), runs)
            except (OSError, SystemExit, UserError) as error:
                # One stage that cannot run must not cost the others, which share a rented machine.
                print(f"stage {name}: {error}", file=sys.stderr, flush=True)
                continue
            call["stages"].setdefault(PARTS.get(name, name), []).extend(found)
            (out / "results.json").write_text(json.dumps(call))
    return call


def load(word: str) -> dict[str, Any]:
    """FILE, or FILE:STAGE, or FILE:STAGE/MODE,MODE: an earlier call, or the part of it that still holds."""
    file, _, part = word.partition(":")
    call: dict[str, Any] = json.loads(Path(file).read_text())
    if part:
        stage, _, modes = part.partition("/")
        kept = [r for r in call["stages"].get(stage, []) if not modes or r.get("mode") in modes.split(",")]
        if not kept:
            raise SystemExit(f"bench/gpu: {file} holds nothing of {part}")
        call["stages"] = {stage: kept}
    return call


def main() -> int:
    args = parse()
    whole = [name for name in STAGES if name not in PARTS]
    names = ["build", *whole] if "all" in args.stages else args.stages
    unknown = set(names) - {"build", "report", "rest", *STAGES}
    if unknown:
        raise SystemExit(f"bench/gpu: no stage is called {', '.join(sorted(unknown))}")
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    calls = [load(word) for word in args.results]
    if set(names) - {"report"}:
        calls.append(measure(args, names, out))
    text = markdown(calls)
    (out / "report.md").write_text(text)
    if "report" in names:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
