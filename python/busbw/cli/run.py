"""`busbw run -n 4 all_reduce ...`: several ranks, on this machine or by any launcher, without MPI at build time."""

from __future__ import annotations

import argparse

from busbw.base.errors import UsageError
from busbw.cli.launching import add_options, launch, ranks_per_process, words_of
from busbw.cli.measure import asks_for_several
from busbw.cli.verbs import COLLECTIVES
from busbw.launch.engine import find_engine
from busbw.launch.request import Program
from busbw.runs.destination import split_record_options

EXAMPLES = """\
examples:
  busbw run -n 4 all_reduce -b 8 -e 64M -f 2
  busbw run -n 2 --bind cores --timeout 60 sendrecv -b 1M -e 1M
  busbw run -n 8 --dry-run all_gather
  busbw run --launcher slurm --nodes 2 --gpus-per-node 8 --partition gpu \\
      all_reduce -b 8 -e 8G -f 2
  busbw run --launcher mpirun --hosts a:8,b:8 --gpus-per-node 8 \\
      alltoall -b 1M -e 1G -f 2

The same options may follow a collective:
  busbw all_reduce -b 8 --launcher torchrun --ranks 2
What follows the collective goes to the measuring program; `busbw COLLECTIVE
--help` lists it. --runs DIR and --no-record choose where the record goes, as
for `busbw COLLECTIVE`.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this verb."""
    parser.usage = "busbw run -n RANKS [options] COLLECTIVE [measuring options]"
    parser.epilog = EXAMPLES
    parser.add_argument("-n", "--ranks", type=int, metavar="N", help="how many ranks to start")
    parser.add_argument("--timeout", type=float, metavar="S", help="end the ranks after S seconds, with exit code 124")
    add_options(parser, without=("--ranks",))
    parser.add_argument("collective", help="such as all_reduce")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="options of the measuring program")


def run(args: argparse.Namespace) -> int:
    """Plan the launch, then show it or carry it out."""
    _check(args)
    if asks_for_several(args.arguments):
        from busbw.cli import libraries

        return libraries.run((args.collective,), (*words_of(args), *args.arguments))
    choice = split_record_options(args.arguments)
    program = Program(find_engine(), (args.collective, *choice.words), ranks_per_process(choice.words))
    return launch(args, program, choice)


def _check(args: argparse.Namespace) -> None:
    if args.ranks is not None and args.ranks < 1:
        raise UsageError(f"-n {args.ranks}: a job has at least one rank")
    if args.timeout is not None:
        if not args.timeout > 0:
            raise UsageError(f"--timeout {args.timeout:g}: the time limit must be more than 0 seconds")
        args.time_limit = args.time_limit or f"{args.timeout:f}s"
    if args.collective not in COLLECTIVES:
        from difflib import get_close_matches

        near = get_close_matches(args.collective.removesuffix("_perf"), COLLECTIVES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it takes one of {', '.join(COLLECTIVES)}"
        raise UsageError(f"there is no collective '{args.collective}'; {hint}")
