"""`busbw history`: kept runs over time, where a collective got slower or faster, and what differed there."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from busbw.base.words import Args

if TYPE_CHECKING:
    from pathlib import Path

    from busbw.analysis.changes import Change
    from busbw.runs.history import Seen, Series

EPILOG = """\
One line for each machine, collective and class of sizes (small up to 64 KiB,
large from 64 MiB on). Change points are found by Pettitt's test (1979), with
1 % false alarms in a series.

exit code: 0 nothing is slower than before its last change, 1 something is

examples:
  busbw history
  busbw history --collective all_reduce --machine ndv5 --margin 5
  busbw history --export prometheus | curl --data-binary @- \\
      http://gateway:9091/metrics/job/busbw
  busbw history --export otlp > metrics.json
  busbw history --page history.html
"""


def run(args: Args) -> int:
    """Print, or export; 1 where the last change of a series is for the worse."""
    from busbw.analysis.changes import changes
    from busbw.runs import store
    from busbw.runs.history import differed, series
    from busbw.runs.index import Index

    with Index(store.location(args.runs)) as index:
        every = [
            (each, changes([seen.time_us for seen in each.runs], args.margin))
            for each in series(index, args.collective, args.machine)
        ]
        why = {
            (number, change.at): differed(index, each.runs[change.at - 1], each.runs[change.at])
            for number, (each, found) in enumerate(every) for change in found
        }  # fmt: skip
    if args.page is not None:
        _page(args.page, every, why)
    if args.push:
        _push(args.push, [each for each, _ in every])
    if args.export:
        print({"prometheus": _prometheus, "otlp": _otlp}[args.export]([each for each, _ in every]), end="")
    elif args.json:
        print(json.dumps([_as_json(each, found) for each, found in every], indent=1, ensure_ascii=False))
    else:
        for number, (each, found) in enumerate(every):
            print(_line(each))
            for change in found:
                print(_change(each.runs[change.at], change, why[number, change.at]))
        if not every:
            print("no kept run has a time and a date; `busbw runs` lists what is kept")
    return 1 if any(found and found[-1].ratio > 1 for _, found in every) else 0


def _page(path: Path, every: list[tuple[Series, list[Change]]], why: dict[tuple[int, int], list[str]]) -> None:
    """A page with a curve for each series over time, its changes as sentences."""
    from busbw.base.files import writing
    from busbw.report.html import Page, page
    from busbw.report.picture import LIGHT, Line, Mark, Plot, View

    views, said = [], []
    machines = dict.fromkeys((each.machine, each.collective) for each, _ in every)
    for machine, collective in machines:
        members = [each for each, _ in every if (each.machine, each.collective) == (machine, collective)]
        lines = []
        for column, each in enumerate(members):
            # Runs of one second stand beside each other.
            marks = {_nanoseconds(seen.started) // 10**9: seen.time_us for seen in each.runs}
            points = tuple(Mark(second, value) for second, value in sorted(marks.items()) if second > 0)
            lines.append(Line(column, "", column % len(LIGHT), column % len(LIGHT), points))
        names = tuple(_line(each).partition(": ")[0] for each in members)
        title = f"{machine or 'a machine without a name'}, {collective}"
        plot = Plot("history", "Time of a call", "us", True, tuple(lines), over="time")
        views.append(View(title, names, tuple(column % len(LIGHT) for column in range(len(names))), None, (plot,)))
    for number, (each, found) in enumerate(every):
        name = _line(each).partition(": ")[0]
        said += [f"{name}: {_change(each.runs[c.at], c, why[number, c.at]).strip()}" for c in found]
    measured = ("Each point is the shortest time out of place of a run.", "Changes are found by Pettitt's test (1979).")
    said = said or ["no change was found"]
    content = page(Page("Kept runs over time", tuple(said), tuple(views), (), (), measured, ("busbw history",)))
    with writing(path):
        path.write_text(content, encoding="utf-8")


PUSH_S = 10.0


def _push(url: str, every: list[Series]) -> None:
    """The newest time of each series to a push gateway, by Prometheus' own client."""
    from importlib import import_module

    from busbw.base.errors import UserError

    try:
        client = import_module("prometheus_client")
    except ImportError:
        raise UserError(
            "--push needs Prometheus' client: pip install 'busbw[history]'; --export needs nothing"
        ) from None
    registry = client.CollectorRegistry()
    labels = ["machine", "collective", "type", "ranks", "bytes"]
    gauge = client.Gauge("busbw_time_seconds", "Time of one call in the newest kept run.", labels, registry=registry)
    for each in every:
        gauge.labels(**_labels(each)).set(each.runs[-1].time_us * 1e-6)
    try:
        client.push_to_gateway(url, job="busbw", registry=registry, timeout=PUSH_S)
    except (OSError, ValueError) as problem:
        raise UserError(f"the push gateway {url} took nothing: {problem}") from None


def _line(each: Series) -> str:
    from busbw.analysis.units import format_bytes, format_us

    first, last = each.runs[0], each.runs[-1]
    name = f"{each.machine or 'a machine without a name'}, {each.collective}"
    what = f"{each.type + ', ' if each.type else ''}{each.ranks} ranks, {each.kind} ({format_bytes(each.bytes)})"
    count = f"{len(each.runs)} runs" if len(each.runs) != 1 else "1 run"
    since = f"since {first.started[:10]}, {format_us(first.time_us)} first, {format_us(last.time_us)} last"
    return f"{name}, {what}: {count} {since}"


def _change(seen: Seen, change: Change, why: list[str]) -> str:

    percent = 100 * math.expm1(abs(math.log(change.ratio)))
    word = "slower" if change.ratio > 1 else "faster"
    reason = "; ".join(why[:6]) or "no difference is recorded"
    return f"  {seen.started[:16]} {percent:.1f} % {word} from run {seen.run} on: {reason}"


def _as_json(each: Series, found: list[Change]) -> dict[str, object]:
    return {
        "machine": each.machine, "collective": each.collective, "type": each.type, "ranks": each.ranks,
        "class": each.kind, "bytes": each.bytes,
        "runs": [{"run": seen.run, "started": seen.started, "time_us": seen.time_us} for seen in each.runs],
        "changes": [
            {"run": each.runs[change.at].run, "started": each.runs[change.at].started, "time_ratio": change.ratio,
             "chance": change.chance} for change in found
        ],
    }  # fmt: skip


def _labels(each: Series) -> dict[str, str]:
    return {"machine": each.machine, "collective": each.collective, "type": each.type, "ranks": str(each.ranks),
            "bytes": str(each.bytes)}  # fmt: skip


def _prometheus(every: list[Series]) -> str:
    """The text format of a push gateway: the newest time of each series."""
    lines = ["# HELP busbw_time_seconds Time of one call in the newest kept run.", "# TYPE busbw_time_seconds gauge"]
    for each in every:
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in _labels(each).items())
        lines.append(f"busbw_time_seconds{{{labels}}} {each.runs[-1].time_us * 1e-6:.9g}")
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _otlp(every: list[Series]) -> str:
    """OTLP's JSON for metrics (opentelemetry-proto, metrics/v1): every run of each series is a data point."""
    points = [
        {"attributes": [{"key": name, "value": {"stringValue": value}} for name, value in _labels(each).items()],
         "timeUnixNano": str(_nanoseconds(seen.started)), "asDouble": seen.time_us * 1e-6}
        for each in every for seen in each.runs
    ]  # fmt: skip
    metric = {"name": "busbw.time", "unit": "s", "gauge": {"dataPoints": points}}
    scope = {"scope": {"name": "busbw"}, "metrics": [metric]}
    return json.dumps({"resourceMetrics": [{"resource": {"attributes": []}, "scopeMetrics": [scope]}]}) + "\n"


def _nanoseconds(started: str) -> int:
    from datetime import datetime, timezone

    try:
        when = datetime.fromisoformat(started.replace("Z", "+00:00"))
    except ValueError:
        return 0
    return int((when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp() * 1e9)
