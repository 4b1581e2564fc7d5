"""A fleet inside one job whose busbw is lost on a node in mid-run: killed there, or its cable is pulled.

    python3 bench/fleet/lost_ranks.py                            srun starts a busbw on each node; n3's is killed
    python3 bench/fleet/lost_ranks.py --lose cut --node n1       the cable of rank 0's node is pulled
    python3 bench/fleet/lost_ranks.py --launcher mpirun --node n1

Six namespaces, of which n5 has a slow link. Where another node than n1 is lost the fleet must go on and name both.
Where n1 is lost, on which rank 0 runs, the other ranks must have ended within 10 s. Exit code 77: not here.
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
from contextlib import ExitStack, suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from namespaces import MPIRUN, Namespaces, missing  # noqa: E402
from real import SKIPPED, around, rank_program  # noqa: E402
from slurm import PROGRAMS, Slurm  # noqa: E402

NODES, SLOW, LOSS, MBIT, SAMPLE_S = 6, "n5", 0.4, 10.0, 0.3
FLEET_LIMIT_S, PROMISED_S = 300, 10.0


def main() -> int:
    """One fleet."""
    args = arguments()
    if reason := missing((MPIRUN, *(PROGRAMS if args.around == "srun" else ()))):
        print(f"skipped: {reason}")
        return SKIPPED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fabric = stack.enter_context(Namespaces(NODES, 0, MBIT))
        fabric.shape(SLOW, LOSS)
        environment = {**os.environ, **fabric.mpi_environment(), "PYTHONPATH": str(HERE.parents[1] / "python"),
                       "BUSBW_FLEET_SIZE": str(round(MBIT * 1e6 / 8 * SAMPLE_S))}  # fmt: skip
        results = folder / "results.jsonl"
        words = fleet_words(results, rank_program(folder, args))
        if args.around == "srun":
            slurm = stack.enter_context(Slurm(fabric))
            environment["SLURM_CONF"] = slurm.environment["SLURM_CONF"]
            step = ["srun", "--no-kill", "--kill-on-bad-exit=0", "--ntasks-per-node=1", "--mpi=none"]
            words = slurm.on_head(["salloc", "--quiet", "--no-kill", f"--nodes={NODES}", *step, *words])
        else:
            words = fabric.on_head([*around(fabric, environment, args), *words])
        fleet = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        stack.callback(fleet.kill)
        _until_measured(fleet, results)
        if args.lose == "cut":
            fabric.cut(args.node)
        for pid in _ranks(fabric, args.node) if args.lose == "kill" else ():
            os.kill(pid, signal.SIGKILL)
        return _rank_0_is_lost(fabric, folder) if args.node == "n1" else _goes_on(fleet, args.node)


def fleet_words(results: Path, program: Path) -> list[str]:
    """The command line of an operator."""
    return [sys.executable, "-m", "busbw", "fleet", "run", str(results), "--hosts", f"n[1-{NODES}]", "--rails", "1",
            "--inside", "none", "--program", str(program), "--smallest-loss", "10", "--repeats", "4",
            "--trial-limit", "40", "--json", "--no-record"]  # fmt: skip


def _until_measured(fleet: subprocess.Popen[str], results: Path) -> None:
    end = time.monotonic() + FLEET_LIMIT_S
    while not results.exists() or results.read_text().count("\n") < 3:
        if fleet.poll() is not None or time.monotonic() > end:
            sys.exit(f"busbw ended with {fleet.poll()} before anything was lost: {fleet.communicate()[1][-500:]}")
        time.sleep(0.05)


def _ranks(fabric: Namespaces, node: str) -> list[int]:
    """The processes of busbw on a node."""
    found = []
    for pid in fabric.pids(node):
        words = (Path("/proc") / pid / "cmdline").read_bytes().split(b"\0")
        if b"fleet" in words and b"busbw" in words and words[0] == sys.executable.encode():
            found.append(int(pid))
    return found


def _of_fleet(fabric: Namespaces, node: str, folder: Path) -> list[str]:
    """Ranks and what they have started: all of them were given a path in this folder."""
    found = []
    for pid in fabric.pids(node):
        with suppress(OSError):
            if str(folder).encode() in (Path("/proc") / pid / "cmdline").read_bytes():
                found.append(pid)
    return found


def _rank_0_is_lost(fabric: Namespaces, folder: Path) -> int:
    begun = time.monotonic()
    others = [node for node in fabric.nodes if node != "n1"]
    while (
        left := [node for node in others if _of_fleet(fabric, node, folder)]
    ) and time.monotonic() < begun + 2 * PROMISED_S:
        time.sleep(0.1)
    seconds = time.monotonic() - begun
    print(f"{seconds:.1f} s after rank 0 was lost {len(left)} of {len(others)} nodes have processes of the fleet")
    return int(bool(left) or seconds > PROMISED_S)


def _goes_on(fleet: subprocess.Popen[str], lost: str) -> int:
    out, err = fleet.communicate(timeout=FLEET_LIMIT_S)
    if not out.strip():
        print(f"wrong: it ended with {fleet.returncode}: {err[-500:]}")
        return 1
    found = {each["place"]: each for each in json.loads(out)["faults"]}
    for place, each in found.items():
        print(f"{place}: loss {each['loss']:.3f}{', ' if each['reason'] else ''}{each['reason']}")
    right = set(found) == {lost, SLOW} and found[lost]["loss"] == 1 and abs(found[SLOW]["loss"] - LOSS) < 0.05
    print("both are named, and nobody else" if right else f"wrong: {lost} and {SLOW} have faults")
    return 0 if right else 1


def arguments() -> argparse.Namespace:
    """The words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launcher", dest="around", choices=["srun", "mpirun"], default="srun")
    parser.add_argument("--lose", choices=["kill", "cut"], default="kill")
    parser.add_argument("--node", default="n3")
    return parser.parse_args(namespace=argparse.Namespace(launcher="ranks"))


if __name__ == "__main__":
    sys.exit(main())
