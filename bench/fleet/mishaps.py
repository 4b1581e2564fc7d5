"""One fleet in which all goes wrong: a node hangs, one dies, one does not start, one is slow; busbw is killed as well.

    python3 bench/fleet/mishaps.py                      mpirun
    python3 bench/fleet/mishaps.py --launcher srun      steps of an allocation; a slurmd in each namespace

`busbw fleet run` measures eight namespaces. Its process is killed by SIGKILL once some groups are measured, and the
same command is started again. It prints what was named and what is not as it should be. Exit code 77: not here.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from namespaces import MPIRUN, Namespaces, missing  # noqa: E402
from slurm import PROGRAMS, Slurm  # noqa: E402

SKIPPED = 77
NODES = 8
HANGS, DIES, ABSENT, SLOW = "n2", "n3", "n4", "n5"
LOSS = 0.3
MBIT, SAMPLE_S = 10.0, 0.4
RESULTS_BEFORE_KILL = 3
FLEET_LIMIT_S = 1500


def main() -> int:
    """Everything once."""
    args = arguments()
    srun = args.launcher == "srun"
    if reason := missing((MPIRUN, *(PROGRAMS if srun else ()))):
        print(f"skipped: {reason}")
        return SKIPPED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fabric = stack.enter_context(Namespaces(NODES, 0, MBIT))
        fabric.shape(SLOW, LOSS)
        environment = {**os.environ, **fabric.mpi_environment(), "FLEET_HANGS": HANGS, "FLEET_DIES": DIES,
                       "BUSBW_FLEET_SIZE": str(round(MBIT * 1e6 / 8 * SAMPLE_S)),
                       "PYTHONPATH": str(HERE.parents[1] / "python")}  # fmt: skip
        words = fleet_words(folder / "results.jsonl", args)
        if srun:
            slurm = stack.enter_context(Slurm(fabric))
            environment["SLURM_CONF"] = slurm.environment["SLURM_CONF"]
            environment["SLURM_JOB_ID"] = allocation(slurm, environment)
            # Slurm notices after some seconds; until then steps are sent to nobody.
            slurm.kill_node(ABSENT)
            words = slurm.on_head(words)
        else:
            fabric.lose(ABSENT)
            words = fabric.on_head(words)
        begun = time.monotonic()
        kept = killed(words, environment, folder / "results.jsonl")
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=FLEET_LIMIT_S, check=False
        )
        seconds = time.monotonic() - begun
        return tell(done, kept, (folder / "results.jsonl").read_text(), seconds)


def allocation(slurm: Slurm, environment: dict[str, str]) -> str:
    """The number of a job over all nodes that goes on where a node is lost."""
    words = slurm.on_head(["salloc", "--no-shell", "--no-kill", f"--nodes={NODES}"])
    said = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=True).stderr
    found = re.search(r"Granted job allocation (\d+)", said)
    if not found:
        sys.exit(f"no allocation was granted: {said[-300:]}")
    return found[1]


def killed(words: list[str], environment: dict[str, str], file: Path) -> str:
    """What stands in the file of results when the coordinator is killed."""
    first = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + FLEET_LIMIT_S
    while not file.exists() or file.read_text().count("\n") <= RESULTS_BEFORE_KILL:
        if first.poll() is not None or time.monotonic() > end:
            sys.exit(f"busbw ended with {first.returncode} before it could be killed")
        time.sleep(0.05)
    for pid in coordinators(file):
        os.kill(pid, signal.SIGKILL)
    first.wait(60)
    return file.read_text()


def coordinators(file: Path) -> list[int]:
    """Processes of `busbw fleet run` with this file."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                words = (each / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"fleet" in words and str(file).encode() in words and words[0].endswith(b"python3"):
                found.append(int(each.name))
    return found


def fleet_words(file: Path, args: argparse.Namespace) -> list[str]:
    """The command line of an operator."""
    how = ["--launcher", "mpirun", "--launcher-program", MPIRUN]
    if args.launcher == "srun":
        how = ["--launcher", "srun", "--launcher-arg=--mpi=pmix"]
    return ["python3", "-m", "busbw", "fleet", "run", str(file), "--hosts", f"n[1-{NODES}]", "--rails", "1", "--inside",
            "none", *how, "--program", str(HERE / "mishap_rank.py"), "--smallest-loss", "10", "--repeats", "4",
            "--trial-limit", str(args.trial_limit), "--json"]  # fmt: skip


def tell(done: subprocess.CompletedProcess[str], kept: str, text: str, seconds: float) -> int:
    """What was named; 1 where anything is not as it should be."""
    if done.returncode != 1 or not done.stdout:
        print(f"busbw ended with {done.returncode}: {done.stderr.strip()[-600:]}")
        return 1
    said = json.loads(done.stdout)
    wrong = []
    found = {each["place"]: each for each in said["faults"]}
    for each in said["faults"]:
        print(f"{each['name']}: loss {each['loss']:.3f}{', ' if each['reason'] else ''}{each['reason']}")
    for node in (HANGS, DIES, ABSENT):
        if node not in found or found[node]["loss"] < 1:
            wrong.append(f"{node} does not work, and is not named")
    if SLOW not in found or abs(found[SLOW]["loss"] - LOSS) > 0.1:
        wrong.append(f"{SLOW} is slow by {LOSS:.0%}, and is not named so")
    wrong += [f"{place} is named, and has no fault" for place in set(found) - {HANGS, DIES, ABSENT, SLOW}]
    if not text.startswith(kept[: kept.rindex("\n") + 1]):
        wrong.append("results from before the kill are lost")
    print(f"{len(text.splitlines()) - 1} results in {said['rounds']} rounds, {seconds:.0f} s; "
          f"{len(kept.splitlines()) - 1} of them from before the kill")  # fmt: skip
    print("\n".join(f"wrong: {each}" for each in wrong) or "all four are named, nobody else is, and no result was lost")
    return 1 if wrong else 0


def arguments() -> argparse.Namespace:
    """The words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launcher", choices=["mpirun", "srun"], default="mpirun")
    parser.add_argument("--trial-limit", type=float, default=40.0, help="seconds after which a group hangs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
