"""The report as one HTML file that opens offline: nothing is requested, and no text of a record becomes markup."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from busbw.analysis.differences import Difference
from busbw.analysis.units import format_bytes
from busbw.base.text import clean
from busbw.report.series import NamedRun, Point, Series
from busbw.report.summary import Table


def page(
    title: str, runs: Sequence[NamedRun], series: Sequence[Series], tables: Sequence[Table],
    differences: Sequence[Difference],
) -> str:  # fmt: skip
    """The whole page."""
    script, style = _part("page.js"), _part("page.css")
    # The page may run this one script and load nothing: what a record smuggled in could not even ask for an image.
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src '{_hash(script)}'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(title)}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{_text(title)}</h1><button id="theme" type="button">Light / dark</button></header>
{_differences(runs, differences)}
<section id="live" hidden>
<h2>Over size</h2>
<p class="soft">Point at a curve, or use the arrow keys, for the values of all runs. Bands: the middle 80 % of the
samples, or the measured interval. Dotted: expected, by the record or the thresholds of its machine.</p>
<div id="controls"><select id="view" aria-label="Collective"></select>
<fieldset id="runs" aria-label="Runs"></fieldset><fieldset id="placements" aria-label="Placement"></fieldset></div>
<div id="plots">
{_figure("busbw", "Bus bandwidth, GB/s")}
{_figure("latency", "Latency")}
</div>
</section>
<noscript><p>The curves need JavaScript; the tables do not.</p></noscript>
{_tables(tables)}
<script id="data" type="application/json">{_json(_data(runs, series))}</script>
<script>{script}</script>
</body>
</html>
"""


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _text(value: object) -> str:
    return escape(clean(value))


def _json(value: Any) -> str:
    """JSON that can stand in a script element: nothing in it closes the element or opens a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _figure(name: str, caption: str) -> str:
    return (
        f'<figure id="{name}"><figcaption>{caption}</figcaption>'
        f'<svg class="plot" role="img" tabindex="0" aria-label="{caption} over size"></svg>'
        '<p class="empty soft" hidden>Nothing to show: all is switched off, or no run here has such a figure.</p>'
        '<div class="values" role="status" hidden></div></figure>'
    )


def _data(runs: Sequence[NamedRun], series: Sequence[Series]) -> dict[str, Any]:
    return {
        "runs": [{"name": clean(run.name)} for run in runs],
        "views": [clean(view) for view in dict.fromkeys(each.view for each in series)],
        "series": [
            {
                "run": each.run, "view": clean(each.view), "variant": each.variant and clean(each.variant),
                "placement": each.shape.placement or "unknown", "ranks": each.shape.ranks,
                "points": [_point(point) for point in each.points],
            }
            for each in series
        ],
    }  # fmt: skip


def _point(point: Point) -> dict[str, Any]:
    named = {
        "bytes": point.bytes, "time": point.time_us, "busbw": point.busbw_GBps, "time_low": point.low_us,
        "time_high": point.high_us, "busbw_low": point.low_GBps, "busbw_high": point.high_GBps,
        "expected": point.expected_GBps,
    }  # fmt: skip
    return {key: float(f"{value:.7g}") if isinstance(value, float) else value for key, value in named.items()}


def _differences(runs: Sequence[NamedRun], differences: Sequence[Difference]) -> str:
    if len(runs) < 2:
        return ""
    if not differences:
        return "<h2>What differs</h2><p>No difference of library, machine or environment is recorded.</p>"
    head = "".join(f'<th class="text">{_text(run.name)}</th>' for run in runs)
    body = "".join(
        f'<tr><td class="text">{_text(each.what)}</td>'
        + "".join(f'<td class="text">{_text(value)}</td>' for value in each.values)
        + "</tr>"
        for each in differences
    )
    return (
        '<h2>What differs</h2><div class="wide"><table id="differences">'
        f"<thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _tables(tables: Sequence[Table]) -> str:
    parts = []
    for section in dict.fromkeys(table.section for table in tables):
        parts.append(f"<h2>{_text(section)}</h2>")
        parts += [_table(table) for table in tables if table.section == section]
    if parts:
        parts.append('<p class="soft">Bold: the best of its collective at this size.</p>')
    return "\n".join(parts)


def _table(table: Table) -> str:
    head = "".join(f"<th>{_text(label)}</th>" for label in table.columns)
    rows = "".join(
        f"<tr><td>{format_bytes(size)}</td>"
        + "".join(f"<td>{cell.text(2, lambda text: f'<b>{text}</b>')}</td>" for cell in row)
        + "</tr>"
        for size, row in zip(table.sizes, table.cells, strict=True)
    )
    return (
        f'<h3>{_text(table.quantity)}</h3><div class="wide"><table class="summary">'
        f"<thead><tr><th>Size</th>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
