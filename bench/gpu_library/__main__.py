"""Proves and measures busbw's own GPU collectives: python3 bench/gpu_library STAGE ... (see README.md beside this)."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
# As a package, so that its modules cannot stand before others of the same name.
sys.path[0] = str(BENCH)

from gpu_library.budget import Deadline, share  # noqa: E402
from gpu_library.machine import REPOSITORY, facts, find  # noqa: E402
from gpu_library.peers import ACCELERATED  # noqa: E402
from gpu_library.program import Log  # noqa: E402
from gpu_library.report import closing_lines, markdown, passed  # noqa: E402
from gpu_library.session import Result, Session, Wanted  # noqa: E402
from gpu_library.sizes import parse_size  # noqa: E402
from gpu_library.stages import beside, build, check, cross, faults, sanitizer, speed, stress, sweep, training  # noqa: E402

STAGES: dict[str, Callable[[Session], list[Result]]] = {
    "build": build.stage,
    "check": check.stage,
    "speed": speed.stage,
    "cross": cross.stage,
    "sweep": sweep.stage,
    "stress": stress.stage,
    "training": training.stage,
    "beside": beside.stage,
    "sanitizer": sanitizer.stage,
    "faults": faults.stage,
}
EXAMPLES = """examples:
  NCCL_TESTS_BIN=~/nccl-tests/build python3 bench/gpu_library build check speed --budget 540
  python3 bench/gpu_library speed --collectives all_reduce --mscclpp libmscclpp_nccl.so
  python3 bench/gpu_library report --results a/results.json b/results.json
  python3 bench/gpu_library speed stress training faults --host --budget 60
"""


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 bench/gpu_library", description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("stages", nargs="+", metavar="STAGE", help=f"of: {' '.join(STAGES)} report all")
    parser.add_argument("--budget", type=float, default=540, metavar="S", help="seconds for everything (540)")
    parser.add_argument("--collectives", default=",".join(ACCELERATED), help="default: the five that are ours")
    parser.add_argument("--sizes", default="1K:4G", metavar="FROM:TO", help="of speed and sweep (1K:4G)")
    parser.add_argument("--rounds", type=int, default=2, help="new processes of every library (2)")
    parser.add_argument("--cycles", type=int, default=3, help="sweeps in one process (3)")
    parser.add_argument("--starts", type=int, default=5, help="of each side of beside, in turn (5)")
    parser.add_argument("--counts", default="", metavar="N,...", help="GPUs of beside (all of them, then 2)")
    parser.add_argument("--beside", default="", metavar="WHAT,...", help=f"of: {','.join(beside.WHAT)}")
    parser.add_argument(
        "--side",
        action="append",
        default=[],
        metavar="NAME:VARIABLE=VALUE;...",
        help="of beside: ours with these settings, as one more side",
    )
    parser.add_argument("--calls", type=int, default=100_000, help="of the stress stage (100000)")
    parser.add_argument("--seed", type=int, default=1, help="of the stress stage (1)")
    parser.add_argument("--per-run-limit", type=float, default=90, metavar="S", help="seconds for one run (90)")
    parser.add_argument("--gpus", type=int, default=0, help="default: all that nvidia-smi lists")
    parser.add_argument("--ours", default="", metavar="FILE", help="default: libbusbw_gpu.so of the build")
    parser.add_argument("--nccl", default="", metavar="FILE", help="default: the wheel of this Python")
    parser.add_argument("--mscclpp", default="", metavar="FILE", help="MSCCL++'s library with the NCCL API")
    parser.add_argument("--build", default=os.environ.get("BUSBW_BUILD", str(REPOSITORY / "build")), metavar="DIR")
    parser.add_argument("--host", action="store_true", help="no GPU: try it all on processors with our CPU library")
    parser.add_argument("--out", default=os.environ.get("OUT", str(BENCH / "out" / "gpu_library")), metavar="DIR")
    parser.add_argument("--results", nargs="*", default=[], metavar="FILE", help="for report: results to merge")
    return parser.parse_args(argv)


def chosen(words: Sequence[str]) -> list[str]:
    """Names of stages in the order asked for. Raises ValueError for a name that is none."""
    unknown = [word for word in words if word not in {*STAGES, "report", "all"}]
    if unknown:
        raise ValueError(f"no stage is called {', '.join(unknown)}; there are {', '.join(STAGES)}, report and all")
    return list(STAGES) if "all" in words else [word for word in words if word != "report"]


def wanted(args: argparse.Namespace) -> Wanted:
    first, _, last = args.sizes.partition(":")
    collectives = tuple(args.collectives.split(","))
    unknown = [each for each in collectives if each not in ACCELERATED]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: none of the collectives {', '.join(ACCELERATED)}")
    return Wanted(
        collectives=collectives,
        smallest=parse_size(first),
        largest=parse_size(last or first),
        rounds=args.rounds,
        cycles=args.cycles,
        per_run_limit_s=args.per_run_limit,
        calls=args.calls,
        seed=args.seed,
        starts=args.starts,
        sides=tuple(args.side),
        counts=tuple(int(each) for each in args.counts.split(",") if each),
        beside=tuple(each for each in args.beside.split(",") if each),
    )


def measure(args: argparse.Namespace, names: Sequence[str], out: Path) -> dict[str, Any]:
    """All stages, each within its share of the time; what is known is kept after each of them."""
    deadline = Deadline(args.budget)
    machine = find(args.gpus, args.host, {"ours": args.ours, "nccl": args.nccl, "mscclpp": args.mscclpp},
                   Path(args.build).resolve())  # fmt: skip
    asked = wanted(args)
    (out / "log.txt").unlink(missing_ok=True)  # of an earlier call
    call: dict[str, Any] = {"machine": {}, "arguments": sys.argv[1:], "stages": {}, "broken": {}}
    for position, name in enumerate(names):
        seconds = share(deadline.left(), names[position:])
        if seconds <= 0:
            print(f"no time left for {name}", flush=True)
            continue
        print(f"== {name}: up to {seconds:.0f} s", flush=True)
        session = Session(machine, Deadline(seconds), Log(out / "log.txt"), os.environ, asked)
        call["stages"][name], reason = run_stage(name, session)
        if reason or not call["stages"][name]:
            call["broken"][name] = reason or "nothing was run: too little time, or nothing to run it on"
        call["machine"] = facts(machine)
        (out / "results.json").write_text(json.dumps(call))
        (out / "report.md").write_text(markdown([call]))
    return call


def run_stage(name: str, session: Session) -> tuple[list[Result], str]:
    """One stage, and why it broke off: what keeps one from its work must not cost the others the rented machine."""
    try:
        return STAGES[name](session), ""
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        print(f"stage {name}: {error}", file=sys.stderr, flush=True)
        return [], str(error) or type(error).__name__


def main() -> int:
    args = parse()
    try:
        names = chosen(args.stages)
        out = Path(args.out)
        out.mkdir(parents=True, exist_ok=True)
        calls = [json.loads(Path(file).read_text()) for file in args.results]
        call = measure(args, names, out) if names else None
    except (OSError, ValueError) as error:
        print(f"bench/gpu_library: {error}", file=sys.stderr)
        return 2
    if call:
        print("\n".join(["", *closing_lines(call)]))
        calls.append(call)
    if not calls:
        print("bench/gpu_library: report needs --results FILE", file=sys.stderr)
        return 2
    text = markdown(calls)
    (out / "report.md").write_text(text)
    if "report" in args.stages:
        sys.stdout.write(text)
    return 0 if call is None or passed(call) else 1


if __name__ == "__main__":
    sys.exit(main())
