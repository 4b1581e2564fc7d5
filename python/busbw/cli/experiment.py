"""`busbw experiment --vary NAME=A,B -- all_reduce ...`: which setting is faster, by how much, how sure?"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError

if TYPE_CHECKING:
    from busbw.experiment.plan import Plan

_EPILOG = """\
The first value of everything that is varied is the baseline; "unset" removes a
variable. One value alone is compared with things as they are. Values that hold
commas are separated by |.

exit code: 0 every verdict is sure, 1 the baseline does not work, 3 some verdict
is not sure, 130 interrupted

examples:
  busbw experiment --vary NCCL_ALGO=unset,Ring,Tree -n 4 -- all_reduce -b 1M \\
      -e 1G -f 4
  busbw experiment --vary NCCL_GRAPH_FILE=/opt/graph.xml,unset --time 3m \\
      -- all_reduce -b 1G -e 1G -g 2
  busbw experiment --vary NCCL_PROTO=Simple,LL128 \\
      --vary NCCL_MAX_NCHANNELS=4,16,32 -- all_reduce -b 64M -e 64M
  busbw experiment --vary-library system,./libnccl.so.2 -- all_gather -b 1M
  busbw experiment --vary-arguments "-R 0|-R 2" -- all_reduce -b 1M -e 1M
  busbw experiment --vary NCCL_CROSS_NIC=0,1 -n 16 \\
      --launch "--launcher srun --nodes 2" -- alltoall -b 1M -e 1G -f 8
  busbw experiment plan.toml
  busbw experiment --resume FOLDER
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this verb."""
    parser.usage = "busbw experiment --vary NAME=A,B [options] -- COLLECTIVE ..."
    parser.epilog = _EPILOG
    vary = parser.add_argument_group("what is varied")
    vary.add_argument("--vary", action="append", default=[], metavar="NAME=A,B", help="values of a variable")
    vary.add_argument("--vary-library", metavar="A,B", help="libraries, as --library takes them")
    vary.add_argument("--vary-arguments", action="append", default=[], metavar="'X|Y'", help="options to add")
    vary.add_argument("--one-at-a-time", action="store_true", help="each value by itself, not every combination")
    ranks = parser.add_argument_group("how it is run")
    ranks.add_argument("-n", "--ranks", type=int, default=1, help="processes to start for each trial (default 1)")
    ranks.add_argument("--launch", default="", metavar="'OPTIONS'", help="launch options of busbw run, in one word")
    stop = parser.add_argument_group("when it stops")
    stop.add_argument("--time", metavar="TIME", default=None, help="90s, 10m, 1h (default 10m)")
    stop.add_argument("--rounds", type=int, default=None, help="at most so many rounds (default 60)")
    stop.add_argument("--trial-timeout", metavar="TIME", default=None, help="a trial hangs after this (default 2m)")
    stop.add_argument("--margin", metavar="PERCENT", default=None, help="less is no difference (default 2)")
    parser.add_argument("--seed", type=int, default=1, help="of the order in the rounds")
    parser.add_argument("--resume", metavar="FOLDER", type=Path, help="go on with an experiment, or show it again")
    parser.add_argument("--runs", metavar="DIR", help="where runs and experiments are kept")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--summary", action="store_true", help="no table by size")
    parser.add_argument("--dry-run", action="store_true", help="list the variants and start nothing")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...", help="a TOML file, or -- and a collective")


def run(args: argparse.Namespace) -> int:
    """Plan, measure, report."""
    from busbw.base.text import wants_colour
    from busbw.experiment.loop import Experiment, Stop
    from busbw.experiment.plan import save
    from busbw.experiment.text import result_json, result_text

    plan = _plan(args)
    if args.dry_run:
        print("\n".join(_dry(plan)))
        return 0
    folder = args.resume or _new_folder(args.runs)
    save(plan, folder)
    print(f"busbw: {len(plan.variants)} variants; the experiment is kept in {folder}", file=sys.stderr)
    result = Experiment(plan, folder, tell=lambda line: print(f"busbw: {line}", file=sys.stderr)).run()
    if args.json:
        print(json.dumps(result_json(result), indent=1, ensure_ascii=False))
    else:
        print(result_text(result, colour=wants_colour(sys.stdout), points=not args.summary), end="")
    if result.stop in {Stop.INTERRUPTED, Stop.TIME}:
        print(f"busbw: `busbw experiment --resume {folder}` goes on", file=sys.stderr)
    if result.stop is Stop.BASELINE:
        reason = result.findings.baseline[-1].reason
        raise UserError(f"the baseline itself cannot be measured ({reason}); {folder}/trials holds what it printed")
    return {Stop.SURE: 0, Stop.INTERRUPTED: 130}.get(result.stop, 3)


def _plan(args: argparse.Namespace) -> Plan:
    from busbw.experiment.file import read_plan
    from busbw.experiment.plan import check, load

    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if args.resume:
        if words or args.vary or args.vary_library or args.vary_arguments:
            raise UsageError("--resume goes on with the plan in its folder; what is varied and run cannot change")
        return check(_limited(load(args.resume), args))
    if len(words) == 1 and words[0].endswith(".toml"):
        if args.vary or args.vary_library or args.vary_arguments:
            raise UsageError("a plan in a file says itself what is varied; --vary has no place beside it")
        return check(_limited(read_plan(Path(words[0])), args))
    return check(_limited(_from_words(args, words), args))


def _from_words(args: argparse.Namespace, words: list[str]) -> Plan:
    from busbw.experiment import factors
    from busbw.experiment.plan import Plan

    found = [factors.variable(text) for text in args.vary]
    found += [factors.library(args.vary_library)] if args.vary_library else []
    found += [factors.arguments(text, number) for number, text in enumerate(args.vary_arguments, start=1)]
    return Plan(tuple(found), tuple(words), args.ranks, _launch_words(args.launch), args.one_at_a_time, args.seed)


def _launch_words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as problem:
        raise UsageError(f"--launch {text!r} cannot be split into words: {problem}") from None


def _limited(plan: Plan, args: argparse.Namespace) -> Plan:
    from busbw.cli.compare import percent
    from busbw.experiment.file import parse_time

    changed: dict[str, float | int] = {}
    try:
        if args.time is not None:
            changed["seconds"] = parse_time(args.time)
        if args.trial_timeout is not None:
            changed["trial_seconds"] = parse_time(args.trial_timeout)
        if args.margin is not None:
            changed["margin"] = percent(args.margin)
    except (ValueError, argparse.ArgumentTypeError) as problem:
        raise UsageError(str(problem)) from None
    if args.rounds is not None:
        changed["rounds"] = args.rounds
    return replace(plan, limits=replace(plan.limits, **changed))  # type: ignore[arg-type]


def _new_folder(runs: str | None) -> Path:
    from busbw.runs.destination import new_run_id, runs_directory

    return runs_directory(runs) / f"experiment-{new_run_id()}"


def _dry(plan: Plan) -> list[str]:
    from busbw.experiment.runner import command_of

    lines = []
    for variant in plan.variants:
        lines.append(f"{variant.name}:")
        settings = [f"unset {name}" if value is None else f"{name}={value}"
                    for name, value in variant.environment.items()]  # fmt: skip
        command = command_of(plan, variant, Path("<record>"), plan.limits.trial_seconds)
        lines += [f"  {line}" for line in settings] + [f"  busbw {' '.join(command[3:])}"]
    return lines
