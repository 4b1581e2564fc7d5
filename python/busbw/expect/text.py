"""Predictions as tables for terminals, as JSON, and as the page that sets them beside what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from busbw.analysis.units import format_bytes, format_us
from busbw.base.text import columns, sentences
from busbw.expect import machines
from busbw.expect.bandwidth import Algorithm, algorithms, bus_bandwidth
from busbw.expect.check import LARGE_BYTES, Compared, Entry, entry_terms, worst
from busbw.expect.fabric import Fabric
from busbw.expect.links import NetKind
from busbw.expect.question import Prediction
from busbw.expect.span import Span
from busbw.expect.terms import Terms

_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv")
_SHOWN_BYTES = frozenset({8, 1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26, 1 << 28, 1 << 30, 1 << 32, 1 << 33})


def predictions_text(found: Sequence[Prediction], fabric: Fabric, terms: Terms) -> str:
    """A row per question, and where the figures come from."""
    rows = [
        [
            f"{each.question.nodes} x {each.question.gpus}", format_bytes(each.question.bytes),
            format_us(each.time_us.value), _times(each.time_us),
            _rate(each.busbw_GBps.value), _span(each.busbw_GBps), each.algorithm.value,
        ]
        for each in found
    ]  # fmt: skip
    table = columns(["nodes", "size", "time", "range", "GB/s", "range", "by"], rows, left=(3, 5, 6))
    said = [
        f"{fabric.name}: {machines.describe(fabric)}. Terms {terms.source}.",
        "GB/s is bus bandwidth as nccl-tests defines it. Ranges hold what about 95 of 100 well-run machines reach.",
    ]
    if any(each.question.nodes > 2 for each in found):
        said.append(
            "Beyond two nodes nothing was measured here: the network is taken to be without congestion, and the "
            "range grows with the nodes."
        )
    said += _prescribed(found, fabric)
    said += _notes(fabric, max((each.question.nodes for each in found), default=1))
    return "\n".join([*table, "", *sentences(said)]) + "\n"


def _prescribed(found: Sequence[Prediction], fabric: Fabric) -> list[str]:
    """What Google's guide for TCPX makes of all-reduces that NCCL itself would not send by rings."""
    others = [
        each.question for each in found
        if each.question.nodes > 1 and each.algorithm in {Algorithm.NVLS, Algorithm.TREE}
    ]  # fmt: skip
    if fabric.net is not NetKind.TCPX or not others:
        return []
    rings = bus_bandwidth(fabric, "all_reduce", Algorithm.RING, others[-1].gpus, others[-1].nodes)
    return [
        f"Google's guide for TCPX prescribes NCCL_ALGO=Ring. With it large all-reduces get {_rate(rings.value)} GB/s "
        f"at {others[-1].nodes} x {others[-1].gpus} ({_span(rings)})."
    ]


def _notes(fabric: Fabric, nodes: int) -> list[str]:
    """What the machine's file shows beyond the figures; of its network only where several nodes are asked about."""
    return [*fabric.notes, *(fabric.net_notes if nodes > 1 else ())]


def limits_text(fabric: Fabric, nodes: Sequence[int], *, multicast: bool, gpus_per_node: int | None = None) -> str:
    """For each collective, algorithm and number of GPUs: the bus bandwidth of large messages, and its range."""
    asked = (min(2, fabric.gpus), fabric.gpus) if gpus_per_node is None else (gpus_per_node,)
    rows = []
    for collective in _COLLECTIVES:
        for count in nodes:
            for gpus in dict.fromkeys(asked):
                for algorithm in algorithms(fabric, collective, gpus, count, multicast=multicast):
                    span = bus_bandwidth(fabric, collective, algorithm, gpus, count)
                    rows.append([collective, algorithm.value, f"{count} x {gpus}", _rate(span.value), _span(span)])
    table = columns(["collective", "algorithm", "GPUs", "GB/s", "range"], rows, left=(0, 1, 4))
    said = [
        f"{fabric.name}: {machines.describe(fabric)}.",
        "Bus bandwidth of large messages, as nccl-tests defines it; ranges hold what well-run machines reach. The page "
        "docs/reference/expected.md has the shares and their sources.",
        *_notes(fabric, max(nodes, default=1)),
    ]
    return "\n".join([*table, "", *sentences(said)]) + "\n"


def _times(span: Span) -> str:
    """Both ends in one unit."""
    unit, by = next((unit, by) for unit, by in (("s", 1e6), ("ms", 1e3), ("us", 0.0)) if span.high >= by)
    return f"{span.low / (by or 1):.3g} to {span.high / (by or 1):.3g} {unit}"


def _rate(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def _span(span: Span) -> str:
    return f"{_rate(span.low)} to {_rate(span.high)}"


def predictions_json(found: Sequence[Prediction], fabric: Fabric, terms: Terms) -> dict[str, Any]:
    """The same for programs."""
    return {
        "machine": fabric.name,
        "terms": terms.source,
        "notes": _notes(fabric, max((each.question.nodes for each in found), default=1)),
        "predictions": [
            {
                "collective": each.question.collective, "bytes": each.question.bytes, "nodes": each.question.nodes,
                "ranks": each.question.ranks, "time_us": each.time_us.value,
                "time_range_us": [each.time_us.low, each.time_us.high], "busbw_GBps": each.busbw_GBps.value,
                "busbw_range_GBps": [each.busbw_GBps.low, each.busbw_GBps.high], "algorithm": each.algorithm.value,
            }
            for each in found
        ],
    }  # fmt: skip


def check_text(checked: Iterable[tuple[Entry, list[Compared]]]) -> str:
    """A row per published sweep: how far the prediction is from it."""
    return "\n".join(columns(_HEADER, [_summary(*each) for each in checked], left=(0, 1, 6))) + "\n"


_HEADER = ["catalogue entry", "terms", "points", "worst", "from 64 MiB", "in range", "kind"]


def _summary(entry: Entry, compared: Sequence[Compared]) -> list[str]:
    inside = sum(each.inside for each in compared)
    large = any(each.bytes >= LARGE_BYTES for each in compared)
    return [
        entry.name, entry.calibrated_on or "general", str(len(compared)), f"{worst(compared):.0%}",
        f"{worst(compared, LARGE_BYTES):.0%}" if large else "-", f"{inside} of {len(compared)}",
        entry.role.value,
    ]  # fmt: skip


def page(checked: Sequence[tuple[Entry, list[Compared]]]) -> str:
    """The page that shows predicted against measured, as Markdown."""
    lines = [
        "# Predicted against measured",
        "",
        "Made by `busbw predict --against-catalogue --markdown`; a test compares this file with what that prints.",
        "",
        "Tables that the catalogue does not hold are scored in [predictions-others.md](predictions-others.md).",
        "",
        "Every published sweep of the catalogue on a machine type that busbw knows. Deviations are of the time,",
        "predicted over measured, less one, the largest of all sizes; in range counts measurements inside the range",
        "that was predicted. What agreement proves differs:",
        "",
        "| kind | meaning |",
        "|---|---|",
        "| forecast | no figure of the entry went into links' shares or latency terms |",
        "| repeat | as forecast, but another sweep of the same machine was fitted |",
        "| share | figures of it are a source of a share in python/busbw/expect/links.py or of a hop between nodes |",
        "| fit | the terms in python/busbw/expect/terms.py were fitted to it; `tools/fit_terms` does so again |",
        "",
        _row(_HEADER),
        "|---|---|---:|---:|---:|---:|---|",
        *(_row(_summary(*each)) for each in checked),
        "",
    ]
    for entry, compared in checked:
        lines += _section(entry, compared)
    return "\n".join(lines)


def _section(entry: Entry, compared: Sequence[Compared]) -> list[str]:
    fabric, terms = entry_terms(entry)
    note = f" {entry.note[0].upper()}{entry.note[1:]}." if entry.note else ""
    lines = [
        f"## {entry.name}", "", f"{entry.nodes} x {entry.gpus} GPUs of {fabric.name}, terms {terms.source}.{note}", "",
        _row(["collective", "size", "measured us", "predicted us", "range us", "deviation", "measured GB/s",
              "predicted GB/s", "by"]),
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]  # fmt: skip
    for each in compared:
        if len(compared) > 12 and each.bytes not in _SHOWN_BYTES:
            continue
        found = each.prediction
        measured = found.busbw_GBps.value * found.time_us.value / each.measured_us
        lines.append(
            _row([
                each.collective, format_bytes(each.bytes), f"{each.measured_us:.4g}", f"{found.time_us.value:.4g}",
                f"{found.time_us.low:.4g} to {found.time_us.high:.4g}", f"{each.deviation:+.0%}", _rate(measured),
                _rate(found.busbw_GBps.value), found.algorithm.value,
            ])
        )  # fmt: skip
    return [*lines, ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
