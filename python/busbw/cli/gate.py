"""`busbw gate RUN`: exit code 0 where a run reaches its thresholds, 1 where not, 2 where it cannot be judged."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import exiting_with
from busbw.base.files import writing
from busbw.cli.compare import percent
from busbw.cli.report import sizes
from busbw.cli.sources import SOURCES_HELP, resolve

if TYPE_CHECKING:
    from busbw.gate.judge import Check
    from busbw.gate.thresholds import Threshold

_EPILOG = f"""\
{SOURCES_HELP}

Without --thresholds, published figures of Azure's ND and NC series are the
limits, by machine type.
exit code: 0 all passed, 1 a check failed, 2 nothing could be judged

examples:
  busbw gate run.jsonl
  busbw gate run.jsonl --machine Standard_ND96asr_v4 --junit gate.xml
  busbw gate today --thresholds baseline.toml
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    parser.add_argument("run", help="the run to judge")
    parser.add_argument(
        "--thresholds", "--baseline", metavar="FILE", type=Path, help="TOML of thresholds or a baseline"
    )
    parser.add_argument("--machine", metavar="TYPE", help="machine type, where the run does not say it")
    parser.add_argument("--sizes", metavar="SIZES", type=sizes, help="only thresholds at these sizes: 64M,1G")
    parser.add_argument("--tolerance", metavar="PERCENT", type=percent, help="instead of the thresholds' own")
    parser.add_argument("--strict", action="store_true", help="a figure below its limit fails even within its noise")
    parser.add_argument("--junit", metavar="FILE", type=Path, help="also write the checks as JUnit XML")
    parser.add_argument("--json", action="store_true", help="print the checks as JSON")
    parser.add_argument("--verbose", "-v", action="store_true", help="a line for every check, not for failures only")
    parser.add_argument("--runs", metavar="DIR", help="where kept runs lie")


def run(args: argparse.Namespace) -> int:
    # 1 is the word of a gate that judged.
    with exiting_with(2):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    from busbw.gate.judge import Result, judge
    from busbw.gate.junit import junit

    limits = _limits(args)
    checks = [
        check
        for each in resolve([args.run], args.runs)
        for check in judge(each.record, limits, machine=args.machine, strict=args.strict)
    ]
    if args.junit:
        with writing(args.junit):
            args.junit.write_bytes(junit(args.run, checks))
    if args.json:
        rows = [{"case": each.name, "result": each.result.value, "detail": each.detail} for each in checks]
        print(json.dumps(rows, indent=1))
    else:
        _print(checks, everything=args.verbose)
    return 1 if any(check.result is Result.FAILED for check in checks) else 0


def _limits(args: argparse.Namespace) -> list[Threshold]:
    from busbw.gate.thresholds import load, shipped

    limits = load(args.thresholds) if args.thresholds else shipped()
    if args.sizes:
        limits = [limit for limit in limits if limit.bytes in args.sizes]
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
