"""The report as one HTML file that opens offline: nothing is requested, and no text of a record becomes markup."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from busbw.base.page import document, escaped
from busbw.base.text import clean
from busbw.report.picture import DARK, LIGHT, Line, Mark, Plot, View
from busbw.report.story import SHOWN
from busbw.report.tables import BEST, explained, table_html
from busbw.report.variants import Section


@dataclass(frozen=True)
class Page:
    """Everything that a page says. `every` holds the sections of `sections` with all their sizes."""

    title: str
    verdicts: tuple[str, ...]
    views: tuple[View, ...]
    sections: tuple[Section, ...]
    every: tuple[Section, ...]
    measured: tuple[str, ...]
    repeat: tuple[str, ...]


def page(said: Page) -> str:
    """The whole page."""
    body = f"""<header><h1>{escaped(said.title)}</h1><button id="theme" type="button">Light / dark</button></header>
{_verdicts(said.verdicts)}
<section id="live" hidden>
<div id="controls"><select id="view" aria-label="Which of the tables below the plots show"></select>
<fieldset id="runs" aria-label="Columns"></fieldset><fieldset id="placements" aria-label="Placement"></fieldset></div>
<div id="plots"></div>
<p class="soft">Point at a curve, or use the arrow keys, for the values of all columns. Bands: the interval of a ratio;
the middle 80 % of the samples, or the measured interval, of a figure. Dotted: expected, by the record or the thresholds
of its machine.</p>
</section>
<noscript><p>The curves need JavaScript; the tables do not.</p></noscript>
{_sections(said.sections, said.every)}
<h2>How it was measured</h2>
{_list(said.measured)}
<h2>How to repeat it</h2>
{"".join(f"<pre>{escaped(command)}</pre>" for command in said.repeat)}
<script id="data" type="application/json">{_json({"views": [_view(view) for view in said.views]})}</script>"""
    return document(said.title, _colours() + _part("page.css"), body, _part("page.js"))


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON that can stand in a script element: nothing in it closes the element or opens a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _colours() -> str:
    """The palettes of the model: the page has no colours of its own for columns."""
    light, dark = ("".join(f"--c{i}:{colour};" for i, colour in enumerate(each)) for each in (LIGHT, DARK))
    return (
        f':root{{{light}}}:root[data-theme="dark"]{{{dark}}}'
        f'@media (prefers-color-scheme: dark){{:root:not([data-theme="light"]){{{dark}}}}}\n'
    )


def _verdicts(verdicts: Sequence[str]) -> str:
    lead = "".join(f'<p class="verdict">{escaped(each)}</p>' for each in verdicts[:SHOWN])
    rest = verdicts[SHOWN:]
    if not rest:
        return lead
    return f"{lead}<details><summary>{len(rest)} more</summary>{_list(rest)}</details>"


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escaped(line)}</li>" for line in lines) + "</ul>"


def _view(view: View) -> dict[str, Any]:
    return {
        "title": clean(view.title),
        "names": [clean(name) for name in view.names],
        "plots": [_plot(plot) for plot in view.plots],
    }


def _plot(plot: Plot) -> dict[str, Any]:
    return {
        "id": plot.id, "title": clean(plot.title), "unit": plot.unit, "logarithmic": plot.logarithmic,
        "over": plot.over,
        "lines": [_line(line) for line in plot.lines],
    }  # fmt: skip


def _line(line: Line) -> dict[str, Any]:
    return {
        "column": line.column, "placement": line.placement or "placement not known", "colour": line.colour,
        "marker": line.marker, "points": [_mark(each) for each in line.points],
        "expected": [_mark(each)[:2] for each in line.expected],
    }  # fmt: skip


def _mark(mark: Mark) -> list[float | None]:
    figures = [mark.value, mark.low, mark.high] if mark.low and mark.high else [mark.value]
    return [mark.bytes, *(float(f"{value:.7g}") if value is not None else None for value in figures)]


def _sections(sections: Sequence[Section], every: Sequence[Section]) -> str:
    parts = []
    for section, whole in zip(sections, every, strict=True):
        parts.append(f"<h2>{escaped(section.title)}</h2>")
        shown = {table.quantity: table for table in section.tables}
        for table in whole.tables:
            brief = shown.get(table.quantity)
            if brief is None and len(table.sizes) == 1:
                brief = table
            if brief is not None:
                parts.append(table_html(brief))
            if brief is None or len(brief.sizes) < len(table.sizes):
                title = f"All {len(table.sizes)} sizes: {table.quantity}"
                parts.append(f"<details><summary>{escaped(title)}</summary>{table_html(table, titled=False)}</details>")
        if section.notes:
            parts += ["<h3>What differs, and what to know</h3>", _list(section.notes)]
    if any(cell.best for section in every for table in section.tables for row in table.cells for cell in row):
        parts.append(f'<p class="soft">Bold: {BEST}.</p>')
    parts += [f'<p class="soft">{escaped(line)}</p>' for line in explained(every)]
    return "\n".join(parts)
