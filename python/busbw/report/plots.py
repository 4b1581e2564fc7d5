"""The plots of a report as PNG or SVG files, by matplotlib without a display."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from busbw.analysis.units import format_bytes
from busbw.base.errors import PackageError
from busbw.base.text import clean
from busbw.report.picture import LIGHT, MARKERS, Line, Plot, View

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
assert len(_MARKERS) == MARKERS
_NEUTRAL = "#5c6773"
_DASHES = (0, (4, 2))


def require_matplotlib(kind: str, instead: str = "--format html needs nothing") -> None:
    """PackageError where a PNG or SVG cannot be drawn here: who measures first asks before that."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.figure
    except ImportError:
        raise PackageError(f"a {kind.upper()}", "matplotlib", instead) from None


def picture(views: Sequence[View], title: str, kind: str) -> bytes:
    """One file with a row of pictures (ratio, bandwidth, latency) for each view, and its legend below."""
    require_matplotlib(kind)
    import matplotlib
    from matplotlib.figure import Figure

    words = " ".join([title, *(text for view in views for text in (view.title, view.base or "", *view.names))])
    families, missing = _fonts(clean(words))
    settings: Any = {
        "svg.fonttype": "none", "svg.hashsalt": "busbw", "font.size": 9, "text.parse_math": False,
        "font.family": families,
    }  # fmt: skip
    with matplotlib.rc_context(settings):
        across = max(len(view.plots) for view in views)
        figure = Figure(figsize=(max(7.0, 5.2 * across), 4.6 * len(views) + 0.5), dpi=150, layout="constrained")
        figure.suptitle(_wrapped(title, 30 * across + 20), fontsize=11, fontweight="bold", x=0.01, ha="left")
        parts = figure.subfigures(len(views), 1, squeeze=False)[:, 0]
        for part, view in zip(parts, views, strict=True):
            if len(views) > 1:
                part.suptitle(_wrapped(view.title, 34 * across + 20), fontsize=9.5, x=0.01, ha="left")
            for axes, plot in zip(part.subplots(1, across, squeeze=False)[0], view.plots, strict=False):
                _draw(axes, plot)
            for axes in part.axes[len(view.plots) :]:
                axes.set_visible(False)
            _legend(part, view, across)
        stream = io.BytesIO()
        logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # a family without a bold face will do
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
            # No date: the same runs give the same file.
            figure.savefig(stream, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None})
    if missing and kind == "png":
        print(
            f"busbw: no font of this machine has {' '.join(missing[:8])}, which stand as boxes; "
            "SVG and HTML leave the letters to whoever opens them",
            file=sys.stderr,
        )
    return stream.getvalue()


def _fonts(words: str) -> tuple[list[str], list[str]]:
    """The families that have these letters between them, the usual one first, and the letters that none has."""
    from matplotlib import font_manager, rcParams

    usual = rcParams["font.family"][0]
    families = [usual]
    letters = {letter for letter in words if not letter.isspace()}
    letters -= _letters(font_manager.findfont(font_manager.FontProperties(family=[usual])))
    for font in font_manager.fontManager.ttflist if letters else ():
        found = letters & _letters(font.fname)
        if found and not font.name.startswith("Last Resort"):  # which draws a box for every letter there is
            families.append(font.name)
            letters -= found
    return families, sorted(letters)


def _letters(file: str) -> set[str]:
    from matplotlib.ft2font import FT2Font

    try:
        return set(map(chr, FT2Font(file).get_charmap()))
    except (OSError, RuntimeError):
        return set()


def _wrapped(text: str, width: int) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(clean(text), width, break_on_hyphens=False))


def _draw(axes: Any, plot: Plot) -> None:
    for line in plot.lines:
        _line(axes, line, several=len({each.placement for each in plot.lines}) > 1)
    axes.set_title(_wrapped(f"{plot.title}, {plot.unit}", 60), loc="left", fontsize=9)
    axes.set_xscale("log", base=2)
    sizes = {point.bytes for line in plot.lines for point in line.points}
    if len(sizes) == 1:
        # Of one size matplotlib finds no good limits of a logarithmic axis.
        axes.set_xlim(*(size * by for size in sizes for by in (0.5, 2.0)))
    if plot.id == "ratio":
        axes.axhline(1, color=_NEUTRAL, linewidth=1.0)
    if plot.logarithmic:
        axes.set_yscale("log")
    elif plot.id != "ratio":
        marks = [mark for line in plot.lines for mark in (*line.points, *line.expected)]
        most = max((end for mark in marks for end in (mark.value, mark.high) if end), default=1.0)
        axes.set_ylim(0, 1.06 * most)  # the marker of the highest point is whole
    _ticks(axes, plot)
    axes.grid(visible=True, color="#e4e7eb", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _line(axes: Any, line: Line, *, several: bool) -> None:
    colour, points = LIGHT[line.colour], [point for point in line.points if point.value is not None]
    if points:
        axes.plot(
            [p.bytes for p in points], [p.value for p in points], color=colour, linewidth=1.6, markersize=4,
            linestyle=_DASHES if several and line.placement == "in place" else "-",
            marker=_MARKERS[line.marker % MARKERS], markevery=max(1, len(points) // 8),
        )  # fmt: skip
    band = [(p.bytes, p.low, p.high) for p in line.points if p.low and p.high]
    if len(band) == 1:
        # Beside each other where several columns have one size alone.
        axes.plot([band[0][0] * 1.03**line.column] * 2, band[0][1:], color=colour, linewidth=4, alpha=0.5)
    if band:
        sizes, low, high = zip(*band, strict=True)
        axes.fill_between(sizes, low, high, color=colour, alpha=0.18, lw=0)
    if line.expected:
        axes.plot([p.bytes for p in line.expected], [p.value for p in line.expected], color=colour, linestyle=":",
                  linewidth=1.6)  # fmt: skip


def _legend(part: Any, view: View, across: int) -> None:
    """Below the pictures, where it covers no curve."""
    from matplotlib.lines import Line2D

    seen = {line.column: line for plot in view.plots for line in plot.lines}
    handles = [
        Line2D([], [], color=LIGHT[line.colour], linewidth=1.6, marker=_MARKERS[line.marker % MARKERS], markersize=4,
               label=clean(view.names[column]))
        for column, line in sorted(seen.items())
    ]  # fmt: skip
    placements = {line.placement for plot in view.plots for line in plot.lines}
    if len(placements) > 1:
        handles.append(Line2D([], [], color=_NEUTRAL, linewidth=1.6, linestyle=_DASHES, label="dashed: in place"))
    if any(line.expected for plot in view.plots for line in plot.lines):
        handles.append(Line2D([], [], color=_NEUTRAL, linewidth=1.6, linestyle=":", label="dotted: expected"))
    longest = max(len(str(handle.get_label())) for handle in handles)
    columns = max(1, min(len(handles), 85 * across // (longest + 8)))
    part.legend(handles=handles, loc="outside lower left", ncols=columns, frameon=False, fontsize=8)


def _tick(value: float, unit: str) -> str:
    """As the page writes it: `30 ms`, `0.05`."""
    named, each = next(((n, e) for n, e in (("s", 1e6), ("ms", 1e3), ("us", 1.0)) if value >= e), ("us", 1.0))
    return f"{value / each:g} {named}" if unit == "us" else f"{value:.12f}".rstrip("0").rstrip(".")


def _ticks(axes: Any, plot: Plot) -> None:
    """Few sizes; plain numbers at 1, 2 and 5 of each power of ten, or at the powers alone where there are many."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=8))
    axes.xaxis.set_major_formatter(lambda size, _: format_bytes(size))
    if not plot.logarithmic:
        axes.yaxis.set_major_locator(MaxNLocator(7))
        return
    low, high = axes.get_ylim()
    few = LogLocator(subs=(1.0, 2.0, 5.0) if high < 200 * low else (1.0,), numticks=12)
    axes.yaxis.set_major_locator(few if high > 10 * low else MaxNLocator(6))
    axes.yaxis.set_major_formatter(lambda value, _: _tick(value, plot.unit))
    axes.yaxis.set_minor_formatter(NullFormatter())
