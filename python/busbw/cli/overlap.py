"""`busbw overlap COLLECTIVE`: calls and a product alone and beside each other, over sizes, libraries and settings."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.words import Args

if TYPE_CHECKING:
    from busbw.analysis.overlap import Overlap
    from busbw.experiment.loop import Result
    from busbw.experiment.plan import Plan

EPILOG = """\
Efficiency is the longer of the two alone over both together. Exposed is what a
call adds to the product's time. Each slowdown is the time beside over alone.

exit code: 0 every round was measured, 1 nothing could be, 3 the time was up
before three rounds, 130 interrupted

examples:
  busbw overlap --ranks 2 -- all_reduce -b 64K -e 16M -f 4
  busbw overlap --vary-library cpu,./libnccl.so.2 --ranks 2 -- all_reduce -b 1M
  busbw overlap --vary NCCL_MAX_NCHANNELS=unset,4 --ranks 8 -- all_gather -b 1G
  busbw overlap --beside product:512x512x512 --plot overlap.html -- all_reduce
"""

ROUNDS = 3

Found = dict[tuple[str, int], "list[Overlap]"]


def run(args: Args) -> int:
    """Measure in turns, and say what each size costs."""
    from busbw.base.progress import progress
    from busbw.cli.experiment import from_words, new_folder
    from busbw.experiment.beside import require_product, with_amounts
    from busbw.experiment.loop import Experiment, Stop
    from busbw.experiment.plan import Limits, check, save

    if args.plot is not None and args.plot.suffix not in {".html", ".svg", ".png"}:
        raise UsageError(f"--plot {args.plot}: the name ends in .html, .svg or .png")
    if args.plot is not None and args.plot.suffix != ".html":
        from busbw.report.plots import require_matplotlib

        require_matplotlib(args.plot.suffix[1:], "a name that ends in .html needs nothing")
    require_product(args.beside)
    limits = Limits(seconds=args.budget or 600.0, rounds=args.rounds, min_rounds=min(ROUNDS, args.rounds))
    plan = check(replace(from_words(args, list(args.rest)), limits=limits, alone=True))
    folder = new_folder(args.runs, "overlap")
    if args.dry_run:
        print("\n".join(variant.name for variant in plan.variants))
        return 0
    print(f"busbw: the trials are kept in {folder}", file=sys.stderr)
    with progress(f"{len(plan.variants)} variants beside a product") as tell:
        plan = with_amounts(plan, args.beside, folder)
        save(plan, folder)
        result = Experiment(plan, folder, tell=tell, goal=lambda plan, trials: _All(plan)).run()
    found = _overlaps(plan, result, folder)
    if not any(found):
        reason = next((trial.reason for trial in result.trials if trial.reason), "nothing was measured")
        raise UserError(f"nothing could be measured beside a product: {reason}; {folder}/trials holds what it printed")
    _print(args, plan, found, result)
    if args.plot is not None:
        _plot(args.plot, plan, found)
    if result.stop is Stop.INTERRUPTED:
        return 130
    return 0 if result.stop is not Stop.TIME else 3


class _All:
    """Every round of every variant is wanted: the figures are medians over them."""

    settled = False

    def __init__(self, plan: Plan) -> None:
        self.alive = range(len(plan.variants))


def _overlaps(plan: Plan, result: Result, folder: Path) -> list[Found]:
    """By variant: each size's overlap of each trial."""
    from busbw.analysis.overlap import overlap_of
    from busbw.experiment.trial import Outcome
    from busbw.records import read_record
    from busbw.runs.destination import RECORD_NAME

    found: list[Found] = [{} for _ in plan.variants]
    for trial in result.trials:
        if trial.outcome is not Outcome.MEASURED:
            continue
        record = read_record(folder / "trials" / f"r{trial.round:04d}-v{trial.variant:03d}" / RECORD_NAME)
        for case in record.cases:
            if case.outcome == "measured" and case.beside:
                found[trial.variant].setdefault((case.collective, case.bytes), []).append(overlap_of(case.beside))
    return found


def _middle(each: list[Overlap]) -> Overlap:
    """The trial whose efficiency is the median of all; of an even number the lower one."""
    return sorted(each, key=lambda one: one.efficiency)[(len(each) - 1) // 2]


def _print(args: Args, plan: Plan, found: list[Found], result: Result) -> None:
    if args.json:
        print(json.dumps([row for number, each in enumerate(found) for row in _rows(plan, number, each)], indent=1))
        return
    from busbw.analysis.units import format_bytes, format_us
    from busbw.base.text import columns

    rows = []
    for number, sizes in enumerate(found):
        for (_, size), trials in sorted(sizes.items()):
            one = _middle(trials)
            low, high = (end(each.efficiency for each in trials) for end in (min, max))
            slower = [f"{one.product_slowdown:.2f}", f"{one.call_slowdown:.2f}"]
            mark = " *" if one.is_impossible else ""
            middle = [f"{one.efficiency:.2f}{mark}", f"{low:.2f} to {high:.2f}", format_us(one.exposed_us)]
            rows.append([plan.variants[number].name, format_bytes(size), *middle, *slower])
    heads = ["variant", "size", "efficiency", "over trials", "exposed a call", "product slower", "calls slower"]
    print("\n".join(columns(heads, rows, left=(0,), gap="  ")))
    if any(row[2].endswith("*") for row in rows):
        print("* above 1: both together took less than one of them alone. Something else slowed that one down, so the "
              "figures of the line do not hold. Measure on a quiet machine, or with more --rounds.")  # fmt: skip
    if len(plan.variants) > 1:
        from busbw.experiment.effects import find

        for effect in find(plan, result.trials).effects:
            name = plan.variants[effect.variant].name
            said = effect.failures[-1].reason if effect.broken else effect.judgement.words(name)
            print(f"both together, {name} against {plan.variants[0].name}: {said}")


def _rows(plan: Plan, number: int, sizes: Found) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for (collective, size), trials in sorted(sizes.items()):
        one = _middle(trials)
        rows.append({
            "variant": plan.variants[number].name, "collective": collective, "bytes": size, "trials": len(trials),
            "product": one.product, "calls": one.calls, "products": one.products, "efficiency": one.efficiency,
            "impossible": one.is_impossible,
            "efficiencies": [each.efficiency for each in trials], "exposed_us": one.exposed_us,
            "product_slowdown": one.product_slowdown, "call_slowdown": one.call_slowdown,
            "call_alone_us": one.calls_alone_us / one.calls, "together_us": one.together_us,
        })  # fmt: skip
    return rows


def _plot(path: Path, plan: Plan, found: list[Found]) -> None:
    """Efficiency, exposed time and slowdowns over size, as any report draws."""
    from busbw.base.files import write_whole
    from busbw.report.html import Page, page
    from busbw.report.picture import LIGHT, Line, Mark, Plot, View
    from busbw.report.plots import picture

    def plot(name: str, title: str, unit: str, value: str) -> Plot:
        lines = []
        for number, sizes in enumerate(found):
            marks = []
            for (_, size), trials in sorted(sizes.items()):
                every = [float(getattr(each, value)) for each in trials]
                marks.append(Mark(size, float(getattr(_middle(trials), value)), min(every), max(every)))
            lines.append(Line(number, "", number % len(LIGHT), number % len(LIGHT), tuple(marks)))
        return Plot(name, title, unit, False, tuple(lines))

    title = f"{plan.words[0]} beside a product"
    names = tuple(variant.name for variant in plan.variants)
    plots = (plot("efficiency", "Efficiency", "times", "efficiency"),
             plot("exposed", "Exposed time of a call", "us", "exposed_us"),
             plot("product", "Slowdown of the product", "times", "product_slowdown"),
             plot("calls", "Slowdown of the calls", "times", "call_slowdown"))  # fmt: skip
    view = View(title, names, tuple(range(len(names))), None, plots)
    if path.suffix == ".html":
        content = page(Page(title, (), (view,), (), (), ("Medians of trials in turns; bars are their range.",),
                            (f"busbw overlap -- {' '.join(plan.words)}",))).encode()  # fmt: skip
    else:
        content = picture([view], title, path.suffix[1:])
    write_whole(path, content)
