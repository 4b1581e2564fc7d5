"""`busbw report RUN ...`: variant tables or a page with curves, for people, spreadsheets, papers and programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from busbw.base.errors import UsageError, UserError
from busbw.base.files import write_whole
from busbw.base.words import Args
from busbw.cli.sources import SOURCES_HELP, resolve_sides

if TYPE_CHECKING:
    from busbw.report.curves import Curve, NamedRun
    from busbw.report.series import Expected
    from busbw.report.variants import Wanted

FORMATS = ("text", "md", "csv", "json", "html", "svg", "png", "latex")
_SUFFIXES = {
    ".txt": "text", ".markdown": "md", ".htm": "html", ".tex": "latex", **{f".{name}": name for name in FORMATS}
}  # fmt: skip
_DOCUMENTS = frozenset({"html", "svg", "png"})
EPILOG = f"""\
{SOURCES_HELP}
A+B names runs that repeat each other; the folder of an experiment is a column
for each variant.

examples:
  busbw report run.log --output page.html
  busbw report before.jsonl after.jsonl
  busbw report mine catalogue:ndv4-1node --output report.html
  busbw report catalogue:ncv4 --columns NCCL_GRAPH_FILE
  busbw report catalogue:ndmv4 --columns library,algorithm \\
      --collective all_gather --against NCCL --format latex
  busbw report run1 run2 --format md --latency-sizes 1K --bandwidth-sizes 1G,4G
"""


def run(args: Args) -> int:
    from busbw.base.text import wants_colour

    kind = args.format or (_SUFFIXES.get(args.output.suffix.lower(), "") if args.output else "text")
    if not kind:
        raise UsageError(f"'{args.output.suffix}' names no format; add --format {'|'.join(FORMATS)}")
    if args.thresholds and kind not in _DOCUMENTS and not (args.every and kind in ("csv", "json")):
        raise UsageError("--thresholds draws a line on a page or picture; add --output page.html, .svg or .png")
    if kind == "png" and not args.output and sys.stdout.isatty():
        raise UsageError("a PNG is nothing for a terminal; add --output FILE")
    content = _content(kind, args, colour=args.output is None and wants_colour(sys.stdout))
    if args.output is None:
        # A page or a picture is for a file. On a terminal it is text, which goes through the guard like every other.
        if kind not in _DOCUMENTS or sys.stdout.isatty():
            sys.stdout.write(content.decode())
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
        return 0
    write_whole(args.output, content)
    print(f"wrote {args.output}", file=sys.stderr)
    return 0


def _content(kind: str, args: Args, *, colour: bool) -> bytes:
    from busbw.report import tables
    from busbw.report.curves import make_curves
    from busbw.report.story import opening
    from busbw.report.variants import make_sections

    runs, named = _runs(args)
    curves = make_curves(runs, args.ranks, args.collective)
    if not curves:
        what = f"measured case of {args.collective}" if args.collective else "measured case"
        raise UserError(f"{', '.join(args.run)}: no {what}, there is nothing to report")
    wanted = _wanted(args, curves, named=named)
    if args.every and kind in ("csv", "json"):
        return _rows(kind, _points(args, curves, wanted))
    if kind in ("png", "svg", "html"):
        return _drawn(kind, args, curves, wanted)
    sections = make_sections(curves, wanted)
    if kind in ("csv", "json"):
        return _rows(kind, tables.sections_rows(sections))
    if kind == "latex":
        return tables.sections_latex(sections).encode()
    said = [opening(section, wanted.judge) for section in sections]
    if kind == "md":
        return tables.sections_markdown(sections, said).encode()
    return tables.sections_text(sections, said, colour=colour).encode()


def _runs(args: Args) -> tuple[list[NamedRun], bool]:
    """The runs by the names that they are told apart by at first, and whether the user gave those names."""
    from busbw.report.curves import NamedRun

    found = resolve_sides(args.run, args.runs, collective=args.collective)
    sides = list(dict.fromkeys(each.label for each in found))
    plain = [side.removeprefix("catalogue:") for side in sides]
    names = _names(args.names, len(sides)) or (plain if len(set(plain)) == len(plain) else sides)
    called = dict(zip(sides, names, strict=True))
    from_experiment = len(found) > len(sides) and not any("+" in side for side in sides)
    return [NamedRun(called[each.label], each.record) for each in found], args.names is not None or from_experiment


def _wanted(args: Args, curves: Sequence[Curve], *, named: bool) -> Wanted:
    from busbw.report.naming import parse_axes
    from busbw.report.variants import FIGURES, Wanted

    figures = None
    if args.figures is not None:
        figures = tuple(word.strip() for word in args.figures.split(","))
        unknown = [word for word in figures if word not in FIGURES]
        if unknown:
            raise UsageError(f"--figures {unknown[0]!r} is no figure; the figures are {', '.join(FIGURES)}")
    return Wanted(
        parse_axes(args.columns, curves), figures, args.against, args.latency_sizes, args.bandwidth_sizes, args.sizes,
        args.every or bool(args.columns), named,
    )  # fmt: skip


def _rows(kind: str, rows: list[dict[str, Any]]) -> bytes:
    from busbw.report.tables import rows_csv

    return (rows_csv(rows) if kind == "csv" else json.dumps(rows, indent=1) + "\n").encode()


def _names(text: str | None, count: int) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if len(names) != count or not all(names):
        raise UsageError(f"--names gives {len(names)} names for {count} runs")
    return names


def _drawn(kind: str, args: Args, curves: list[Curve], wanted: Wanted) -> bytes:
    """A page, or the plots alone."""
    from busbw.report.html import Page, page
    from busbw.report.picture import make_views
    from busbw.report.plots import picture
    from busbw.report.story import headline, how_measured, how_to_repeat, verdicts
    from busbw.report.variants import make_sections

    brief = make_sections(curves, replace(wanted, every=args.every))
    views = make_views(brief, _expected(args), wanted.judge)
    title = args.title or headline(brief)
    if kind != "html":
        return picture(views, title, kind)
    every = make_sections(curves, replace(wanted, every=True, latency=None, bandwidth=None))
    said = verdicts(brief, wanted.judge)
    repeat = how_to_repeat(brief, [*args.run, *(["--columns", args.columns] if args.columns else [])])
    measured = tuple(how_measured(brief))
    return page(Page(title, tuple(said), tuple(views), tuple(brief), tuple(every), measured, tuple(repeat))).encode()


def _expected(args: Args) -> Expected:
    from busbw.gate import thresholds

    limits = thresholds.load(args.thresholds) if args.thresholds else thresholds.shipped()
    return lambda record, shape, size: thresholds.expected_GBps(limits, record.run.machine, shape, size)


def _points(args: Args, curves: list[Curve], wanted: Wanted) -> list[dict[str, Any]]:
    from busbw.report.naming import name_columns
    from busbw.report.series import make_series, series_rows

    return series_rows(make_series(curves, _expected(args)), name_columns(curves, wanted.axes, named=wanted.named))
