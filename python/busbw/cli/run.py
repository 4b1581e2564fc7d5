"""`busbw run -n 4 all_reduce ...`: several ranks as processes, without MPI."""

from __future__ import annotations

import argparse
import os

from busbw.cli.measure import destination_for, report
from busbw.cli.verbs import COLLECTIVES
from busbw.errors import UsageError
from busbw.launch.destination import split_record_options
from busbw.launch.engine import find_engine
from busbw.launch.execute import execute
from busbw.launch.job import Bind, JobSpec
from busbw.launch.launchers import LAUNCHERS, planner

EXAMPLES = """\
examples:
  busbw run -n 4 all_reduce -b 8 -e 64M -f 2
  busbw run -n 2 --bind cores --timeout 60 sendrecv -b 1M -e 1M
  busbw run -n 8 --dry-run all_gather

What follows the collective goes to the measuring program; `busbw COLLECTIVE --help` lists it.
--runs DIR and --no-record choose where the record goes, as for `busbw COLLECTIVE`.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this verb."""
    parser.usage = "busbw run -n RANKS [options] COLLECTIVE [measuring options]"
    parser.epilog = EXAMPLES
    parser.add_argument("-n", "--ranks", type=int, required=True, help="how many ranks to start")
    parser.add_argument("--timeout", type=float, metavar="S", help="end the ranks after S seconds, with exit code 124")
    parser.add_argument(
        "--bind",
        choices=[bind.value for bind in Bind],
        default=Bind.NONE.value,
        help="cores: give each rank its own processors; none (default): leave it to the system",
    )
    parser.add_argument("--launcher", choices=list(LAUNCHERS), default="local", help="how ranks are started")
    parser.add_argument("--dry-run", action="store_true", help="print what would be started and start nothing")
    parser.add_argument("collective", help="such as all_reduce")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="options of the measuring program")


def run(args: argparse.Namespace) -> int:
    """Plan the launch, then show it or carry it out."""
    _check(args)
    choice = split_record_options(args.arguments)
    destination = destination_for(choice, {**os.environ, "BUSBW_RANK": "0"})
    arguments = [args.collective, *choice.words]
    environment = {}
    if destination:
        arguments += ["--record", str(destination.record)]
        environment["BUSBW_RUN_ID"] = destination.run_id
    job = JobSpec(args.ranks, find_engine(), tuple(arguments), environment, Bind(args.bind))
    plan = planner(args.launcher).plan(job)
    if args.dry_run:
        print(*plan.lines(), sep="\n")
        return 0
    if destination:
        destination.create()
    try:
        return execute(plan, timeout=args.timeout)
    finally:
        if destination:
            report(destination)


def _check(args: argparse.Namespace) -> None:
    if args.ranks < 1:
        raise UsageError(f"-n {args.ranks}: a job has at least one rank")
    if args.timeout is not None and not args.timeout > 0:
        raise UsageError(f"--timeout {args.timeout:g}: the time limit must be more than 0 seconds")
    if args.collective not in COLLECTIVES:
        from difflib import get_close_matches

        near = get_close_matches(args.collective.removesuffix("_perf"), COLLECTIVES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it takes one of {', '.join(COLLECTIVES)}"
        raise UsageError(f"there is no collective '{args.collective}'; {hint}")
