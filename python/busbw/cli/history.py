"""`busbw history`: kept runs over time, where a collective got slower or faster, and what differed there."""

from __future__ import annotations

import json
import math
import shlex
import sys
from typing import TYPE_CHECKING

from busbw.base.words import Args

if TYPE_CHECKING:
    from pathlib import Path

    from busbw.analysis.changes import Change
    from busbw.runs.history import Seen, Series

EPILOG = """\
One line for each machine, collective and class of sizes (small up to 64 KiB,
large from 64 MiB on). Change points are found by rank sums (Mann and Whitney,
1947) in seeded intervals, with at most 1 % false alarms in a series.

exit code: 0 nothing is slower than before its last change, 1 something is,
2 nothing could be read or sent

examples:
  busbw history
  busbw history --collective all_reduce --machine ndv5 --margin 5
  busbw history --export prometheus | curl --data-binary @- \\
      http://gateway:9091/metrics/job/busbw
  busbw history --export otlp > metrics.json
  busbw history --push-otlp http://collector:4318/v1/metrics
  busbw history --page history.html
"""


def run(args: Args) -> int:
    """Print, or export; 1 where the last change of a series is for the worse."""
    from busbw.base.errors import exiting_with

    with exiting_with(2):
        return _shown(args)


def _shown(args: Args) -> int:
    from busbw.analysis.changes import changes
    from busbw.analysis.differences import tells
    from busbw.base.errors import UserError
    from busbw.runs import export, store
    from busbw.runs.history import dates_that_cannot_be, differed, machines_apart, named_alike, same_names, series
    from busbw.runs.index import Index

    if args.runs and not store.location(args.runs).is_dir():
        raise UserError(f"--runs {args.runs}: no such folder; name one that holds kept runs")
    same = same_names(args.same)
    with Index(store.location(args.runs)) as index:
        _say(_notes(dates_that_cannot_be(index), named_alike(index, same)))
        every = [
            (each, changes([seen.time_us for seen in each.runs], args.margin))
            for each in series(index, args.collective, args.machine, same)
        ]
        why = {
            (number, place): differed(index, each.runs[begin:place], each.runs[place:end], tells)
            for number, (each, found) in enumerate(every)
            for begin, place, end in _sides(len(each.runs), found)
        }  # fmt: skip
    _say(_sharing(machines_apart(each for each, _ in every)))
    if args.page is not None:
        _page(args.page, every, why, _words(args))
    alone = [each for each, _ in every]
    if args.push:
        export.push_prometheus(args.push, alone)
    if args.push_otlp:
        export.push_otlp(args.push_otlp, alone)
    if args.export:
        print({"prometheus": export.prometheus, "otlp": export.otlp}[args.export](alone), end="")
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


MOST_NOTES = 5


def _notes(dates: list[tuple[str, str, str]], alike: list[tuple[str, str]]) -> list[str]:
    """What a person may set right: dates that cannot be true, and machines with two names."""
    from busbw.base.text import clean

    said = []
    if dates:
        run, started, why = dates[0]
        others = f", and {len(dates) - 1} more" if len(dates) > 1 else ""
        said.append(f"left out for its date{others}: run {run}, whose {clean(started)[:40]} {why}")
    pairs = [(clean(old)[:100], clean(new)[:100]) for old, new in alike]
    said += [f"{old or 'a machine without a name'} and {new} have the same hardware; --same '{old}={new}' makes one "
             "series of both" for old, new in pairs[:MOST_NOTES] if new and old]  # fmt: skip
    return said


def _sharing(names: list[str]) -> list[str]:
    """What a person may set right: machines that share a name."""
    from busbw.base.text import clean

    if not names:
        return []
    shown = ", ".join(clean(name)[:100] for name in names[:MOST_NOTES])
    more = f" and {len(names) - MOST_NOTES} more" if len(names) > MOST_NOTES else ""
    return [f"machines that share a name are told apart by their hardware, which changes in turns: {shown}{more}"]


def _say(notes: list[str]) -> None:
    for note in notes:
        print(f"busbw: {note}", file=sys.stderr)


def _sides(count: int, found: list[Change]) -> list[tuple[int, int, int]]:
    """By change: where the runs before it begin, its place, and where those after it end."""
    edges = [0, *(change.at for change in found), count]
    return list(zip(edges, edges[1:], edges[2:], strict=False))


def _words(args: Args) -> str:
    """The command that shows the same again."""
    said = ["busbw", "history"]
    for name in ("machine", "collective", "runs"):
        if value := getattr(args, name):
            said += [f"--{name}", str(value)]
    for pair in args.same or ():
        said += ["--same", str(pair)]
    return shlex.join([*said, "--margin", f"{100 * args.margin:g}"])


def _page(
    path: Path, every: list[tuple[Series, list[Change]]], why: dict[tuple[int, int], list[str]], command: str
) -> None:
    """A page with a curve for each series over time, its changes as sentences."""
    from statistics import median

    from busbw.base.files import write_whole
    from busbw.report.html import Page, page
    from busbw.report.picture import LIGHT, Line, Mark, Plot, View
    from busbw.runs.export import nanoseconds

    views, said = [], []
    machines = dict.fromkeys((each.machine, each.collective) for each, _ in every)
    for machine, collective in machines:
        members = [each for each, _ in every if (each.machine, each.collective) == (machine, collective)]
        lines: list[Line] = []
        relative: list[Line] = []
        for column, each in enumerate(members):
            # Runs of one second stand beside each other.
            marks = {nanoseconds(seen.started) // 10**9: seen.time_us for seen in each.runs}
            points = tuple(Mark(second, value) for second, value in sorted(marks.items()) if second > 0)
            usual = median(marks.values()) if marks else 1.0
            shares = tuple(Mark(mark.bytes, (mark.value or 0.0) / usual) for mark in points)
            for into, marked in ((lines, points), (relative, shares)):
                into.append(Line(column, "", column % len(LIGHT), column % len(LIGHT), marked))
        names = tuple(_line(each).partition(": ")[0] for each in members)
        title = f"{machine or 'a machine without a name'}, {collective}"
        # A tenth more is hard to see between 10 us and 10 ms.
        plots = (
            Plot("relative", "Time of a call over its median", "times", True, tuple(relative), over="time"),
            Plot("history", "Time of a call", "us", True, tuple(lines), over="time"),
        )
        views.append(View(title, names, tuple(column % len(LIGHT) for column in range(len(names))), None, plots))
    for number, (each, found) in enumerate(every):
        name = _line(each).partition(": ")[0]
        said += [f"{name}: {_change(each.runs[c.at], c, why[number, c.at]).strip()}" for c in found]
    measured = (
        "Each point is the shortest time out of place of a run.",
        "Changes are found by rank sums (Mann and Whitney, 1947).",
    )
    said = said or ["no change was found"]
    content = page(Page("Kept runs over time", tuple(said), tuple(views), (), (), measured, (command,)))
    write_whole(path, content)


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
