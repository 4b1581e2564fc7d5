"""Rows of the tables of nccl-tests and mscclpp-test: cut by what their header names, checked, turned into cases."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from busbw.importers.values import ELEMENT_BYTES, number, type_named, whole
from busbw.records import Case, Collective, Placement

_TIMES = ("time", "cputime")
_GROUP = {"time": "time", "cputime": "cputime", "algbw": "algbw", "busbw": "busbw", "#wrong": "wrong", "wrong": "wrong",
          "error": "error", "res": "error", "delta": "error",
          "i_min": "i_min", "i_max": "i_max", "i_p99": "i_p99", "i_cv%": "i_cv%"}  # fmt: skip
_LEAD = {"size": "bytes", "bytes": "bytes", "count": "count", "n": "count", "type": "type", "redop": "op", "op": "op",
         "root": "root"}  # fmt: skip
OPS = frozenset({"sum", "prod", "max", "min", "avg", "mulsum"})

_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)\s+(\d\d:\d\d:\d\d)\s*$")


class Layout(NamedTuple):
    """The columns of a table as its header names them."""

    lead: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    placements: tuple[Placement | None, ...]
    timestamp: bool
    milliseconds: bool


class Row(NamedTuple):
    """One row as text, cut into its columns."""

    line: int
    lead: dict[str, str]
    groups: list[tuple[Placement | None, dict[str, str]]]
    timestamp: str | None


DEFAULT_LAYOUT = Layout(
    ("bytes", "count", "type", "op", "root"),
    (("time", "algbw", "busbw", "wrong"),) * 2,
    ("out_of_place", "in_place"),
    timestamp=False,
    milliseconds=False,
)


def layout_of(header: str, above: str) -> Layout | None:
    """The layout that a header line names; `above` is the line with the placements. None where it is no header."""
    words = header.replace("#wrong", "wrong").lstrip("# ").lower().split()
    starts = [index for index, word in enumerate(words) if word in _TIMES]
    if not starts or len(starts) > 2 or len(words) > 40 or "algbw" not in words or words[0] not in ("size", "bytes"):
        return None
    timestamp = words[-1] == "timestamp"
    ends = [*starts[1:], len(words) - timestamp]
    groups = tuple(tuple(_GROUP.get(word, "") for word in words[a:b]) for a, b in zip(starts, ends, strict=True))
    lead = tuple(_LEAD.get(word, "") for word in words[: starts[0]])
    if lead[:2] != ("bytes", "count") or "" in lead or len(set(lead)) < len(lead):
        return None
    if any("" in group or "busbw" not in group for group in groups):
        return None
    return Layout(lead, groups, _placements(above, len(groups)), timestamp, words[0] == "bytes")


def _placements(above: str, groups: int) -> tuple[Placement | None, ...]:
    words = re.findall(r"(out-of-|in-)place", above)
    found: list[Placement] = ["out_of_place" if word == "out-of-" else "in_place" for word in words]
    if len(found) == groups:
        return tuple(found)
    return ("out_of_place", "in_place") if groups == 2 else (None,)


def cut(line: str, number_: int, layout: Layout, *, one_placement: bool = False) -> Row | None:
    """The row that a line holds; None where it does not fit the layout. mscclpp-test prints one placement only."""
    words = line.lstrip("# ").split()
    timestamp = None
    if layout.timestamp:
        stamp = _TIMESTAMP.search(line)
        if stamp is None:
            return None
        timestamp = f"{stamp[1]}T{stamp[2]}"
        del words[-2:]
    lead_names = layout.lead
    widths = [len(group) for group in layout.groups]
    expected = len(lead_names) + sum(widths)
    if len(words) == expected - 1 and "op" in lead_names and words[lead_names.index("op")] not in OPS | {"none"}:
        words.insert(lead_names.index("op"), "")  # hypercube prints an empty reduction
    groups = _groups(line, words[len(lead_names) :], layout, one_placement)
    if groups is None or not all(whole(word) is not None for word in words[:2]):
        return None
    lead = dict(zip(lead_names, words, strict=False))
    if not _lead_is_sound(lead):
        return None
    return Row(number_, lead, groups, timestamp)


def _groups(
    line: str, words: list[str], layout: Layout, one_placement: bool
) -> list[tuple[Placement | None, dict[str, str]]] | None:
    names = layout.groups
    if len(words) == sum(len(group) for group in names):
        cut, at = [], 0
        for placement, group in zip(layout.placements, names, strict=True):
            cut.append((placement, dict(zip(group, words[at : at + len(group)], strict=True))))
            at += len(group)
    elif one_placement and len(words) in (len(names[0]), len(names[0]) - 1):
        # One placement only: a row out of place is pushed right by the width of the other group.
        gap = re.match(r"\s*\d+\s+\d+(\s+)", line)
        side = 1 if gap and len(gap[1]) > 25 and len(names) == 2 else 0
        cut = [(layout.placements[side], dict(zip(names[side], words, strict=False)))]
    else:
        return None
    return cut if all(_group_is_sound(group) for _, group in cut) else None


def _lead_is_sound(lead: dict[str, str]) -> bool:
    root = lead.get("root", "-1")
    return (
        lead.get("type", "float") in ELEMENT_BYTES
        and lead.get("op", "none") in OPS | {"none", ""}
        and len(root) <= 8
        and (root.removeprefix("-").isdecimal() and root.isascii())
    )


def _group_is_sound(group: dict[str, str]) -> bool:
    for name, word in group.items():
        if len(word) > 30 or (number(word) is None and word.lower().lstrip("+-") not in ("n/a", "nan", "inf", "-nan")):
            return False
        if name in ("time", "cputime") and word.startswith("-"):
            return False
    return "busbw" in group


@dataclass(frozen=True)
class Sweep:
    """What the rows of one table share."""

    layout: Layout
    collective: Collective
    options: dict[str, Any]
    is_mscclpp: bool


def cases_of(rows: list[Row], sweep: Sweep) -> list[Case]:
    """A case per row and placement."""
    collective, options, mscclpp = sweep.collective, sweep.options, sweep.is_mscclpp
    made: list[Case] = []
    cycle, first, before = 0, None, 0
    for row in rows:
        key = (row.lead["bytes"], row.lead.get("type"), row.lead.get("op"), row.lead.get("root"))
        size = int(row.lead["bytes"])
        if key == first and before > 0:
            cycle += 1
        first = first or key
        before = size
        template = Case(
            run="", case=0, collective=collective, bytes=size, placement=None, outcome="measured",
            cycle=cycle or None, count=int(row.lead["count"]),
            type="int32" if mscclpp else type_named(row.lead.get("type")),
            op=("sum" if collective == "all_reduce" else None) if mscclpp else _op(row.lead.get("op")),
            root=_root(row.lead.get("root")), iterations=options.get("iters"), checks=options.get("check"),
            aggregated=options.get("agg_iters"), graph_launches=options.get("cudagraph"),
            variant=f"kernel {options['kernel_num']}" if "kernel_num" in options else None, timestamp=row.timestamp,
        )  # fmt: skip
        for placement, group in row.groups:
            made.append(_measured(template, placement, group, sweep.layout))
    return made


def _measured(template: Case, placement: Placement | None, group: dict[str, str], layout: Layout) -> Case:
    time = number(group.get("time", ""))
    cpu_time = number(group.get("cputime", ""))
    algbw = number(group.get("algbw", ""))
    conversion = None
    if layout.milliseconds:
        conversion = "time from milliseconds"
        time, cpu_time = (None if each is None else each * 1000 for each in (time, cpu_time))
    if cpu_time is not None and algbw:
        conversion = "time from size over algorithm bandwidth: the table has the launch time in its place"
        time = round(template.bytes / algbw / 1000, 3)
    context: dict[str, Any] = {}
    if "error" in group and number(group["error"]) is not None:
        context["max_error"] = number(group["error"])
    for name, long in (("i_min", "iteration_min_us"), ("i_max", "iteration_max_us"), ("i_p99", "iteration_p99_us"),
                       ("i_cv%", "iteration_cv_percent")):  # fmt: skip
        if name in group and number(group[name]) is not None:
            context[long] = number(group[name])
    return replace(
        template, placement=placement, time_us=time, cpu_time_us=cpu_time, algbw_GBps=algbw,
        busbw_GBps=number(group.get("busbw", "")), wrong=number(group.get("wrong", "")), conversion=conversion,
        context=context,
    )  # fmt: skip


def _op(name: str | None) -> str | None:
    return None if name in (None, "", "none") else name


def _root(text: str | None) -> int | None:
    return None if text is None or text.startswith("-") else int(text)
