"""The usual rows of nccl-tests straight to lines of JSON: millions of them import without becoming objects first.

What this writes is what `cases_of` and the writer give for the same rows; a test holds the two against each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from busbw.importers.nccl_tests_rows import OPS, Layout, Row, Sweep, cases_of, cycles_of, op_of, root_of
from busbw.importers.values import ELEMENT_BYTES, type_named
from busbw.records import Case, Collective

# Numbers as JSON has them, so that their text can be taken over as it is: ASCII digits only.
_WHOLE = r"(0|[1-9]\d{0,17})"
_NUMBER = r"((?:0|[1-9]\d{0,14})(?:\.\d{1,6})?(?:e[+-]\d\d)?)"
_WRONG = r"((?:0|[1-9]\d{0,14})(?:\.\d{1,6})?(?:e\+\d\d)?|N/A)"
_LEADS = (("bytes", "count", "type", "op", "root"), ("bytes", "count", "type", "op"))
_GROUP = ("time", "algbw", "busbw", "wrong")


@cache
def matcher(layout: Layout) -> Callable[[str], re.Match[str] | None] | None:
    """Matches a usual row of that layout, a group per column; None where the layout is not a usual one."""
    if layout.lead not in _LEADS or layout.groups != (_GROUP, _GROUP) or layout.timestamp or layout.milliseconds:
        return None
    lead = [_WHOLE, _WHOLE, f"({'|'.join(ELEMENT_BYTES)})", f"({'|'.join(sorted(OPS))}|none)"]
    lead += [r"(-?\d{1,7})"] * (len(layout.lead) - 4)
    return re.compile(r"\s*" + r"\s+".join([*lead, *[_NUMBER, _NUMBER, _NUMBER, _WRONG] * 2]) + r"\s*$", re.ASCII).match


def row_of(match: re.Match[str], number_: int, layout: Layout) -> Row:
    """The row of a match."""
    words = match.groups()
    at = len(layout.lead)
    return Row(number_, words[:at], (words[at : at + 4], words[at + 4 :]), layout.placements, None)


@dataclass(frozen=True)
class PlainRows:
    """The figures of a table whose rows are all usual ones, as text until they are asked for."""

    rows: list[Row]
    sweep: Sweep

    def cases(self) -> list[Case]:
        """As cases."""
        return cases_of(self.rows, self.sweep)

    def lines(self, run: str, ranks: int | None) -> Iterator[str]:
        """As lines of JSON."""
        return lines_of(self.rows, self.sweep, run, ranks)

    @property
    def collective(self) -> Collective:
        """What all of them measure."""
        return self.sweep.collective

    def __len__(self) -> int:
        return sum(len(row.groups) for row in self.rows)


def lines_of(rows: list[Row], sweep: Sweep, run: str, ranks: int | None) -> Iterator[str]:
    """A line of JSON per row and placement."""
    head = f'{{"schema":1,"kind":"case","run":{json.dumps(run, ensure_ascii=False)},"case":'
    collective = f',"collective":"{sweep.collective}","bytes":'
    tail = _tail(sweep)
    placements = [json.dumps(placement) for placement in sweep.layout.placements]
    middles: dict[tuple[str, ...], str] = {}
    index = 0
    for row, cycle in zip(rows, cycles_of(rows), strict=True):
        size, count, *kind = row.lead
        key = tuple(kind)
        middle = middles.get(key)
        if middle is None:
            middle = middles[key] = _middle(sweep, key, ranks)
        cycled = f',"cycle":{cycle}' if cycle else ""
        for placement, (time, algbw, busbw, wrong) in zip(placements, row.groups, strict=True):
            checked = "" if wrong == "N/A" else f',"wrong":{wrong}'
            yield (
                f'{head}{index}{collective}{size},"placement":{placement},"outcome":"measured","time_us":{time},'
                f'"algbw_GBps":{algbw},"busbw_GBps":{busbw}{cycled}{middle},"count":{count}{checked}{tail}'
            )
            index += 1


def _middle(sweep: Sweep, kind: tuple[str, ...], ranks: int | None) -> str:
    """Type, reduction, root and ranks, which few rows differ in."""
    lead = dict(zip(sweep.layout.lead[2:], kind, strict=True))
    type_, op, root = type_named(lead["type"]), op_of(lead["op"]), root_of(lead.get("root"))
    return _fields({"type": type_, "op": op, "root": root, "ranks": ranks})


def _tail(sweep: Sweep) -> str:
    options = sweep.options
    return _fields({
        "checks": options.get("check"), "iterations": options.get("iters"), "aggregated": options.get("agg_iters"),
        "graph_launches": options.get("cudagraph"),
    }) + "}\n"  # fmt: skip


def _fields(fields: dict[str, object]) -> str:
    return "".join(f",{json.dumps(name)}:{json.dumps(value)}" for name, value in fields.items() if value is not None)
