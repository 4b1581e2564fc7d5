"""`busbw experiment --vary NAME=A,B -- all_reduce ...`: which setting is faster, by how much, how sure?"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.words import Args

if TYPE_CHECKING:
    from busbw.experiment.plan import Plan

EPILOG = """\
The first value of everything that is varied is the baseline; "unset" removes a
variable. One value alone is compared with things as they are. Values that hold
commas are separated by |.

exit code: 0 every verdict is sure, 1 the baseline does not work, 3 some verdict
is not sure, 130 interrupted

examples:
  busbw experiment --vary NCCL_ALGO=unset,Ring,Tree --ranks 4 \\
      -- all_reduce -b 1M -e 1G -f 4
  busbw experiment --vary NCCL_GRAPH_FILE=/opt/graph.xml,unset --budget 3m \\
      -- all_reduce -b 1G -e 1G -g 2
  busbw experiment --vary NCCL_PROTO=Simple,LL128 \\
      --vary NCCL_MAX_NCHANNELS=4,16,32 -- all_reduce -b 64M -e 64M
  busbw experiment --vary-library system,./libnccl.so.2 -- all_gather -b 1M
  busbw experiment --vary-arguments "-R 0|-R 2" -- all_reduce -b 1M -e 1M
  busbw experiment --vary NCCL_CROSS_NIC=0,1 --ranks 16 \\
      --launch "--launcher srun --nodes 2" -- alltoall -b 1M -e 1G -f 8
  busbw experiment --vary NCCL_P2P_DISABLE=0,1 --ranks 8 \\
      -- torch-bench all_reduce alltoall -b 1M -e 1G -f 8
  busbw experiment --vary BUSBW_CPU_CHUNK=65536,262144 --replay recordings
  busbw experiment plan.toml
  busbw experiment --resume FOLDER
"""


def run(args: Args) -> int:
    """Plan, measure, report."""
    from busbw.base.progress import progress
    from busbw.base.text import wants_colour
    from busbw.experiment.beside import require_product, with_amounts
    from busbw.experiment.loop import Experiment, Stop
    from busbw.experiment.plan import save
    from busbw.experiment.text import result_json, result_text

    plan = _plan(args)
    if args.beside:
        require_product(args.beside)
    if args.dry_run:
        print("\n".join(_dry(plan)))
        return 0
    folder = args.resume or new_folder(args.runs)
    if args.beside and not args.resume:
        plan = with_amounts(plan, args.beside, folder)
    save(plan, folder)
    print(f"busbw: {len(plan.variants)} variants; the experiment is kept in {folder}", file=sys.stderr)
    with progress(f"{len(plan.variants)} variants, at most {plan.limits.seconds:g} s") as tell:
        result = Experiment(plan, folder, tell=tell).run()
    if args.json:
        print(json.dumps(result_json(result), indent=1, ensure_ascii=False))
    else:
        print(result_text(result, colour=wants_colour(sys.stdout), points=not args.no_table), end="")
    if result.stop in {Stop.INTERRUPTED, Stop.TIME}:
        more = "" if result.stop is Stop.INTERRUPTED else " with a larger --budget"
        print(f"busbw: `busbw experiment --resume {folder}` goes on{more}", file=sys.stderr)
    if result.stop is Stop.BASELINE:
        reason = result.findings.baseline[-1].reason
        raise UserError(f"the baseline itself cannot be measured ({reason}); {folder}/trials holds what it printed")
    return {Stop.SURE: 0, Stop.INTERRUPTED: 130}.get(result.stop, 3)


def _plan(args: Args) -> Plan:
    from busbw.experiment.file import read_plan
    from busbw.experiment.plan import check, load

    words = list(args.rest)
    if args.resume:
        if words or args.vary or args.vary_library or args.vary_arguments or args.replay:
            raise UsageError("--resume goes on with the plan in its folder; what is varied and run cannot change")
        return check(_limited(load(args.resume), args))
    if len(words) == 1 and words[0].endswith(".toml"):
        if args.vary or args.vary_library or args.vary_arguments or args.replay:
            raise UsageError("a plan in a file says itself what is varied; --vary has no place beside it")
        return check(_limited(read_plan(Path(words[0])), args))
    if args.replay:
        from busbw.watch.given import recordings_in

        # By its whole path, so that the experiment goes on from any folder.
        recordings = Path(args.replay).absolute()
        if not recordings.exists():
            raise UserError(f"--replay: {recordings} does not exist; name a folder with a recording of each rank")
        recordings_in(recordings)
        words = ["replay", str(recordings), *words]
    return check(_limited(from_words(args, words), args))


def from_words(args: Args, words: list[str]) -> Plan:
    """The plan of --vary and its like."""
    from busbw.experiment import factors
    from busbw.experiment.plan import Plan

    found = [factors.variable(text) for text in args.vary]
    found += [factors.library(args.vary_library)] if args.vary_library else []
    found += [factors.arguments(text, number) for number, text in enumerate(args.vary_arguments, start=1)]
    return Plan(
        tuple(found),
        tuple(words),
        args.ranks,
        args.launch,
        getattr(args, "one_at_a_time", False),
        getattr(args, "seed", 1),
    )


def _limited(plan: Plan, args: Args) -> Plan:
    given = {"seconds": args.budget, "trial_seconds": args.trial_limit, "margin": args.margin, "rounds": args.rounds}
    changed = {name: value for name, value in given.items() if value is not None}
    return replace(plan, limits=replace(plan.limits, **changed))


def new_folder(runs: str | None, what: str = "experiment") -> Path:
    """Of an experiment that begins."""
    from busbw.runs.destination import new_run_id, runs_directory

    return runs_directory(runs) / f"{what}-{new_run_id()}"


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
