"""A job of PyTorch with one fault, as users write them: see torch_faults.py beside it.

    torch_job.py JOB FOLDER --ranks 3 [--nccl PATH]

Starts its own ranks and waits for all of them. Without --nccl they use PyTorch's NCCL backend on GPUs, of which several
ranks may share one; with it host memory, over a library of NCCL's API there. Imports nothing of busbw.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from torch_jobs import JOBS
from torch_rank import Rank

PATIENCE = timedelta(seconds=120)


def one_rank(args: argparse.Namespace, me: int) -> None:
    """Joins the others and does what was asked."""
    import torch
    from torch import distributed

    if args.nccl:
        from nccl_group import register

        device, backend = torch.device("cpu"), register(args.nccl)
        torch.set_num_threads(1)
    else:
        if torch.cuda.device_count() < args.ranks:
            os.environ.setdefault("NCCL_HOSTID", f"host{me}")
        device, backend = torch.device("cuda", me % torch.cuda.device_count()), "nccl"
        torch.cuda.set_device(device)
    folder = Path(args.folder)
    distributed.init_process_group(
        backend, f"file://{folder}/meeting", rank=me, world_size=args.ranks, timeout=PATIENCE
    )
    JOBS[args.job](Rank(me, args.ranks, device, folder, args.pause))
    distributed.destroy_process_group()


def main() -> int:
    """Start the ranks and wait for all of them, as srun does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--nccl", help="a library of NCCL's API for host memory; default PyTorch's NCCL on GPUs")
    parser.add_argument("--pause", type=float, default=2.0, help="seconds that a healthy rank may take")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank is not None:
        one_rank(args, args.rank)
        return 0
    words = [sys.executable, __file__, *sys.argv[1:], "--rank"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ranks = [
        subprocess.Popen([*words, str(me)], env={**os.environ, "RANK": str(me)}, stdin=subprocess.DEVNULL)
        for me in range(args.ranks)
    ]
    try:
        return max(abs(each.wait()) for each in ranks)
    finally:
        for each in ranks:
            each.kill()
            each.wait()


if __name__ == "__main__":
    sys.exit(main())
