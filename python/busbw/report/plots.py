"""The curves as PNG or SVG files, by matplotlib without a display."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from busbw.analysis.units import format_bytes
from busbw.base.errors import UserError
from busbw.base.text import clean
from busbw.report.series import Point, Series

_COLOURS = ("#1f6fd1", "#d1480b", "#178a55", "#9a3fb5", "#a66f00", "#0b7f94", "#c4285f", "#5c6773")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_NEUTRAL = "#5c6773"
_SHORT_LEGEND = 5
"""Entries of a legend that still leave the curves free."""
_QUANTITIES: tuple[tuple[str, Callable[[Point], tuple[float | None, float | None, float | None]]], ...] = (
    ("Bus bandwidth, GB/s", lambda p: (p.busbw_GBps, p.low_GBps, p.high_GBps)),
    ("Latency, us", lambda p: (p.time_us, p.low_us, p.high_us)),
)


def picture(series: Sequence[Series], title: str, kind: str) -> bytes:
    """One file with a row of two pictures (bus bandwidth, latency) per collective."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError(
            f"a {kind.upper()} needs matplotlib, which is not installed: pip install matplotlib brings it; "
            "--format html needs nothing"
        ) from None
    views = list(dict.fromkeys(each.view for each in series))
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "busbw", "font.size": 9, "text.parse_math": False}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(11, 4.2 * len(views)), dpi=150, layout="constrained")
        figure.suptitle(clean(title), fontsize=11, fontweight="bold", x=0.01, ha="left")
        grid = figure.subplots(len(views), 2, squeeze=False)
        for row, view in zip(grid, views, strict=True):
            members = [each for each in series if each.view == view]
            for axes, (name, read) in zip(row, _QUANTITIES, strict=True):
                _draw(axes, members, read)
                axes.set_title(f"{name}   {clean(view)}" if len(views) > 1 else name, loc="left", fontsize=9)
            _legend(row)
        stream = io.BytesIO()
        # No date: the same runs give the same file.
        figure.savefig(stream, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return stream.getvalue()


def _draw(axes: Any, members: Sequence[Series], read: Callable[[Point], tuple[float | None, ...]]) -> None:
    drawn: set[str] = set()
    several = {each.shape.placement for each in members} > {"in_place"}
    for each in members:
        points = [(p.bytes, *read(p)) for p in each.points if p.bytes > 0 and (read(p)[0] or 0) > 0]
        if not points:
            continue
        colour, marker = _look(each, members)
        axes.plot(
            [point[0] for point in points], [point[1] for point in points], color=colour, linewidth=1.6, markersize=4,
            linestyle=(0, (4, 2)) if several and each.shape.placement == "in_place" else "-",
            marker=marker or ("o" if len(points) <= 3 else None), markevery=max(1, len(points) // 8),
            label=None if each.label in drawn else clean(each.label),
        )  # fmt: skip
        drawn.add(each.label)
        band = [point for point in points if point[2] and point[3]]
        bounds = [p[2] for p in band], [p[3] for p in band]
        axes.fill_between([p[0] for p in band], *bounds, color=colour, alpha=0.18, lw=0)
        _expected(axes, each, colour, wanted=read is _QUANTITIES[0][1])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    _ticks(axes)
    axes.grid(visible=True, color="#e4e7eb", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if several:
        axes.plot([], [], color=_NEUTRAL, linewidth=1.6, linestyle=(0, (4, 2)), label="dashed: in place")
    if read is _QUANTITIES[0][1] and any(point.expected_GBps for each in members for point in each.points):
        axes.plot([], [], color=_NEUTRAL, linewidth=1.6, linestyle=":", label="dotted: expected")


def _look(each: Series, members: Sequence[Series]) -> tuple[str, str | None]:
    """A colour per run, shared out anew where there are more runs than colours, and a marker per further variant."""
    runs = list(dict.fromkeys(member.run for member in members))
    run = runs.index(each.run) if max(runs) >= len(_COLOURS) else each.run
    variants = list(dict.fromkeys(member.variant for member in members if member.run == each.run))
    marker = _MARKERS[variants.index(each.variant) % len(_MARKERS)] if len(variants) > 1 else None
    return _COLOURS[run % len(_COLOURS)], marker


def _legend(row: Sequence[Any]) -> None:
    """One legend for both pictures: within the first where it is short, else beside them, where it covers no curve."""
    handles, labels = row[0].get_legend_handles_labels()
    if not handles:
        handles, labels = row[1].get_legend_handles_labels()
    if 0 < len(handles) <= _SHORT_LEGEND:
        row[0].legend(handles, labels, frameon=False, fontsize=8)
    elif handles:
        row[1].legend(handles, labels, frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _ticks(axes: Any) -> None:
    """Few sizes; plain numbers at 1, 2 and 5 of each power of ten, or at the powers alone where there are many."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=8))
    axes.xaxis.set_major_formatter(lambda size, _: format_bytes(size))

    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 200 * low else (1.0,), numticks=12))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.12f}".rstrip("0").rstrip("."))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _expected(axes: Any, each: Series, colour: str, *, wanted: bool) -> None:
    points = [(p.bytes, p.expected_GBps) for p in each.points if p.expected_GBps]
    if wanted and points:
        axes.plot([p[0] for p in points], [p[1] for p in points], color=colour, linestyle=":", linewidth=1.6)
