"""`busbw gate RUN`: exit code 0 where a run reaches its thresholds, 1 where not, 2 where it cannot be judged."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from busbw.base.effort import EFFORT
from busbw.base.errors import exiting_with
from busbw.base.files import write_whole
from busbw.base.quantities import within
from busbw.base.words import Args
from busbw.cli.sources import SOURCES_HELP, resolve

if TYPE_CHECKING:
    from busbw.gate.judge import Check
    from busbw.gate.thresholds import Threshold

EPILOG = f"""\
{SOURCES_HELP}

Without --thresholds, published figures of Azure's ND and NC series are the
limits, by machine type.
exit code: 0 all passed, 1 one failed, 2 not all judged

examples:
  busbw gate run.jsonl
  busbw gate run.jsonl --machine Standard_ND96asr_v4 --junit gate.xml
  busbw gate today --thresholds baseline.toml
"""


def run(args: Args) -> int:
    # 1 is the word of a gate that judged.
    with exiting_with(2):
        return _run(args)


def _run(args: Args) -> int:
    from busbw.expect.impossible import reasons
    from busbw.gate.judge import Result, judge
    from busbw.gate.junit import junit

    limits = _limits(args)
    checks = [
        check
        for each in resolve([args.run], args.runs, collective=args.collective)
        for check in judge(
            each.record, limits, machine=args.machine, strict=args.strict,
            impossible=reasons(each.record, args.machine), in_part=EFFORT.is_cut,
        )
    ]  # fmt: skip
    if args.junit:
        write_whole(args.junit, junit(args.run, checks))
    if args.json:
        rows = [{"case": each.name, "result": each.result.value, "detail": each.detail} for each in checks]
        print(json.dumps(rows, indent=1))
    else:
        _print(checks, everything=args.verbose)
    if any(check.result is Result.FAILED for check in checks):
        return 1
    return 2 if EFFORT.is_cut else 0  # what was not read may fail


def _limits(args: Args) -> list[Threshold]:
    from busbw.gate.thresholds import load, shipped

    limits = load(args.thresholds) if args.thresholds else shipped()
    if args.sizes:
        limits = [limit for limit in limits if within(limit.bytes, args.sizes)]
    if args.tolerance is not None:
        limits = [replace(limit, tolerance=args.tolerance) for limit in limits]
    return limits


def _print(checks: Sequence[Check], *, everything: bool) -> None:
    from busbw.base.text import WIDTH, paint, sentences, shorten, wants_colour
    from busbw.gate.judge import Result

    colour = wants_colour(sys.stdout)
    words = {Result.PASSED: ("PASS", "green"), Result.NOISY: ("NOISE", "yellow"), Result.FAILED: ("FAIL", "red")}
    for check in checks:
        if everything or check.result is Result.FAILED:
            word, style = words[check.result]
            brief = shorten(check.brief or check.detail, WIDTH // 2)
            name = shorten(check.name, WIDTH - len(f"{word}  : {brief}"))
            print(f"{paint(word, style, colour=colour)}  {name}: {brief}")
    failed = sum(check.result is Result.FAILED for check in checks)
    noisy = sum(check.result is Result.NOISY for check in checks)
    within = f", {noisy} only within their noise" if noisy else ""
    print(f"{len(checks) - failed} of {len(checks)} checks passed{within}")
    limits = [check.threshold for check in checks if check.threshold]
    for source in dict.fromkeys(limit.source for limit in limits):
        given = {limit.tolerance for limit in limits if limit.source == source}
        tolerance = f"{100 * min(given):g} to {100 * max(given):g}" if len(given) > 1 else f"{100 * min(given):g}"
        print("\n".join(sentences([f"limits: {source}; tolerance {tolerance} %"], bullet="  ")))
