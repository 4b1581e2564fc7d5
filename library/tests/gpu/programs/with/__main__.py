"""Runs programs of several frameworks alone and under `busbw with`, and says whose collectives were called.

    python3 library/tests/gpu/programs/with --build build-gpu [--nccl FILE] [PROGRAM ...]

Needs two or more GPUs and a Python with the frameworks; one that is missing is left out and named. A program passes if
its results are right in both runs, and if busbw logged a kernel of its own for each collective that it takes. Exit
code: 0 where all passed, 1 where one failed, 2 where none ran.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[4]
TIME_LIMIT_S = 150
# Each program, and the collectives in which busbw has to be seen. JAX adds within a process by kernels of its own: with
# NCCL_DEBUG_SUBSYS=COLL, NCCL alone logs no AllReduce of it (JAX 0.11.2, two H200).
PROGRAMS: dict[str, tuple[list[str], set[str]]] = {
    "jax": (["jax_collectives.py"], {"all_gather", "reduce_scatter", "all_to_all"}),
    "jax-processes": (["jax_processes.py"], {"all_reduce", "all_gather"}),
    "cupy": (["cupy_collectives.py"], {"all_reduce", "all_gather", "reduce_scatter", "broadcast"}),
    "torch": (["torch_collectives.py"], {"all_reduce", "all_gather", "reduce_scatter", "broadcast"}),
    "torchrun": (["torchrun_collectives.py"], {"all_reduce", "all_gather", "reduce_scatter"}),
}
_LOGGED = re.compile(r"^busbw: rank \d+: (\w+) by (?!nccl)", re.M)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder of the build, with lib/libbusbw_gpu.so in it")
    parser.add_argument("--nccl", help="the NCCL that stands behind; else the one that the program opens")
    parser.add_argument("programs", nargs="*", help=f"some of {', '.join(PROGRAMS)}; else all")
    args = parser.parse_args()
    results = {name: _try(name, args) for name in args.programs or PROGRAMS}
    for name, result in results.items():
        print(f"{name:<13} {result}")
    ran = [result for result in results.values() if not result.startswith("left out")]
    return 2 if not ran else int(any(not result.startswith("passed") for result in ran))


def _try(name: str, args: argparse.Namespace) -> str:
    words, expected = PROGRAMS[name]
    command = [sys.executable, str(HERE / words[0])]
    if name == "torchrun":
        gpus = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout.count("GPU ")
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}"]
        command = [sys.executable, *launcher, command[1]]
    alone = _run(name, "alone", command)
    if alone.returncode == 77:
        return f"left out: {alone.stdout.strip()}"
    if alone.returncode != 0:
        return f"failed without busbw too, exit code {alone.returncode}"
    front = [sys.executable, "-m", "busbw", "with", *(["--nccl", args.nccl] if args.nccl else []), "--"]
    done = _run(name, "under busbw with", [*front, *command], args.build)
    seen = set(_LOGGED.findall(done.stdout))
    behind = re.search(r"stands in front of (\S+)", done.stdout)
    if done.returncode != 0:
        return f"FAILED under busbw with, exit code {done.returncode}"
    if behind is None:
        return "FAILED: the auditor met no NCCL"
    if missing := expected - seen:
        return f"FAILED: results are right, but busbw took no {', '.join(sorted(missing))} (took {sorted(seen)})"
    return f"passed: busbw took {', '.join(sorted(seen))}, in front of {behind[1]}"


def _run(name: str, how: str, command: list[str], build: str = "") -> subprocess.CompletedProcess[str]:
    environ = {"NCCL_NVLS_ENABLE": "0", **os.environ}
    if build:
        environ |= {
            "BUSBW_ENGINE": str(Path(build).resolve() / "bin" / "busbw-engine"),
            "BUSBW_GPU_LOG": "2",
            "PYTHONPATH": ":".join(filter(None, (str(ROOT / "python"), os.environ.get("PYTHONPATH", "")))),
        }
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        text = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
        done = subprocess.CompletedProcess(command, 124, text)
    print(f"--- {name} {how}: exit code {done.returncode}, {time.monotonic() - start:.1f} s")
    print("\n".join(done.stdout.splitlines()[-60:]), flush=True)
    return done


if __name__ == "__main__":
    sys.exit(main())
