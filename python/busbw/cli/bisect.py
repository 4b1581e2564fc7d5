"""`busbw bisect --libraries A..B -- all_reduce ...`: from which release, value or machine on a size is slower."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.files import replace_text
from busbw.base.words import Args

if TYPE_CHECKING:
    from collections.abc import Callable

    from busbw.experiment.bisect.search import Bisection, Change
    from busbw.experiment.factors import Level
    from busbw.experiment.plan import Plan

EPILOG = """\
The first value is the one that was fast. Each step is an experiment: processes
in turns until it is sure. A size is slow where it lies beyond half way (on the
logarithm) from the first to the last.

exit code: 0 every size that got slower has its release, 1 nothing got slower,
3 something is not sure, 130 interrupted

examples:
  busbw bisect --libraries 2.27.3..2.32.3 --ranks 8 -- all_reduce -b 1M -g 1
  busbw bisect --libraries 2.27.3..2.32.3 --from-folder /opt/nccl --ranks 2 \\
      -- all_gather -b 1K -e 64M -f 16
  busbw bisect --setting NCCL_BUFFSIZE=1M..16M --ranks 8 -- all_reduce -b 1G
  busbw bisect --setting NCCL_ALGO=unset,Ring,Tree -- all_reduce -b 1M -g 8
  busbw bisect --profile 'old=--launcher srun --nodes 2' \\
      --profile 'new=--launcher srun --partition new --nodes 2' \\
      -- all_reduce -b 1G
"""

_WORDS = "bisect.json"


def run(args: Args) -> int:
    """Fetch, measure, name."""
    from busbw.base.progress import progress
    from busbw.experiment.bisect.search import Bisection
    from busbw.experiment.bisect.text import RELEASES, VALUES, result_json, result_text
    from busbw.experiment.loop import Stop

    plan = _plan(args)
    labels, level = _values(args)
    if args.dry_run:
        print("\n".join(_dry(labels, args)))
        return 0
    folder = _folder(args, labels, plan)
    print(f"busbw: {len(labels)} values; the trials are kept in {folder}", file=sys.stderr)
    with progress(f"{len(labels)} values, at most {plan.limits.seconds:g} s") as tell:
        done = Bisection(labels, level(tell), plan, folder, tell=tell)
        changes = done.run()
    if args.json:
        print(json.dumps(result_json(done, changes), indent=1, ensure_ascii=False))
    else:
        print(result_text(done, changes, RELEASES if args.libraries else VALUES), end="")
    if done.stop is Stop.INTERRUPTED:
        return 130
    return _code(done, changes)


def _code(done: Bisection, changes: list[Change]) -> int:
    from busbw.experiment.bisect.text import sure_of

    if done.over or not done.ends or not all(sure_of(change) for change in changes):
        return 3
    if not changes:
        return 1 if all(found.sure for found in done.ends.values()) else 3
    return 0


def _plan(args: Args) -> Plan:
    from busbw.experiment.factors import Factor, Level
    from busbw.experiment.plan import Limits, Plan, check

    given = {"seconds": args.budget, "trial_seconds": args.trial_limit, "margin": args.margin, "rounds": args.rounds}
    limits = replace(Limits(), **{name: value for name, value in given.items() if value is not None})
    two = Factor("value", (Level("first"), Level("last")))
    return check(Plan((two,), tuple(args.rest), args.ranks, args.launch, limits=limits))


def _values(args: Args) -> tuple[list[str], Callable[[Callable[[str], None]], Callable[[int], Level]]]:
    """Labels in order, and what makes the level of each."""
    from busbw.experiment.bisect import values

    given = [bool(args.libraries), bool(args.setting), bool(args.profile)]
    if sum(given) != 1:
        raise UsageError(
            "say what to bisect, one of --libraries 2.27.3..2.32.3, --setting NAME=1M..16M, --profile NAME=OPTIONS"
        )
    if args.libraries:
        return _releases(args)
    levels = values.of_setting(args.setting) if args.setting else values.of_profiles(args.profile)
    return [level.label for level in levels], lambda _: levels.__getitem__


def _releases(args: Args) -> tuple[list[str], Callable[[Callable[[str], None]], Callable[[int], Level]]]:
    from busbw.experiment.bisect.values import parse_range
    from busbw.experiment.bisect.wheels import PACKAGES, Folder, Published, Release, Wanted, default_cache

    first, last = parse_range(args.libraries)
    cache = args.cache or default_cache()
    source: Folder | Published
    if args.from_folder:
        # With launch options, ranks may run on machines of another kind than this one.
        machine = "" if args.launch else platform.machine()
        source = Folder(args.from_folder, first, last, cache, Wanted(PACKAGES[args.cuda], machine))
    else:
        source = Published(PACKAGES[args.cuda], first, last, cache)
    fetched: dict[int, Release] = {}

    def level_with(tell: Callable[[str], None]) -> Callable[[int], Level]:
        def level(number: int) -> Level:
            if number not in fetched:
                found = fetched[number] = source.fetch(source.versions[number])
                tell(f"NCCL {found.version} is {found.library} (SHA-256 {found.sha256[:16]})")
            return fetched[number].level

        return level

    return source.versions, level_with


def _folder(args: Args, labels: list[str], plan: Plan) -> Path:
    """A new one, or that of --resume, which must be of the same bisection."""
    from busbw.runs.destination import new_run_id, runs_directory

    said = json.dumps({"values": labels, "words": plan.words, "ranks": plan.ranks, "launch": plan.launch})
    folder: Path = args.resume or runs_directory(args.runs) / f"bisect-{new_run_id()}"
    try:
        if args.resume:
            if (folder / _WORDS).read_text(encoding="utf-8")[: 1 << 20] != said:
                raise UsageError(f"{folder} holds another bisection; --resume goes on with the same words")
            return folder
        replace_text(folder / _WORDS, said)
    except (OSError, UnicodeDecodeError) as problem:
        raise UserError(f"{folder} holds no bisection that could go on: {problem}") from None
    return folder


def _dry(labels: list[str], args: Args) -> list[str]:
    import math

    most = 2 + math.ceil(math.log2(max(1, len(labels) - 1)))
    return [
        f"{len(labels)} values: {', '.join(labels)}",
        f"at most {most} steps where all sizes got slower at one value",
        f"each step: {' '.join(args.rest)}",
    ]
