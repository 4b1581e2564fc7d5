"""Markdown from the results of one or several calls: docs/results/gpu-*.md is what this prints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from verdict import ABSOLUTE_BAND_US, LARGE, RELATIVE_BAND, Point, points, samples

Result = Mapping[str, Any]


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
    runs = min((p.runs for p in found), default=0)
    return (
        f"| {collective} | {mode} | {runs} | {agreeing} of {len(found)} | {worst_small:.2f} us "
        f"| {100 * worst_large:.1f} % | {seconds[0]:.1f} s | {seconds[1]:.1f} s |"
    )


def _seconds(results: list[Result], tool: str) -> float:
    times: list[float] = [r["seconds"] for r in results if r["tool"] == tool and r["exit"] == 0]
    return median(times) if times else float("nan")


def _comparison(results: list[Result], ours: str) -> list[str]:
    lines = [
        "| collective | mode | runs each | points that agree | worst below 1 MiB | worst from 1 MiB "
        f"| nccl-tests takes | {ours} takes |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
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
        lines += ["| size | system (us) | other (us) | other is | runs |", "|---:|---:|---:|---|---:|"]
        for p in found:
            if p.placement == "out_of_place":
                lines.append(
                    f"| {_size(p.size)} | {p.reference_us:.2f} | {p.ours_us:.2f} | {_library_verdict(p)} | {p.runs} |"
                )
        lines.append("")
    return lines


def _library_verdict(point: Point) -> str:
    if point.agrees:
        return "the same within the band"
    percent = 100 * (point.reference_us / point.ours_us - 1)
    return f"{abs(percent):.1f} % {'faster' if percent > 0 else 'slower'}"


def _graph_file(results: list[Result]) -> list[str]:
    lines = ["| setting | time at 1 GiB (us) | busbw (GB/s) |", "|---|---:|---:|"]
    for (setting,), group in _groups(results, "setting").items():
        times = [row["out_of_place_us"] for r in group for row in r["rows"]]
        if times:
            # Two ranks: the bus factor 2(n-1)/n is 1.
            lines.append(f"| {setting} | {median(times):.0f} | {(1 << 30) / median(times) / 1e3:.1f} |")
    return lines


def markdown(calls: list[Mapping[str, Any]]) -> str:
    merged: dict[str, list[Result]] = defaultdict(list)
    for call in calls:
        for stage, results in call["stages"].items():
            merged[stage] += results
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
        ("Every type and operation, checked", "types", _types),
        ("A library that spoils results", "corrupt", _corrupt),
        ("Two NCCL versions", "libraries", _libraries),
        ("A graph file of another machine, 2 GPUs", "graph_file", _graph_file),
    ):
        if merged[stage]:
            lines += ["", f"## {title}", "", *section(merged[stage])]
    return "\n".join(lines) + "\n"
