"""A training job of PyTorch's DDP that starts its own ranks: steps with work beside the reductions, then calls alone.

    busbw watch --output recordings -- PYTHON-WITH-TORCH bench/watch/train.py --ranks 2 --steps 100
    BUSBW_RECORD_TIMES=all busbw watch --output recordings -- PYTHON-WITH-TORCH bench/watch/train.py

After the steps come all-reduces, all-gathers and reduce-scatters of some sizes with a pause before each, and nothing
beside them. Rank 0 prints one line of JSON: the median step and the median of each call, in microseconds, with
PyTorch's and NCCL's versions. With --slow SECONDS rank 1 sleeps so long before every step in the second half; with
--spin its GPU gets a kernel that does not end before the first of these.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from statistics import median

SIZES = (1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 27)
PAUSE_S = 0.002
PATIENCE = timedelta(seconds=120)


def rank(args: argparse.Namespace) -> None:
    """One rank of the job."""
    import torch
    from torch import distributed, nn

    me = int(os.environ["RANK"])
    on_gpus = args.backend == "nccl"
    device = torch.device("cuda", me % torch.cuda.device_count()) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    distributed.init_process_group(
        args.backend, f"file://{args.folder}/meeting", rank=me, world_size=args.ranks, timeout=PATIENCE
    )

    def finish() -> None:
        if on_gpus:
            torch.cuda.synchronize()

    layers = [nn.Sequential(nn.Linear(args.width, args.width), nn.ReLU()) for _ in range(args.layers)]
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(*layers).to(device), device_ids=[device.index] if on_gpus else None, gradient_as_bucket_view=True
    )
    data = torch.randn(args.rows, args.width, device=device)
    steps = []
    for step in range(args.steps):
        if me == 1 and 2 * step >= args.steps:
            time.sleep(args.slow)
            if args.spin and 2 * step < args.steps + 2:
                torch.cuda._sleep(1 << 62)
        finish()
        begun = time.perf_counter()
        model(data).sum().backward()
        finish()
        steps.append((time.perf_counter() - begun) * 1e6)
    calls: dict[str, float] = {}
    for size in (each for each in SIZES if each <= args.largest):
        whole = torch.ones(size // 4, device=device)
        part = torch.ones(size // 4 // args.ranks, device=device)
        for name, call in {
            "all_reduce": lambda whole=whole, _part=part: distributed.all_reduce(whole),
            "all_gather": lambda whole=whole, part=part: distributed.all_gather_into_tensor(whole, part),
            "reduce_scatter": lambda whole=whole, part=part: distributed.reduce_scatter_tensor(part, whole),
        }.items():
            if not on_gpus and name != "all_reduce":
                continue
            took = []
            for _ in range(args.calls):
                time.sleep(PAUSE_S)
                finish()
                begun = time.perf_counter()
                call()
                finish()
                took.append((time.perf_counter() - begun) * 1e6)
            calls[f"{name} {size}"] = round(median(took), 1)
    if me == 0:
        nccl = ".".join(map(str, torch.cuda.nccl.version())) if on_gpus else None
        print(json.dumps({"step_us": round(median(steps[len(steps) // 4 :]), 1), "calls_us": calls,
                          "torch": torch.__version__, "nccl": nccl}), flush=True)  # fmt: skip
    distributed.destroy_process_group()


def main() -> int:
    """Start the ranks and wait; where one fails the others are ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--calls", type=int, default=40, help="of each collective and size, after the steps")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--largest", type=int, default=SIZES[-1], metavar="BYTES", help="of the calls after the steps")
    parser.add_argument("--slow", type=float, default=0.0, metavar="SECONDS", help="of rank 1, in the second half")
    parser.add_argument("--spin", action="store_true", help="a kernel of rank 1 that does not end")
    parser.add_argument("--seconds", type=float, default=120.0, help="the job is ended then")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        rank(args)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, *sys.argv[1:], "--folder", folder]
        ranks = [subprocess.Popen(words, env={**os.environ, "RANK": str(number)}) for number in range(args.ranks)]
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        end = time.monotonic() + args.seconds
        try:
            while any(each.poll() is None for each in ranks) and time.monotonic() < end:
                if any(each.returncode for each in ranks):
                    break
                time.sleep(0.05)
            codes = [each.poll() for each in ranks]
            return max(124 if code is None else abs(code) for code in codes)
        finally:
            for each in ranks:
                each.kill()
                each.wait()


if __name__ == "__main__":
    sys.exit(main())
