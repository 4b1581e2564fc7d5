"""Makes several nodes of one machine for NCCL, by NCCL_HOSTID, and measures and watches over its network.

    python3 bench/fleet/nccl_hosts.py --build build --library libnccl.so.2 --ranks 2 [--interface lo]

Each rank has an NCCL_HOSTID of its own. First `all_reduce_perf` under mpirun: NCCL's log must tell as many nodes as
ranks and its socket transport. Then a watcher for each rank, with a shared folder: rank 1 is stopped, and the watchers
of all "hosts" must say so. Exit code: 1 where something is not as it must be.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from busbw.base.programs import with_this_package  # noqa: E402

JOB = ROOT / "python" / "tests" / "watch" / "job.py"
HANG_AFTER_S = 4.0
LIMIT_S = 60.0


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--library", type=Path, required=True, help="an NCCL, or one that works in host memory")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--interface", default="lo", help="NCCL_SOCKET_IFNAME")
    parser.add_argument("--without-gpus", action="store_true", help="the library works in host memory: to try this")
    args = parser.parse_args()
    args.build, args.library = args.build.resolve(), args.library.resolve()
    environ = {
        **with_this_package(os.environ), "NCCL_SOCKET_IFNAME": args.interface, "NCCL_DEBUG": "INFO",
        "BUSBW_ENGINE": str(args.build / "bin" / "busbw-engine"),
    }  # fmt: skip
    wrong = measured(args, environ) + watched(args, environ)
    for each in wrong:
        print(f"wrong: {each}", flush=True)
    return int(bool(wrong))


def measured(args: argparse.Namespace, environ: dict[str, str]) -> list[str]:
    """Each rank a node: what NCCL says of itself, and what it reaches; what is not as it must be."""
    program = args.build / "bin" / "all_reduce_perf"
    wanted = f'NCCL_HOSTID=node$OMPI_COMM_WORLD_RANK exec "{program}" "$@"'
    words = [
        "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(args.ranks),
        "sh", "-c", wanted, "sh", "-b", "1M", "-e", "256M", "-f", "16", "-n", "10", "-c", "1",
        "--library", str(args.library),
    ]  # fmt: skip
    done = subprocess.run(words, env=environ, capture_output=True, text=True, errors="replace",
                          timeout=LIMIT_S, check=False)  # fmt: skip
    text = done.stdout + done.stderr
    for line in text.splitlines():
        if re.match(r"^\s+\d+\s+\d+\s+\w+\s+\w+", line) or "Avg bus" in line:
            print(line)
    nodes = sorted({int(each) for each in re.findall(r"n[Nn]odes[ :=]+(\d+)", text)})
    through = sorted(set(re.findall(r"via (\S+)", text)))
    print(f"all_reduce_perf: exit code {done.returncode}, NCCL says nodes {nodes}, transports {through}", flush=True)
    if done.returncode != 0:
        return [f"all_reduce_perf ended with {done.returncode}: {text[-600:]}"]
    if args.without_gpus:
        return []
    wrong = [] if args.ranks in nodes else [f"NCCL does not say {args.ranks} nodes"]
    return wrong + ([] if any("NET" in each for each in through) else ["NCCL uses no network"])


def watched(args: argparse.Namespace, environ: dict[str, str]) -> list[str]:
    """A watcher for each rank; what they do not say."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        watchers = []
        for rank in range(args.ranks):
            mine = {**environ, "NCCL_HOSTID": f"node{rank}", "FAULTY": "1", "NCCL_DEBUG": "WARN"}
            if not args.without_gpus:
                mine |= {"GPUS": "1", "COUNT": str(1 << 20)}
            job = [JOB, args.library, args.ranks, 30, "stop", folder, rank, rank + 1]
            words = [sys.executable, "-m", "busbw", "watch", "--late", "1000s", "--hang-after", f"{HANG_AFTER_S:g}",
                     "--on-hang", "abort", "--share", str(folder / "share"), "--", sys.executable,
                     *map(str, job)]  # fmt: skip
            watchers.append(subprocess.Popen(words, env=mine, stderr=subprocess.PIPE, text=True, errors="replace"))
        said, end = [], time.monotonic() + LIMIT_S
        for each in watchers:
            try:
                said.append(each.communicate(timeout=max(1.0, end - time.monotonic()))[1])
            except subprocess.TimeoutExpired:
                each.kill()
                said.append(each.communicate()[1])
        happened = (folder / "fault").exists()
    wrong = [] if happened else ["the rank was not stopped"]
    for rank, text in enumerate(said):
        verdict = next((line for line in text.splitlines() if "the process is stopped" in line), "")
        print(f"watcher {rank}: {verdict or text[-300:]}", flush=True)
        if "rank 1 (" not in verdict or "the process is stopped" not in verdict:
            wrong.append(f"watcher {rank} does not say that rank 1 is stopped")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
