"""Features of PyTorch over NCCL alone and with busbw in front: results have to agree, with right answers where known.

    python3 library/tests/gpu/programs/with/torch_features --build build [--jobs 4] [--share] [--out DIR] [CASE ...]

Each case is a job of two or four ranks. `--share`: ranks share GPUs, each as a host of its own for NCCL (MPS should
run). Without GPUs, gloo runs the cases alone, so that mistakes in them show. Exit code: 0 where each case that passes
with NCCL alone passes with busbw too and agrees, 1 where one does not, 2 where none ran.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[5]
TIME_LIMIT_S = 120
_OURS = re.compile(r"^busbw: rank \d+: (\w+) by (?!nccl)", re.M)


def main() -> int:
    if len(sys.argv) == 4 and sys.argv[1] == "--rank-of":
        return rank_of(sys.argv[2], Path(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="folder of the build, with lib/libbusbw_gpu.so in it")
    parser.add_argument("--nccl", help="the NCCL that stands behind; else the one that PyTorch opens")
    parser.add_argument("--jobs", type=int, default=2, help="cases side by side")
    parser.add_argument("--share", action="store_true", help="ranks share GPUs, at most 8 at once")
    parser.add_argument("--out", type=Path, help="a folder for what failed cases print")
    parser.add_argument("cases", nargs="*", help="some of them; else all")
    args = parser.parse_args()
    from cases import CASES

    if unknown := set(args.cases) - set(CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    args.most_ranks = max(CASES[name].ranks for name in args.cases or CASES)
    if args.share and args.jobs * args.most_ranks > 8:
        parser.error("no more than 8 ranks may share a GPU; --jobs takes fewer cases at once")
    with ThreadPoolExecutor(args.jobs) as pool:
        outcomes = list(pool.map(lambda name: tried(name, args), args.cases or CASES))
    tally = Counter(outcome.split(":")[0] for outcome in outcomes)
    print(", ".join(f"{count} {outcome}" for outcome, count in tally.items()))
    good = tally["same bits"] + tally["close"] + tally["right alone"]
    return 1 if tally["FAILED"] else 0 if good else 2


def rank_of(name: str, folder: Path) -> int:
    """One rank of a case: its results go into a file."""
    from cases import CASES
    from job import join

    join()
    result = [each.detach().cpu() for each in CASES[name].run()]
    torch.save(result, folder / f"{os.environ['RANK']}.pt")
    import torch.distributed as dist

    dist.destroy_process_group()
    return 0


def tried(name: str, args: argparse.Namespace) -> str:
    """Both runs of a case, and one line of it."""
    from cases import CASES
    from job import GPU

    ranks, tolerance, needs = CASES[name].ranks, CASES[name].tolerance, CASES[name].needs
    if find_spec(needs) is None:
        outcome = f"left out: {needs} is not installed"
    elif GPU and not args.share and torch.cuda.device_count() < ranks:
        outcome = f"left out: {ranks} GPUs are needed"
    else:
        alone, _ = run(name, ranks, args, front=False)
        if isinstance(alone, str):
            outcome = f"fails alone: {alone}"
        elif not GPU:
            outcome = "right alone"
        else:
            ours, taken = run(name, ranks, args, front=True)
            outcome = f"FAILED: {ours}" if isinstance(ours, str) else compared(alone, ours, tolerance)
            outcome += f"; busbw took {', '.join(f'{word} {count}' for word, count in taken.items()) or 'nothing'}"
    print(f"{name:<36} {outcome}", flush=True)
    return outcome.split(";")[0]


def compared(alone: list[torch.Tensor], ours: list[torch.Tensor], tolerance: float) -> str:
    if len(alone) != len(ours):
        return f"FAILED: {len(ours)} results in place of {len(alone)}"
    if all(torch.equal(one, other) for one, other in zip(alone, ours, strict=True)):
        return "same bits"
    apart = max(
        float((one.double() - other.double()).norm() / one.double().norm().clamp_min(1e-30))
        for one, other in zip(alone, ours, strict=True)
    )
    return f"close: {apart:.1e} apart" if apart <= tolerance else f"FAILED: {apart:.1e} apart, {tolerance} is allowed"


def run(
    name: str, ranks: int, args: argparse.Namespace, *, front: bool
) -> tuple[list[torch.Tensor] | str, Counter[str]]:
    """What all ranks returned, or why not; and the collectives that busbw took."""
    with tempfile.TemporaryDirectory(prefix="torch-feature-") as made:
        folder = Path(made)
        command = [sys.executable, str(HERE), "--rank-of", name, made]
        if front:
            words = ["with", *(["--nccl", args.nccl] if args.nccl else []), "--"]
            command = [sys.executable, "-m", "busbw", *words, *command]
        common = environment(args, ranks, front)
        processes = []
        for rank in range(ranks):
            with (folder / f"{rank}.txt").open("w") as file:
                environ = common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                environ |= {"NCCL_HOSTID": f"{name}{rank}"} if args.share else {}
                processes.append(
                    subprocess.Popen(command, env=environ, stdout=file, stderr=file, start_new_session=True)
                )
        why = waited(processes)
        texts = [(folder / f"{rank}.txt").read_text(errors="replace") for rank in range(ranks)]
        taken = Counter(word for text in texts for word in _OURS.findall(text))
        if args.out and (why or (front and not taken)):
            args.out.mkdir(parents=True, exist_ok=True)
            kept = args.out / f"{name}.{'busbw' if front else 'alone'}.txt"
            kept.write_text("\n".join(f"--- rank {rank}\n{text[-20000:]}" for rank, text in enumerate(texts)))
        if why:
            return why, taken
        return [each for rank in range(ranks) for each in torch.load(folder / f"{rank}.pt")], taken


def environment(args: argparse.Namespace, ranks: int, front: bool) -> dict[str, str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    made = {
        "NCCL_NVLS_ENABLE": "0",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
        **os.environ,
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    if args.share:
        made |= {"BUSBW_GPU_SHARED": str(args.jobs * args.most_ranks), "NCCL_SOCKET_IFNAME": "lo"}
    if front:
        made |= {
            "BUSBW_ENGINE": str(Path(args.build).resolve() / "bin" / "busbw-engine"),
            "BUSBW_GPU_LOG": "2",
            "BUSBW_PREFER": made.get("BUSBW_PREFER", "latency"),
            "PYTHONPATH": ":".join(filter(None, (str(ROOT / "python"), os.environ.get("PYTHONPATH", "")))),
        }
    return made


def waited(processes: list[subprocess.Popen[bytes]]) -> str:
    """Why the job failed, or nothing. All its processes are gone."""
    end = time.monotonic() + TIME_LIMIT_S
    while time.monotonic() < end and any(process.poll() is None for process in processes):
        if any(process.returncode for process in processes):
            end = min(end, time.monotonic() + 5)
        time.sleep(0.05)
    late = [rank for rank, process in enumerate(processes) if process.poll() is None]
    for process in processes:
        subprocess.run(["pkill", "-KILL", "-s", str(process.pid)], check=False)
        process.wait()
    codes = [process.returncode for process in processes]
    failed = [rank for rank, code in enumerate(codes) if code and rank not in late]
    if failed:
        return f"exit codes {codes}"
    return f"ranks {late} had not ended" if late else ""


if __name__ == "__main__":
    sys.exit(main())
