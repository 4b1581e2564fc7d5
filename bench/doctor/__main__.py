"""Injects faults and lets the doctor find and prove them: python3 bench/doctor (see README.md beside this)."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(REPOSITORY / "python"), str(HERE), str(HERE.parent / "watch")]

from faults import FAULTS, Fault, Injected, Site, base_environment  # noqa: E402
from judging import NO_SETTING, Outcome, as_json, judge, line, passed, summary  # noqa: E402
from one_gpu import mps, staged  # noqa: E402

from busbw.base.errors import UserError  # noqa: E402
from busbw.base.programs import ask  # noqa: E402
from busbw.launch.engine import find_engine  # noqa: E402

ANSWERS = "answers.jsonl"
"""What the doctor answered, a line per fault."""

PROOF_S = 10.0
"""With less, a fault is looked for but its cost is not measured."""

FINDING_S = 6.5
"""What looking alone takes, with the wait before it: kept back for each fault still to come."""

MOST_S = 60.0
"""No fault takes more, however much is left."""

GRACE_S = 20.0
"""Beyond the time for its experiment: the doctor looks at the machine and ends the trial in flight."""


def main() -> int:
    """Every fault in turn; partial results stand whatever happens."""
    args = arguments()
    out = args.out or Path(os.environ.get("OUT") or REPOSITORY / "bench" / "out" / "doctor")
    out.mkdir(parents=True, exist_ok=True)
    (out / ANSWERS).unlink(missing_ok=True)
    site = site_of(args, out)
    with mps(site.shared) as given:
        return all_faults(replace(site, environment={**site.environment, **given}), args, out)


def all_faults(site: Site, args: argparse.Namespace, out: Path) -> int:
    """The machine as it is, then each fault; 0 where everything was found and proved."""
    deadline = time.monotonic() + args.budget
    names = args.only.split(",") if args.only else []
    chosen = [each for each in FAULTS if each.name in names or (not names and not (site.shared and each.between_gpus))]
    outcomes = [healthy(site, deadline)]
    report(outcomes, out)
    for position, fault in enumerate(chosen):
        outcomes.append(one(site, fault, share(deadline - time.monotonic(), len(chosen) - position)))
        report(outcomes, out)
    if (site.folder / ANSWERS).exists():
        shutil.copy(site.folder / ANSWERS, out / ANSWERS)
    print(f"\n{summary(outcomes)}; {args.budget - (deadline - time.monotonic()):.0f} s of {args.budget:g} s")
    return 0 if passed(outcomes) else 1


def share(left_s: float, faults: int) -> float:
    """Seconds for the next of so many faults: half more than an equal share, as most need less, but never all."""
    free = left_s - FINDING_S * (faults - 1)
    return max(FINDING_S, min(free, 1.5 * left_s / faults, MOST_S))


def site_of(args: argparse.Namespace, out: Path) -> Site:
    """The machine, and a scratch folder: experiments have too many files for a folder of results."""
    here = count_gpus()
    if args.shared:
        return shared_site(args, here)
    gpus = args.gpus or here
    if not 2 <= gpus <= max(here, 2):
        raise UserError(f"{gpus} of {here} GPUs: the faults are between GPUs, so at least two are needed")
    few = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(gpus)))} if gpus < here else {}
    words = ("--library", args.library) if args.library else ()
    graph = args.graph.absolute() if args.graph else None
    scratch = Path(tempfile.mkdtemp(prefix="busbw-doctor-"))
    return Site(gpus, scratch, find_engine(), graph, words, few, args.settle)


def shared_site(args: argparse.Namespace, here: int) -> Site:
    """One GPU for all ranks, whose engine gives each rank an NCCL_HOSTID of its own."""
    if args.shared < 2 or here < 1:
        raise UserError(f"--shared {args.shared} with {here} GPUs: it wants two ranks or more and a GPU")
    scratch = Path(tempfile.mkdtemp(prefix="busbw-doctor-"))
    engine = staged(find_engine().resolve().parents[1], scratch) / "bin" / "busbw-engine"
    os.environ["BUSBW_ENGINE"] = str(engine)
    words = ("--library", args.library) if args.library else ()
    given = {"CUDA_VISIBLE_DEVICES": "0", "NCCL_SOCKET_IFNAME": "lo"}
    return Site(args.shared, scratch, engine, None, words, given, args.settle, shared=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 bench/doctor", description=__doc__)
    parser.add_argument("--budget", type=float, default=150.0, metavar="S", help="seconds for everything (default 150)")
    parser.add_argument("--gpus", type=int, metavar="N", help="how many GPUs (default: as nvidia-smi lists)")
    parser.add_argument("--shared", type=int, default=0, metavar="N",
                        help="N ranks on one GPU under CUDA's MPS, each a host of its own for NCCL")  # fmt: skip
    parser.add_argument("--only", metavar="A,B", help=f"of {', '.join(each.name for each in FAULTS)}")
    parser.add_argument("--graph", type=Path, metavar="FILE", help="graph file to configure instead of our own")
    parser.add_argument("--library", metavar="PATH", help="NCCL to measure with, as the engine's --library")
    parser.add_argument("--settle", type=float, default=1.5, metavar="S", help="wait between faults (default 1.5)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results are kept")
    return parser.parse_args()


def count_gpus() -> int:
    """GPUs that nvidia-smi lists; 0 without it."""
    return sum(text.startswith("GPU ") for text in ask(["nvidia-smi", "-L"], 60.0).stdout.splitlines())


def healthy(site: Site, deadline: float) -> Outcome:
    """The machine as it is: whatever is above a note is a false alarm."""
    began = time.monotonic()
    answer = ask_doctor(site, Injected(), [], deadline - began)
    if isinstance(answer, str):
        return Outcome("healthy", "", found=False, reason=answer, seconds=time.monotonic() - began)
    return replace(judge("healthy", "", answer), seconds=time.monotonic() - began)


def one(site: Site, fault: Fault, seconds: float) -> Outcome:
    """Inject one fault, ask the doctor, take the fault back."""
    time.sleep(site.settle_s)
    began = time.monotonic()
    try:
        with fault.inject(site) as injected:
            outcome = examine(site, fault, injected, seconds)
    except (RuntimeError, OSError, subprocess.SubprocessError, UserError) as problem:
        outcome = Outcome(fault.name, fault.finding, found=False, reason=str(problem))
    return replace(outcome, seconds=time.monotonic() - began)


def examine(site: Site, fault: Fault, injected: Injected, seconds: float) -> Outcome:
    """What the doctor says of the fault while it is there, and what it costs if there is the time to measure it."""
    began = time.monotonic()
    options: list[str] = []
    if fault.by_setting and seconds >= PROOF_S:
        options = ["--prove", "--ranks", str(site.gpus), "--budget", f"{seconds:.0f}s", *site.words]
        options += ["--runs", str(site.folder / fault.name)]
    answer = ask_doctor(site, injected, options, seconds)
    if isinstance(answer, str):
        return Outcome(fault.name, fault.finding, found=False, reason=answer)
    outcome = judge(fault.name, fault.finding, answer, fault.also)
    left = seconds - (time.monotonic() - began)
    if injected.other is not None and left >= PROOF_S:
        from sharing import measure

        return measure(site, injected.other, outcome, left)
    if not fault.by_setting and injected.other is None:
        return replace(outcome, reason=NO_SETTING)
    return outcome if options else replace(outcome, reason="no time was left to measure what it costs")


def ask_doctor(site: Site, injected: Injected, options: list[str], seconds: float) -> dict[str, Any] | str:
    """What `busbw doctor --json` answers, or a sentence why it did not."""
    argv = [*injected.under, sys.executable, "-m", "busbw", "doctor", "--json", *options]
    environment = {**base_environment(os.environ), **site.environment, **injected.environment}
    environment["BUSBW_ENGINE"] = str(site.engine)
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(REPOSITORY / "python"), os.environ.get("PYTHONPATH")))
    )
    bind = (lambda: os.sched_setaffinity(0, injected.cpus)) if injected.cpus else None
    process = subprocess.Popen(
        argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=bind,  # noqa: PLW1509
    )  # fmt: skip
    try:
        printed, _ = process.communicate(timeout=seconds + GRACE_S)
    except subprocess.TimeoutExpired:
        # Interrupted, it ends its trial and says what it knows.
        process.send_signal(signal.SIGINT)
        try:
            printed, _ = process.communicate(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return f"the doctor did not answer within {seconds + 2 * GRACE_S:.0f} s"
    try:
        answer: dict[str, Any] = json.loads(printed)
    except ValueError:
        return f"the doctor ended with {process.returncode} and said {printed[-200:].decode(errors='replace')!r}"
    with (site.folder / ANSWERS).open("a") as stream:
        stream.write(json.dumps(answer) + "\n")
    return answer


def report(outcomes: list[Outcome], out: Path) -> None:
    """Print the newest outcome and keep all."""
    print(line(outcomes[-1]), flush=True)
    (out / "doctor.json").write_text(json.dumps(as_json(outcomes), indent=1) + "\n")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as problem:
        print(f"bench/doctor: {problem}", file=sys.stderr)
        sys.exit(2)
