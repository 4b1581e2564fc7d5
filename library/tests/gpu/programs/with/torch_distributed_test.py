"""Runs PyTorch's own distributed tests over NCCL with busbw in front, and those that fail with NCCL alone too.

    python3 library/tests/gpu/programs/with/torch_distributed_test.py --build build [--seconds 300] [NAME ...]

The tests are those that PyTorch's wheel brings (torch.testing._internal.distributed.distributed_test), two ranks each.
Several run side by side, as most of their time goes into starting Python. Exit code: 0 where every test that fails with
busbw in front fails with NCCL alone too, 1 where one does not, 2 where none ran.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
CASE = HERE / "torch_distributed_case.py"
ROOT = HERE.parents[4]
GPUS = 2
TIME_LIMIT_OF_ONE_S = 60
_OURS = re.compile(r"^busbw: rank \d+: (\w+) by (?!nccl)", re.M)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder of the build, with lib/libbusbw_gpu.so in it")
    parser.add_argument("--nccl", help="the NCCL that stands behind; else the one that PyTorch opens")
    parser.add_argument("--seconds", type=float, default=300, help="start no test later than this")
    parser.add_argument("--jobs", type=int, default=8, help="tests side by side")
    parser.add_argument("--seed", type=int, default=1, help="of their order")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many of that order: they ran before")
    parser.add_argument("--out", type=Path, help="a folder for what the tests print")
    parser.add_argument("--list", action="store_true", help="only name the tests")
    parser.add_argument("names", nargs="*", help="tests; else all that NCCL has")
    args = parser.parse_args()
    names = args.names or listed()
    if args.list:
        print("\n".join(names))
        return 0
    random.Random(args.seed).shuffle(names)
    names = names[args.skip :]
    end = time.monotonic() + args.seconds
    with ThreadPoolExecutor(args.jobs) as pool:
        results = dict(zip(names, pool.map(lambda name: started(name, args, end), names), strict=True))
    tally = Counter(outcome for outcome, _ in results.values())
    taken = Counter(word for _, words in results.values() for word in words)
    print(f"with busbw in front: {dict(tally)}; tests in which busbw took calls: {dict(taken)}")
    worse = []
    for name in sorted(name for name, (outcome, _) in results.items() if outcome == "failed"):
        alone, _ = started(name, args, end + TIME_LIMIT_OF_ONE_S, alone=True)
        print(f"failed {name}; with NCCL alone: {alone}")
        if alone != "failed":
            worse.append(name)
    print("only NCCL alone passes: " + (", ".join(worse) or "none"))
    return 2 if not tally["passed"] else int(bool(worse))


def environment() -> dict[str, str]:
    return {
        "BACKEND": "nccl",
        "WORLD_SIZE": str(GPUS),
        "NCCL_NVLS_ENABLE": "0",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
        **os.environ,
    }


def listed() -> list[str]:
    done = subprocess.run(
        [sys.executable, str(CASE)], env=environment() | temporary(), capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def temporary() -> dict[str, str]:
    return {"TEMP_DIR": tempfile.mkdtemp(prefix="torch-distributed-test-"), "INIT_METHOD": "file:///nowhere"}


def started(name: str, args: argparse.Namespace, end: float, *, alone: bool = False) -> tuple[str, set[str]]:
    """Its outcome, and the collectives that busbw took in it."""
    if time.monotonic() > end:
        return "left out for want of time", set()
    command = [sys.executable, str(CASE), name]
    environ = environment() | temporary()
    if not alone:
        front = [sys.executable, "-m", "busbw", "with", *(["--nccl", args.nccl] if args.nccl else []), "--"]
        command = [*front, *command]
        environ |= {
            "BUSBW_ENGINE": str(Path(args.build).resolve() / "bin" / "busbw-engine"),
            "BUSBW_GPU_LOG": "2",
            "BUSBW_PREFER": "latency",
            "PYTHONPATH": ":".join(filter(None, (str(ROOT / "python"), os.environ.get("PYTHONPATH", "")))),
        }
    with tempfile.TemporaryFile("w+") as file:
        process = subprocess.Popen(command, env=environ, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(TIME_LIMIT_OF_ONE_S)
        except subprocess.TimeoutExpired:
            code = 124
        finally:
            subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
            process.wait()
        file.seek(0)
        text = file.read()
    if args.out and code not in {0, 77}:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / f"{name}{'.alone' if alone else ''}.txt").write_text(text)
    outcome = {0: "passed", 77: "skipped"}.get(code, "failed")
    return outcome, set(_OURS.findall(text))


if __name__ == "__main__":
    sys.exit(main())
