"""Runs real programs on one GPU, healthy and with faults, and counts what `busbw doctor` says of their output.

    python3 bench/doctor/programs.py --output logs [--only NAME,NAME] [--jobs 8] [--logs-only]
    python3 bench/doctor/programs.py --output logs --score-only

The programs are PyTorch under plain processes, torchrun and mpirun, and JAX; what they print goes to NAME.txt of the
output's folder, as a user would post it. Two ranks share the GPU, each a host of its own for NCCL
(NCCL_HOSTID), which then goes through sockets. Of a faulty run the first finding above a note must be one of those that
the table names; of a healthy one nothing may be found but that NCCL uses sockets. Exit code 1: one was missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "python"), str(HERE.parent)]

from on_gpus import MULTICAST_OFF  # noqa: E402

from busbw.base.programs import ask, with_this_package  # noqa: E402

LIMIT_S = 45.0
RANKS = 2
SOCKETS = frozenset({"network-interface", "slow-transport"})
"""True of these runs, where each rank is a host of its own."""
INFO, WARN = {"NCCL_DEBUG": "INFO"}, {"NCCL_DEBUG": "WARN"}
DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}


@dataclass(frozen=True)
class Program:
    """A run: its fault, its start, its variables, and the findings that name its cause (none: it is healthy)."""

    name: str
    causes: tuple[str, ...] = ()
    fault: str = "none"
    start: str = "plain"
    environment: dict[str, str] = field(default_factory=dict)
    options: str = ""
    before: str = ""
    """What a shell does in each rank before the program starts."""


PROGRAMS = (
    Program("healthy"),
    Program("healthy-info", environment=INFO),
    Program("healthy-all", environment={**INFO, "NCCL_DEBUG_SUBSYS": "ALL"}),
    Program("healthy-version", environment={"NCCL_DEBUG": "VERSION"}),
    Program("healthy-detail", environment=DETAIL),
    Program("healthy-chatty", environment={"TORCH_CPP_LOG_LEVEL": "INFO", **DETAIL}),
    Program("healthy-torch-logs", environment={"TORCH_LOGS": "+distributed,+c10d"}),
    Program("healthy-warnings", environment={"PYTHONWARNINGS": "always", "PYTHONDEVMODE": "1"}),
    Program("healthy-blocking", environment={"CUDA_LAUNCH_BLOCKING": "1", "TORCH_SHOW_CPP_STACKTRACES": "1"}),
    Program("healthy-torchrun", start="torchrun", environment={"LOGLEVEL": "DEBUG"}),
    Program("healthy-mpirun", start="mpirun"),
    Program("healthy-jax", start="jax"),
    Program("healthy-jax-chatty", start="jax", environment={"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_MAX_VLOG_LEVEL": "1"}),
    Program("duplicate-gpu", ("duplicate-gpu",), options="--same-host"),
    Program("duplicate-gpu-torchrun", ("duplicate-gpu",), start="torchrun", options="--same-host", environment=WARN),
    Program("late", ("watchdog-timeout",), "late"),
    Program("late-info", ("watchdog-timeout",), "late", environment=INFO),
    Program("value", ("python-exception",), "value"),
    Program("value-torchrun", ("python-exception",), "value", "torchrun"),
    Program("value-mpirun", ("python-exception",), "value", "mpirun"),
    Program("file", ("python-exception",), "file", "torchrun"),
    Program("disk", ("disk-full",), "disk"),
    Program("stale", ("file-system",), "stale", "torchrun"),
    Program("memory", ("gpu-memory-full",), "memory"),
    Program("memory-torchrun", ("gpu-memory-full",), "memory", "torchrun"),
    Program("index", ("illegal-access",), "index"),
    Program("no-number", ("not-a-number",), "no-number", "torchrun"),
    Program("kill-torchrun", ("host-memory", "process-killed"), "kill", "torchrun"),
    # mpirun names one rank alone, which may be the one that aborts since the other is gone.
    Program("kill-mpirun", ("host-memory", "process-killed", "remote-error", "watchdog-timeout"), "kill", "mpirun"),
    Program("segv-torchrun", ("process-crashed",), "segv", "torchrun"),
    Program("segv-mpirun", ("process-crashed",), "segv", "mpirun"),
    Program("abort-torchrun", ("process-crashed",), "abort", "torchrun"),
    Program("term-torchrun", ("rank-ended",), "term", "torchrun"),
    Program("leaves-torchrun", ("rank-ended",), "leaves", "torchrun"),
    Program("other-call", ("collective-mismatch",), "other-call", environment=DETAIL),
    Program("other-call-plain", ("message-truncated", "collective-order", "watchdog-timeout"), "other-call"),
    Program("one-more", ("message-truncated", "collective-order", "watchdog-timeout"), "one-more"),
    Program("on-host", ("invalid-argument",), "on-host"),
    Program("no-interface", ("no-interface",), environment={"NCCL_SOCKET_IFNAME": "ib9"}),
    Program("ib-alone", ("network-not-found",), environment={"NCCL_NET": "IB", **WARN}),
    Program("graph-file", ("vm-topology",), environment={"NCCL_GRAPH_FILE": "/nowhere/graph.xml"}),
    Program("algorithm", ("ignored-setting",), environment={"NCCL_ALGO": "Star", **WARN}),
    Program("no-gpu", ("gpu-not-visible",), environment={"CUDA_VISIBLE_DEVICES": ""}),
    Program("bad-address", ("dns",), environment={"MASTER_ADDR": "node-17.nowhere.invalid"}),
    Program("small-files", ("file-size-limit",), before="ulimit -f 2", environment=WARN),
    Program("jax-absent", ("rendezvous-timeout", "heartbeat-lost"), "absent", "jax"),
    Program("jax-gone", ("heartbeat-lost",), "gone", "jax"),
    Program("jax-raises", ("python-exception",), "raises", "jax"),
    Program("jax-memory", ("gpu-memory-full",), "memory", "jax"),
)


def commands(program: Program, port: int) -> list[list[str]]:
    """What is started at once for the run: a process for each rank, or one launcher."""
    script = HERE / ("program_jax.py" if program.start == "jax" else "program_rank.py")
    mine = [sys.executable, str(script), "--fault", program.fault, *shlex.split(program.options)]
    if program.start == "torchrun":
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
        return [[*launcher, "--master-port", str(port), *mine[1:]]]
    if program.start == "mpirun":
        return [["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(RANKS), *mine]]
    whole = f"{program.before}; exec {shlex.join(mine)}" if program.before else f"exec {shlex.join(mine)}"
    return [["bash", "-c", whole] for _ in range(RANKS)]


def run(program: Program, port: int, folder: Path) -> None:
    """Run it, at most for its time, with all output in one file."""
    placed = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **MULTICAST_OFF}
    with (folder / f"{program.name}.txt").open("wb") as out:
        started = []
        many = commands(program, port)
        for rank, command in enumerate(many):
            own = {"RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": "0"} if len(many) > 1 else {}
            environment = {**os.environ, **placed, **own, **program.environment}
            limited = ["timeout", "-k", "3", str(LIMIT_S), *command]
            started.append(
                subprocess.Popen(limited, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environment, cwd="/")
            )
        for each in started:
            each.wait()


def verdict(program: Program, folder: Path) -> str:
    """What was missed or wrong of what the doctor says; "" where it is right."""
    log = folder / f"{program.name}.txt"
    command = [sys.executable, "-m", "busbw", "doctor", "--json", str(log)]
    answer = ask(command, 60, environment=with_this_package(os.environ))
    loud = [each for each in json.loads(answer.stdout)["findings"] if each["severity"] != "note"]
    names = [each["name"] for each in loud]
    if not program.causes:
        wrong = [each for each in names if each not in SOCKETS]
        return f"false alarm: {', '.join(wrong)}" if wrong else ""
    first = next((each for each in names if each not in SOCKETS), "nothing")
    return "" if first in program.causes else f"{first} stands first, not {' or '.join(program.causes)}"


def main() -> int:
    """Run all, then ask the doctor about each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="the folder for logs")
    parser.add_argument("--only", default="", help="names, with commas")
    parser.add_argument("--jobs", type=int, default=8, help="runs at once")
    parser.add_argument("--logs-only", action="store_true", help="do not ask the doctor")
    parser.add_argument("--score-only", action="store_true", help="the logs are there already")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    names = set(filter(None, args.only.split(",")))
    chosen = [each for each in PROGRAMS if not names or each.name in names]
    if not args.score_only:
        first = 10000 + (os.getpid() * 64) % 20000
        with ThreadPoolExecutor(args.jobs) as pool:
            began = time.monotonic()
            list(pool.map(lambda each: run(each[1], first + 8 * each[0], args.output), enumerate(chosen)))
            print(f"{len(chosen)} runs in {time.monotonic() - began:.0f} s")
    if args.logs_only:
        return 0
    told = [(each, verdict(each, args.output)) for each in chosen]
    for each, wrong in told:
        print(f"{each.name:26} {wrong or 'right'}")
    for what, kind in (("healthy", False), ("faulty", True)):
        mine = [wrong for each, wrong in told if bool(each.causes) is kind]
        print(f"{what}: {mine.count('')} of {len(mine)} right")
    return 1 if any(wrong for _, wrong in told) else 0


if __name__ == "__main__":
    sys.exit(main())
