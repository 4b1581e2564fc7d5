"""Rows of the tables of nccl-tests and mscclpp-test: cut by what their header names, checked, turned into cases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from busbw.importers.values import ELEMENT_BYTES, number, type_named, whole
from busbw.records import Case, Collective, Placement

_TIMES = ("time", "cputime")
_GROUP = {"time": "time", "cputime": "cputime", "algbw": "algbw", "busbw": "busbw", "#wrong": "wrong", "wrong": "wrong",
          "error": "error", "res": "error", "delta": "error",
          "i_min": "i_min", "i_max": "i_max", "i_p99": "i_p99", "i_cv%": "i_cv%"}  # fmt: skip
_LEAD = {"size": "bytes", "bytes": "bytes", "count": "count", "n": "count", "type": "type", "redop": "op", "op": "op",
         "root": "root"}  # fmt: skip
_CONTEXT = {"error": "max_error", "i_min": "iteration_min_us", "i_max": "iteration_max_us", "i_p99": "iteration_p99_us",
            "i_cv%": "iteration_cv_percent"}  # fmt: skip
OPS = frozenset({"sum", "prod", "max", "min", "avg", "mulsum"})

VERDICTS = frozenset({"PASS", "PASSED", "OK", "FAIL", "FAILED", "WARN", "\u2713", "\u2714", "\u2705", "\u274c"})
"""What scripts put behind a row that they judged."""
_LABELS = re.compile(r"\[\d{1,7}\]")
_UNIT = re.compile(r"\s*\((?:us|GB/s|B|bytes|elements)\)|\s*\[(?:us|GB/s|B)\]")
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d)\s+(\d\d:\d\d:\d\d)\s*$")


ROW_START = re.compile(r"#?\s*\d{1,20}\s+\d{1,20}(?:\s|$)")
FRAGMENT = re.compile(
    r"\s*\d{1,20}\s+\d{1,20}\s[^\n]{1,200}?(?=(?:\[\d{1,7}\] ?)?[A-Za-z][\w.-]{0,100}:\d{1,10}:\d{1,10} \[)"
)

BROKEN = re.compile(
    rf"\s*\d{{1,20}}\s+\d{{1,20}}\s+(?:{'|'.join(ELEMENT_BYTES)})\s+(?:(?:{'|'.join(sorted(OPS))}|none)\s+)?-?\d{{1,7}}"
    r"(?=[A-Za-z#\[<(])"
)
"""A row that other output broke before its first figure: alltoallv's own summary lands there, and warnings."""


class Layout(NamedTuple):
    """The columns of a table as its header names them."""

    lead: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    placements: tuple[Placement | None, ...]
    timestamp: bool
    milliseconds: bool
    is_cut: bool = False
    """Whether a terminal's width cut the second placement off, header and rows."""


class Row(NamedTuple):
    """One row as text, cut into its columns: what leads, then one group per placement that it has."""

    lead: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    placements: tuple[Placement | None, ...]
    timestamp: str | None


DEFAULT_LAYOUT = Layout(
    ("bytes", "count", "type", "op", "root"),
    (("time", "algbw", "busbw", "wrong"),) * 2,
    ("out_of_place", "in_place"),
    timestamp=False,
    milliseconds=False,
)


HALF_LAYOUT = DEFAULT_LAYOUT._replace(groups=DEFAULT_LAYOUT.groups[:1], placements=(None,))
"""Rows of one placement, as people cut them out."""


@lru_cache(maxsize=64)
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
    if len(groups) == 2 and len(groups[1]) < len(groups[0]) and groups[1][:-1] == groups[0][: len(groups[1]) - 1]:
        first = groups[:1] if not timestamp and "busbw" in groups[0] and "" not in groups[0] else ()
        return Layout(lead, first, ("out_of_place",), timestamp, words[0] == "bytes", is_cut=True) if first else None
    if any("" in group or "busbw" not in group for group in groups):
        return None
    if len(set(groups)) > 1:
        return None
    return Layout(lead, groups, _placements(above, len(groups)), timestamp, words[0] == "bytes")


def _placements(above: str, groups: int) -> tuple[Placement | None, ...]:
    words = re.findall(r"(out-of-|in-)place", above)
    found: list[Placement] = ["out_of_place" if word == "out-of-" else "in_place" for word in words]
    if len(found) == groups:
        return tuple(found)
    return ("out_of_place", "in_place") if groups == 2 else (None,)


def cut(line: str, layout: Layout, *, one_placement: bool = False) -> Row | None:
    """The row that a line holds; None where it does not fit the layout. mscclpp-test prints one placement only."""
    # hydra puts its label before all that a rank writes at once, also within a line.
    words = (_LABELS.sub(" ", line) if "[" in line else line).lstrip("# ").split()
    timestamp = None
    if layout.timestamp:
        stamp = _TIMESTAMP.search(line)
        if stamp is None:
            return None
        timestamp = f"{stamp[1]}T{stamp[2]}"
        del words[-2:]
    names = layout.lead
    expected = len(names) + sum(len(group) for group in layout.groups)
    if layout.is_cut:
        del words[expected:]
    if len(words) == expected - 1 and "op" in names and words[names.index("op")] not in OPS | {"none"}:
        words.insert(names.index("op"), "")  # hypercube prints an empty reduction
    if len(words) == expected + 1 and words[-1].strip("[]()").upper() in VERDICTS:
        del words[-1]
    lead = tuple(words[: len(names)])
    if len(lead) < len(names) or not _lead_is_sound(dict(zip(names, lead, strict=True))):
        return None
    if len(words) == expected:
        groups = _split(words[len(names) :], layout.groups)
        row = Row(lead, groups, layout.placements, timestamp)
    elif one_placement and len(words) - len(names) in (len(layout.groups[0]), len(layout.groups[0]) - 1):
        # One placement only: a row out of place is pushed right by the width of the other group.
        gap = re.match(r"\s*\d+\s+\d+(\s+)", line)
        side = 1 if gap and len(gap[1]) > 25 and len(layout.groups) == 2 else 0
        row = Row(lead, (tuple(words[len(names) :]),), (layout.placements[side],), timestamp)
    else:
        return None
    sound = all(_group_is_sound(dict(zip(layout.groups[0], group, strict=False))) for group in row.groups)
    return row if sound else None


def cells_of(line: str) -> list[str]:
    """The cells of a row or header between pipes, without units and marks."""
    return [_UNIT.sub("", cell).strip(" *`") for cell in line.strip("|").split("|")]


def begins(line: str, layout: Layout) -> bool:
    """Whether a line is the beginning of a row, as terminals of 80 columns and cut logs leave it."""
    words, width = line.split(), len(layout.lead)
    if not width <= len(words) < width + sum(len(group) for group in layout.groups) or len(line) > 400:
        return False
    return _lead_is_sound(dict(zip(layout.lead, words, strict=False))) and all(
        number(word) is not None or "N/A".startswith(word) for word in words[width:]
    )


def _split(words: list[str], groups: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    at = len(groups[0])
    return (tuple(words[:at]), tuple(words[at:])) if len(groups) == 2 else (tuple(words),)


def _lead_is_sound(lead: dict[str, str]) -> bool:
    root = lead.get("root", "-1")
    return (
        whole(lead["bytes"]) is not None
        and whole(lead["count"]) is not None
        and lead.get("type", "float") in ELEMENT_BYTES
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


class Cycles:
    """Which run of the whole sweep (-N) each row belongs to: the next begins where the first row's key comes again."""

    def __init__(self) -> None:
        self._first: tuple[str, Sequence[str]] | None = None
        self._before = "0"
        self._cycle = 0

    def of(self, size: str, kind: Sequence[str]) -> int:
        """The cycle of the next row; `kind` is what leads but for size and count."""
        if self._first is None:
            self._first = (size, kind)
        # Sizes too small for the ranks are rows of 0 bytes that repeat within one sweep.
        elif size == self._first[0] and self._before != "0" and kind == self._first[1]:
            self._cycle += 1
        self._before = size
        return self._cycle


def cases_of(rows: list[Row], sweep: Sweep) -> list[Case]:
    """A case per row and placement."""
    made: list[Case] = []
    cycles = Cycles()
    for row in rows:
        cycle = cycles.of(row.lead[0], row.lead[2:])
        lead = dict(zip(sweep.layout.lead, row.lead, strict=True))
        for placement, group in zip(row.placements, row.groups, strict=True):
            figures = dict(zip(sweep.layout.groups[0], group, strict=False))
            made.append(_case(row, lead, sweep, placement, figures, cycle))
    return made


def _case(  # noqa: PLR0913, PLR0917 - a record instead would cost a third of the time
    row: Row, lead: dict[str, str], sweep: Sweep, placement: Placement | None, group: dict[str, str], cycle: int
) -> Case:
    size, options, mscclpp = int(lead["bytes"]), sweep.options, sweep.is_mscclpp
    time, cpu_time, conversion = _times(group, size, sweep.layout)
    return Case(
        run="", case=0, collective=sweep.collective, bytes=size, placement=placement, outcome="measured",
        time_us=time, algbw_GBps=number(group["algbw"]), busbw_GBps=number(group["busbw"]), cycle=cycle or None,
        type="int32" if mscclpp else type_named(lead.get("type")),
        op=("sum" if sweep.collective == "all_reduce" else None) if mscclpp else op_of(lead.get("op")),
        root=root_of(lead.get("root")), count=int(lead["count"]), cpu_time_us=cpu_time,
        wrong=number(group.get("wrong", "")), checks=options.get("check"), iterations=options.get("iters"),
        aggregated=options.get("agg_iters"), graph_launches=options.get("cudagraph"),
        variant=f"kernel {options['kernel_num']}" if "kernel_num" in options else None, timestamp=row.timestamp,
        context=_context(group), conversion=conversion,
    )  # fmt: skip


def _times(group: dict[str, str], size: int, layout: Layout) -> tuple[float | None, float | None, str | None]:
    """(elapsed, launch, how they were converted)."""
    time, cpu_time = number(group.get("time", "")), number(group.get("cputime", ""))
    algbw = number(group["algbw"])
    conversion = None
    if layout.milliseconds:
        conversion = "time from milliseconds"
        time, cpu_time = (None if each is None else each * 1000 for each in (time, cpu_time))
    if cpu_time is not None and algbw:
        conversion = "time from size over algorithm bandwidth: the table has the launch time in its place"
        time = round(size / algbw / 1000, 3)
    return time, cpu_time, conversion


def _context(group: dict[str, str]) -> dict[str, Any]:
    found = {long: number(group[name]) for name, long in _CONTEXT.items() if name in group}
    return {long: value for long, value in found.items() if value is not None}


def op_of(name: str | None) -> str | None:
    """The reduction of a redop column."""
    return None if name in (None, "", "none") else name


def root_of(text: str | None) -> int | None:
    """The root of a root column."""
    return None if text is None or text.startswith("-") else int(text)


_TYPES = frozenset(ELEMENT_BYTES)


def has_row_behind_words(text: str) -> bool:
    """Whether a row of nccl-tests stands behind words that are no prefix known here."""
    words = text.split()
    if _TYPES.isdisjoint(words):
        return False
    at = next(index for index, word in enumerate(words) if word in _TYPES)
    return (
        at > 2
        and len(words) > at + 5
        and words[at - 2].isdecimal()
        and words[at - 1].isdecimal()
        and words[at + 1] in OPS | {"none"}
        and all(number(word) is not None for word in words[at + 2 : at + 6])
    )
