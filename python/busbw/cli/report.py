"""`busbw report RUN ...`: a summary table or a page with curves, for people, spreadsheets and programs."""

from __future__ import annotations

import json
import sys

from busbw.base.errors import UsageError, UserError
from busbw.base.words import Args
from busbw.cli.sources import SOURCES_HELP, resolve

FORMATS = ("text", "md", "csv", "json", "html", "svg", "png")
_SUFFIXES = {".txt": "text", ".markdown": "md", ".htm": "html", **{f".{name}": name for name in FORMATS}}
EPILOG = f"""\
{SOURCES_HELP}

examples:
  busbw report before.jsonl after.jsonl
  busbw report mine catalogue:ndv4-1node --output report.html
  busbw report run1 run2 --format md --latency-sizes 1K --bandwidth-sizes 1G,4G
  busbw report catalogue:ndmv4-1x8
"""


def run(args: Args) -> int:
    from busbw.base.text import wants_colour

    kind = args.format or (_SUFFIXES.get(args.output.suffix.lower(), "") if args.output else "text")
    if not kind:
        raise UsageError(f"'{args.output.suffix}' names no format; add --format {'|'.join(FORMATS)}")
    if kind == "png" and not args.output and sys.stdout.isatty():
        raise UsageError("a PNG is nothing for a terminal; add --output FILE")
    content = _content(kind, args, colour=args.output is None and wants_colour(sys.stdout))
    if args.output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return 0
    try:
        args.output.write_bytes(content)
    except OSError as problem:
        raise UserError(f"the report cannot be written to {args.output}: {problem.strerror or problem}") from problem
    print(f"wrote {args.output}", file=sys.stderr)
    return 0


def _content(kind: str, args: Args, *, colour: bool) -> bytes:
    from busbw.analysis.differences import find_differences
    from busbw.gate import thresholds
    from busbw.report import summary
    from busbw.report.series import NamedRun, choose_names, make_series

    found = resolve(args.run, args.runs, by_variant=False, collective=args.collective)
    names = _names(args.names, len(found)) or choose_names([(each.label, each.record) for each in found])
    runs = [NamedRun(name, each.record) for name, each in zip(names, found, strict=True)]
    limits = thresholds.load(args.thresholds) if args.thresholds else thresholds.shipped()
    series = make_series(
        runs, lambda record, shape, size: thresholds.expected_GBps(limits, record.run.machine, shape, size)
    )
    if not series:
        raise UserError(f"{', '.join(args.run)}: no measured case, there is nothing to report")
    tables = summary.make_tables(series, args.latency_sizes, args.bandwidth_sizes)
    if kind in ("csv", "json"):
        rows = summary.series_rows(series) if args.every else summary.tables_rows(tables)
        return (summary.rows_csv(rows) if kind == "csv" else json.dumps(rows, indent=1) + "\n").encode()
    if kind in ("png", "svg"):
        from busbw.report.plots import picture

        return picture(series, args.title, kind)
    differences = find_differences([each.record for each in runs])
    if kind == "html":
        from busbw.report.html import page

        return page(args.title, runs, series, tables, differences).encode()
    if kind == "md":
        return summary.tables_markdown(tables).encode()
    from busbw.report.comparison import difference_lines

    lines = difference_lines(differences, names) if len(runs) > 1 else []
    return ("\n".join([*lines, ""]) if lines else "").encode() + summary.tables_text(tables, colour=colour).encode()


def _names(text: str | None, count: int) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) != count or not all(names):
        raise UsageError(f"--names gives {len(names)} names for {count} runs")
    return names
