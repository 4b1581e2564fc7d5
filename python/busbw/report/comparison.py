"""A comparison for people (80 columns) and for programs (JSON)."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from busbw.analysis.comparison import Comparison, Row, Sweep
from busbw.analysis.differences import Difference
from busbw.analysis.fit import LatencyBandwidth
from busbw.analysis.ranges import describe
from busbw.analysis.samples import Figure
from busbw.analysis.statistics import Interval
from busbw.analysis.units import format_bytes, format_us
from busbw.analysis.verdict import Verdict, format_ratio
from busbw.base.text import WIDTH, columns, display_width, paint, sentences, shorten

# A sweep further than this from a straight line has no asymptote worth a ratio; its highest bandwidth says more.
_STRAIGHT = 0.1
_STYLES = {Verdict.FASTER: "green", Verdict.SLOWER: "red", Verdict.UNDECIDED: "dim", Verdict.NO_DIFFERENCE: ""}


def comparison_text(comparison: Comparison, *, colour: bool = False, table: bool = True) -> str:
    """What differs, then every case, then what it comes to in words."""
    letter = comparison.letter
    lines = [f"A  {shorten(comparison.a.label, WIDTH - 3)}", f"{letter}  {shorten(comparison.b.label, WIDTH - 3)}", ""]
    lines += difference_lines(comparison.differences, ("A", letter))
    lines += sentences(comparison.notes)
    if comparison.notes:
        lines.append("")
    for sweep in comparison.sweeps:
        title = str(sweep.shape) if str(sweep.shape) == str(sweep.other) else f"{sweep.shape} / {sweep.other}"
        lines.append(paint(shorten(title, WIDTH), "bold", colour=colour))
        if table:
            lines += [*_table(sweep.rows, letter, colour=colour), ""]
        lines += sentences(_summary(sweep, letter))
        lines.append("")
    lines += sentences(list(_footnotes(comparison)), bullet="")
    return "\n".join(lines).rstrip() + "\n"


def difference_lines(differences: Sequence[Difference], names: Sequence[str]) -> list[str]:
    """What differs between the runs: a column per run where that fits, else the runs that share each value."""
    if not differences:
        return ["Environment, library and machine: no difference recorded.", ""]
    lines = ["Differences besides the times:"]
    rows = [[each.what, *each.values] for each in differences]
    widths = [max(display_width(row[i]) for row in rows) for i in range(len(names) + 1)]
    if sum(widths) + 2 * len(names) + 2 <= WIDTH:
        table = columns(["", *names], rows, left=range(len(names) + 1))
        return [*lines, *(f"  {line}".rstrip() for line in table), ""]
    for each in differences:
        lines.append(f"  {shorten(each.what, WIDTH - 2)}")
        if len(names) == 2:
            lines += [
                f"    {name}  {shorten(value, WIDTH - 6 - len(name))}"
                for name, value in zip(names, each.values, strict=True)
            ]
        else:
            lines += _by_value(each.values, names)
    return [*lines, ""]


def _by_value(values: Sequence[str], names: Sequence[str]) -> list[str]:
    """A value and the runs that have it, in the order in which the values come."""
    lines = []
    for value in dict.fromkeys(values):
        having = "; ".join(name for name, own in zip(names, values, strict=True) if own == value)
        text = f"{shorten(value, WIDTH // 2)}: {having}"
        lines += textwrap.wrap(text, WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)
    return lines


def _table(rows: Sequence[Row], letter: str, *, colour: bool) -> list[str]:
    header = ["size", "A", letter, f"{letter} speed", "95 % interval", "verdict"]
    if rows and rows[0].interval:
        header[4] = f"{rows[0].interval.level:.0%} interval".replace("%", " %")
    cells = [
        [
            format_bytes(row.size), _figure(row.a), _figure(row.b), _ratio(row.ratio),
            _interval(row.interval),
            row.judgement.verdict.value,
        ]
        for row in rows
    ]  # fmt: skip
    styles = {(i, 5): _STYLES[row.judgement.verdict] for i, row in enumerate(rows)} if colour else None
    return ["  " + line for line in columns(header, cells, left=(5,), styles=styles)]


def _interval(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    # Two or three runs that differ much bound nothing; the digits of such an interval would say the opposite.
    if interval.high > 1e4 * interval.low:
        return "unbounded"
    return f"{_ratio(interval.low)[2:]} to {_ratio(interval.high)[2:]}"


def _ratio(ratio: float) -> str:
    return f"x {ratio:.3f}" if 0.1 <= ratio < 100 else f"x {ratio:.3g}"


def _figure(figure: Figure) -> str:
    if figure.time_us is not None:
        return format_us(figure.time_us)
    said = figure.range_of("busbw_GBps") or figure.range_of("algbw_GBps")
    if said is not None:
        return f"{said[0]:.2f} to {said[1]:.2f} GB/s"
    rate = figure.busbw_GBps if figure.busbw_GBps is not None else figure.algbw_GBps
    return "-" if rate is None else f"{rate:.2f} GB/s"


def _summary(sweep: Sweep, letter: str) -> list[str]:
    said = [sentence[0].upper() + sentence[1:] + "." for sentence in describe(sweep.ranges, letter)]
    lines = [_fit(name, fit) for name, fit in zip(("A", letter), sweep.fits, strict=True) if fit is not None]
    a, b = sweep.fits
    if a is not None and b is not None and max(a.misfit, b.misfit) <= _STRAIGHT:
        lines.append(f"Asymptotic bandwidth: {letter} has {format_ratio(b.algbw_GBps / a.algbw_GBps)} times that of A.")
    lines += _algorithms(sweep, letter)
    peak = _peak(sweep)
    return said + lines + ([peak.format(b=letter)] if peak else [])


def _algorithms(sweep: Sweep, letter: str) -> list[str]:
    """Which algorithm a side took from which size on, for the sides whose library says so."""
    sides = {"A": [(row.size, row.a.algorithm) for row in sweep.rows],
             letter: [(row.size, row.b.algorithm) for row in sweep.rows]}  # fmt: skip
    return [_crossings(name, taken) for name, taken in sides.items() if any(word for _, word in taken)]


def _crossings(name: str, algorithms: Sequence[tuple[int, str | None]]) -> str:
    """Channels and threads change with every size and a reason is long: the record has them."""
    parts: list[tuple[int, str]] = []
    for size, algorithm in algorithms:
        short = re.split("[@:]", algorithm or "unknown", maxsplit=1)[0]
        if not parts or parts[-1][1] != short:
            parts.append((size, short))
    return f"{name} ran {', '.join(f'{short} from {format_bytes(size)}' for size, short in parts)}."


def _fit(name: str, fit: LatencyBandwidth) -> str:
    return (
        f"{name} fitted: latency {fit.alpha_us:.2f} +- {fit.alpha_error_us:.2f} us, asymptotic algbw "
        f"{fit.algbw_GBps:.2f} +- {fit.algbw_error_GBps:.2f} GB/s (typical distance of a point from the line: "
        f"{100 * fit.misfit:.0f} %)."
    )


def _peak(sweep: Sweep) -> str | None:
    best = []
    for side in ("a", "b"):
        rates = [(getattr(row, side).busbw_GBps or 0.0, row.size) for row in sweep.rows]
        best.append(max(rates))
    if not all(rate > 0 for rate, _ in best):
        return None
    (a, a_size), (b, b_size) = best
    return f"Highest busbw: A {a:.2f} GB/s at {format_bytes(a_size)}, {{b}} {b:.2f} GB/s at {format_bytes(b_size)}."


def _footnotes(comparison: Comparison) -> Iterable[str]:
    rows = list(comparison.rows)
    if any(sweep.of_bus_bandwidth for sweep in comparison.sweeps):
        yield "Speeds are ratios of bus bandwidth, because the sides move different amounts."
    if any(row.interval is not None for row in rows):
        repeated = any(max(len(row.a.cases), len(row.b.cases)) > 1 for row in rows)
        noise = "between" if repeated else "within"
        what = f"of the ratio of medians, from the noise {noise} runs"
        if comparison.in_turns and repeated:
            what = "of the ratio of one round, from the noise between rounds, and holds however often one looks"
        yield (
            f"An interval is {what}. Faster or slower: it excludes 1. "
            f"No difference: it lies within {100 * comparison.margin:g} % of 1. Undecided: neither."
        )
        rounds = [row.judgement.more for row in rows if row.judgement.more and row.judgement.unit == "rounds"]
        if comparison.in_turns and rounds:
            yield f"Undecided sizes need about {min(rounds):,} more rounds: -N or --budget."
        if not repeated:
            yield (
                "Runs an hour apart can differ by more than that; several runs a side, as A1+A2+A3 B1+B2+B3, show it."
            )
    if any(row.interval is None for row in rows):
        few = max(max(row.samples) for row in rows if row.interval is None)
        yield (
            f"{'One sample each' if few <= 1 else 'Too few samples'}: no interval. Faster or slower is said of a size "
            "where the ratio is well outside of 10 % and of its scatter from size to size. No difference is said of "
            "several sizes together only. More runs a side, or measuring with --precision 1%, give more."
        )
    if not comparison.differences and any(row.judgement.verdict in (Verdict.FASTER, Verdict.SLOWER) for row in rows):
        yield (
            "Nothing that was recorded differs between the sides: a difference of speed is then something that was not "
            "recorded, such as another load on the machine."
        )


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "a": comparison.a.label,
        "b": comparison.b.label,
        "differences": [{"what": each.what, "values": list(each.values)} for each in comparison.differences],
        "notes": list(comparison.notes),
        "sweeps": [_sweep_json(sweep) for sweep in comparison.sweeps],
    }


def _sweep_json(sweep: Sweep) -> dict[str, Any]:
    shapes = {name: dict(vars(shape)) for name, shape in (("shape", sweep.shape), ("shape_b", sweep.other))}
    return {
        **shapes,
        "ratio_of": "busbw" if sweep.of_bus_bandwidth else "speed",
        "summary": describe(sweep.ranges),
        "fit": {name: _fit_json(fit) for name, fit in zip(("a", "b"), sweep.fits, strict=True)},
        "cases": [_row_json(row) for row in sweep.rows],
    }


def _fit_json(fit: LatencyBandwidth | None) -> dict[str, float] | None:
    if fit is None:
        return None
    return {
        "alpha_us": fit.alpha_us, "alpha_error_us": fit.alpha_error_us, "algbw_GBps": fit.algbw_GBps,
        "algbw_error_GBps": fit.algbw_error_GBps, "misfit": fit.misfit,
    }  # fmt: skip


def _row_json(row: Row) -> dict[str, Any]:
    interval = row.interval
    return {
        "bytes": row.size, "a_time_us": row.a.time_us, "b_time_us": row.b.time_us, "a_busbw_GBps": row.a.busbw_GBps,
        "b_busbw_GBps": row.b.busbw_GBps, "ratio": row.ratio,
        "interval": None if interval is None else {"low": interval.low, "high": interval.high, "level": interval.level},
        "a_algorithm": row.a.algorithm, "b_algorithm": row.b.algorithm,
        "verdict": row.judgement.verdict.value, "reason": row.judgement.reason, "words": row.judgement.words(),
        "samples": list(row.samples),
    }  # fmt: skip
