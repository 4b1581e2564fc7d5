"""Markdown from the results of one or several calls: docs/results/gpu-*.md is what this prints."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from verdict import ABSOLUTE_BAND_US, LARGE, RELATIVE_BAND, Point, points, samples

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from busbw.analysis.verdict import of_runs

Result = Mapping[str, Any]

# Where a machine keeps its Python tells a reader of the page nothing. Long paths come shortened in the middle.
_WHEEL = re.compile(r"/\S*nvidia/nccl/lib/libnccl\.so\.2")


def _size(count: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:.4g} {unit}"
    return f"{count} B"


def _groups(results: Iterable[Result], *keys: str) -> dict[tuple[str, ...], list[Result]]:
    groups: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    for result in results:
        groups[tuple(str(result[key]) for key in keys)].append(result)
    return groups


def _pairs(
    results: list[Result], reference: str, ours: str, by: str = "tool"
) -> Iterable[tuple[str, str, list[Point]]]:
    for (collective, mode), group in _groups(results, "collective", "mode").items():
        sides = _groups(group, by)
        if (reference,) in sides and (ours,) in sides:
            yield collective, mode, points(samples(sides[reference,]), samples(sides[ours,]))


def _summary_line(collective: str, mode: str, found: list[Point], seconds: tuple[float, float]) -> str:
    small = [p for p in found if p.size < LARGE]
    large = [p for p in found if p.size >= LARGE]
    worst_small = max((abs(p.difference_us) for p in small), default=0.0)
    worst_large = max((abs(p.ratio - 1) for p in large), default=0.0)
    agreeing = sum(p.agrees for p in found)
    return (
        f"| {collective} | {mode} | {_runs(found, 0)} | {_runs(found, 1)} "
        f"| {agreeing} of {len(found)} | {worst_small:.2f} us | {100 * worst_large:.1f} % "
        f"| {seconds[0]:.1f} s | {seconds[1]:.1f} s |"
    )


def _runs(found: list[Point], side: int) -> str:
    """How many runs a median rests on: "5", or "2 to 5" where sizes differ."""
    counts = sorted({point.runs[side] for point in found}) or [0]
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _seconds(results: list[Result], tool: str) -> float:
    """Of the runs that began at the smallest size; a part of a sweep takes a part of the time."""
    ended = [r for r in results if r["tool"] == tool and r["exit"] == 0 and r["rows"]]
    smallest = min((r["rows"][0]["size"] for r in ended), default=0)
    times: list[float] = [r["seconds"] for r in ended if r["rows"][0]["size"] == smallest]
    return median(times) if times else float("nan")


def _comparison(results: list[Result], ours: str) -> list[str]:
    lines = [
        f"| collective | mode | runs of nccl-tests | of {ours} | points that agree | worst below 1 MiB "
        f"| worst from 1 MiB | nccl-tests takes | {ours} takes |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    details: list[str] = []
    for collective, mode, found in _pairs(results, "nccl-tests", ours):
        group = [r for r in results if r["collective"] == collective and r["mode"] == mode]
        lines.append(_summary_line(collective, mode, found, (_seconds(group, "nccl-tests"), _seconds(group, ours))))
        details += ["", f"### {collective}, {mode}", "", *_points_table(found, ours)]
    return lines + details


def _points_table(found: list[Point], ours: str) -> list[str]:
    by_size: dict[int, dict[str, Point]] = defaultdict(dict)
    for point in found:
        by_size[point.size][point.placement] = point
    lines = [
        f"| size | nccl-tests (us) | {ours} (us) | difference | runs' spread (us) "
        f"| in place: nccl-tests | {ours} | difference |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for size, placements in sorted(by_size.items()):
        out, inside = placements.get("out_of_place"), placements.get("in_place")
        if out is None or inside is None:
            continue
        lines.append(
            f"| {_size(size)} | {out.reference_us:.2f} | {out.ours_us:.2f} | {_difference(out)} "
            f"| {out.reference_spread_us:.2f} | {inside.reference_us:.2f} | {inside.ours_us:.2f} "
            f"| {_difference(inside)} |"
        )
    return lines


def _difference(point: Point) -> str:
    text = f"{point.difference_us:+.2f} us" if point.size < LARGE else f"{100 * (point.ratio - 1):+.1f} %"
    return text if point.agrees else f"**{text}**"


def _types(results: list[Result]) -> list[str]:
    lines = ["| collective | GPUs | exit code | rows | rows with wrong elements |", "|---|---:|---:|---:|---:|"]
    for r in results:
        wrong = sum(bool(row["out_of_place_wrong"]) or bool(row["in_place_wrong"]) for row in r["rows"])
        lines.append(f"| {r['collective']} | {r['gpus']} | {r['exit']} | {len(r['rows'])} | {wrong} |")
    return lines


def _corrupt(results: list[Result]) -> list[str]:
    lines = ["| elements spoiled per call | #wrong found, by row and placement | exit code |", "|---:|---|---:|"]
    for r in results:
        counts = sorted({row[key] for row in r["rows"] for key in ("out_of_place_wrong", "in_place_wrong")})
        lines.append(f"| {r['planted']} | {', '.join(f'{c:g}' for c in counts)} | {r['exit']} |")
    return lines


def _libraries(results: list[Result]) -> list[str]:
    lines: list[str] = []
    others = [r["library"] for r in results if r["library"] != "system"]
    if not others:
        return lines
    for collective, mode, found in _pairs(results, "system", others[0], by="library"):
        lines += [f"### {collective}, {mode}: system against {others[0]}", ""]
        lines += ["| size | system (us) | other (us) | the other | runs |", "|---:|---:|---:|---|---:|"]
        for p in found:
            if p.placement == "out_of_place":
                times = f"{p.reference_us:.2f} | {p.ours_us:.2f}"
                lines.append(f"| {_size(p.size)} | {times} | {_library_verdict(p)} | {min(p.runs)} |")
        lines.append("")
    return lines


def _library_verdict(point: Point) -> str:
    """As busbw itself compares runs."""
    return of_runs(*point.times).words("it")


def _graph_file(results: list[Result]) -> list[str]:
    lines = ["| setting | time at 1 GiB (us) | busbw (GB/s) |", "|---|---:|---:|"]
    for (setting,), group in _groups(results, "setting").items():
        times = [row["out_of_place_us"] for r in group for row in r["rows"]]
        if times:
            # Two ranks: the bus factor 2(n-1)/n is 1.
            lines.append(f"| {setting} | {median(times):.0f} | {(1 << 30) / median(times) / 1e3:.1f} |")
    return lines


def _start_up(results: list[Result]) -> list[str]:
    lines = ["| mode | nccl-tests (s) | busbw (s) | runs |", "|---|---:|---:|---:|"]
    for (mode,), group in _groups(results, "mode").items():
        runs = min(sum(r["tool"] == tool for r in group) for tool in ("nccl-tests", "busbw"))
        lines.append(f"| {mode} | {_seconds(group, 'nccl-tests'):.2f} | {_seconds(group, 'busbw'):.2f} | {runs} |")
    return lines


def _context(results: list[Result]) -> list[str]:
    lines = ["One line of each kind as it was printed:", ""]
    for r in results:
        told = [line for line in r["lines"] if " MHz; " in line]
        said = [line for line in r["lines"] if "warning:" in line or "# Warning" in line or "# Time spent" in line]
        lines += [f"    {r['mode']}, {r['options']}: exit {r['exit']}, {r['seconds']:.1f} s"]
        lines += [f"    {line}" for line in [*told[-1:], *said]]
    return lines


def _launchers(results: list[Result]) -> list[str]:
    sides = {tool: samples(group) for (tool,), group in _groups(results, "tool").items()}
    if "mpirun" not in sides:
        return []
    others = [tool for tool in sides if tool != "mpirun"]
    lines = [
        "| size | mpirun (us) | " + " | ".join(f"{tool} (us) | difference" for tool in others) + " |",
        "|---:|---:|" + "---:|---:|" * len(others),
    ]
    by_size: dict[int, list[Point]] = defaultdict(list)
    for tool in others:
        for point in points(sides["mpirun"], sides[tool]):
            if point.placement == "out_of_place":
                by_size[point.size].append(point)
    for size, found in sorted(by_size.items()):
        cells = " | ".join(f"{p.ours_us:.2f} | {_difference(p)}" for p in found)
        lines.append(f"| {_size(size)} | {found[0].reference_us:.2f} | {cells} |")
    return lines


def _timelines(results: list[Result]) -> list[str]:
    """Means over the runs, in us."""
    columns = ("wait", "call", "between", "poll", "batch")
    lines = [
        "| ranks | elements | program | " + " | ".join(columns) + " |",
        "|---|---:|---|" + "---:|" * len(columns),
    ]
    rows: dict[tuple[str, int, str], list[Mapping[str, float]]] = defaultdict(list)
    for result in results:
        for row in result.get("timeline", ()):
            rows[result["mode"], int(row["count"]), result["tool"]].append(row)
    for (mode, count, tool), found in sorted(rows.items()):
        cells = (mean([row[c] for row in found if c in row] or [0.0]) for c in columns)
        lines.append(f"| {mode} | {count} | {tool} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")
    return lines


def _as_printed(results: list[Result]) -> list[str]:
    """All but messages such as where the records are."""
    return [f"    {line}".rstrip() for r in results for line in r["lines"] if not line.startswith("busbw: ")]


def markdown(calls: Sequence[Mapping[str, Any]]) -> str:
    merged: dict[str, list[Result]] = defaultdict(list)
    for call in calls:
        for stage, results in call["stages"].items():
            merged[stage] += results
    # The same command on the same machine: a run of nccl-tests beside --precision is one more for the comparison.
    merged["compare"] += [r for r in merged["precision"] if r["tool"] == "nccl-tests"]
    machine = calls[0]["machine"]
    lines = [
        "# Measured against nccl-tests on GPUs",
        "",
        "Made by `python3 bench/gpu`; times are medians over runs.",
        "",
    ]
    lines += [f"- {key}: {value}" for key, value in machine.items()]
    lines += [
        "",
        f"Agreement: within {100 * RELATIVE_BAND:.0f} % from 1 MiB up, within {ABSOLUTE_BAND_US} us below. What "
        "does not agree is set in bold. Runs' spread is the distance between the quartiles of nccl-tests' own runs.",
    ]
    for title, stage, section in (
        ("busbw against nccl-tests, same NCCL", "compare", lambda r: _comparison(r, "busbw")),
        ("Stopping at 2 % precision", "precision", lambda r: _comparison(r, "busbw 2%")),
        ("Start-up: one call of the largest size, unchecked", "start_up", _start_up),
        ("What the GPUs told", "context", _context),
        ("Two NCCL versions in one command", "together", _as_printed),
        ("Ways to start one process per GPU", "launchers", _launchers),
        ("torch.distributed", "torch", _as_printed),
        ("When ranks start, launch and poll", "timelines", _timelines),
        ("Every type and operation, checked", "types", _types),
        ("A library that spoils results", "corrupt", _corrupt),
        ("Two NCCL versions", "libraries", _libraries),
        ("A graph file of another machine, 2 GPUs", "graph_file", _graph_file),
    ):
        if merged[stage]:
            lines += ["", f"## {title}", "", *section(merged[stage])]
    return _WHEEL.sub("the wheel's libnccl.so.2", "\n".join(lines)) + "\n"
