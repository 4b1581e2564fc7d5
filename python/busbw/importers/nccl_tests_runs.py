"""Where rows below one header are those of several runs, and what the columns of a run say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from busbw.importers.collective import Columns, columns_of, signature
from busbw.importers.nccl_tests_plain import row_of
from busbw.importers.nccl_tests_rows import Layout, Row
from busbw.importers.shape import ranks_fit
from busbw.importers.values import ELEMENT_BYTES, number
from busbw.records import Collective

PER_RANK = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")
"""Collectives whose size is ranks times the count of one."""


def breaks_of(layout: Layout, content: Sequence[str], rows: Sequence[Row] | None, *, alone: bool) -> list[int]:
    """The rows that start another run: of another collective, or (`alone`, without a header) of another job."""
    if not {"bytes", "count", "type"} <= set(layout.lead):
        return []
    width = len(layout.lead)
    leads = [row.lead for row in rows] if rows is not None else None
    if leads is None:
        first, last = (tuple(line.split()[:width]) for line in (content[0], content[-1]))
        if not alone and first[2:] == last[2:] and _part(first) == _part(last):
            return []
        leads = [tuple(line.split()[:width]) for line in content]
    breaks = []
    before: tuple[str, ...] | None = None
    part, size = "", 0
    for at, lead in enumerate(leads):
        now, now_part = lead[2:], _part(lead) or part
        changed = before is not None and _signature(layout.lead, now) != _signature(layout.lead, before)
        again = alone and now == before and 0 < int(lead[0]) <= size
        if changed or again or (part and now_part != part):
            breaks.append(at)
        before, part, size = now, now_part, int(lead[0])
    return breaks


def _part(lead: tuple[str, ...]) -> str:
    """Whether the count is that of the whole size or of a part; "" for rows of no bytes."""
    element, size, count = ELEMENT_BYTES.get(lead[2], 0), int(lead[0]), int(lead[1])
    if not element or not size or not count:
        return ""
    return "whole" if size == count * element else "part"


@lru_cache(maxsize=1024)
def _signature(names: tuple[str, ...], kind: tuple[str, ...]) -> tuple[str, ...]:
    """The signature of rows without their sizes, which differ from row to row."""
    return signature({**dict(zip(names[2:], kind, strict=True)), "bytes": "0", "count": "0"})


def largest_row(layout: Layout, content: Sequence[str], rows: Sequence[Row]) -> Row:
    """The row with most bytes; in a usual table the last."""
    if rows:
        return max(rows, key=lambda row: int(row.lead[0]))
    last = row_of(content[-1], layout)
    if len(content) > 1 and int(last.lead[0]) < int(content[0].split(None, 1)[0]):
        return row_of(max(content, key=lambda line: int(line.split(None, 1)[0])), layout)
    return last


def columns_of_row(layout: Layout, row: Row, listed: int | None, *, known: bool) -> Columns:
    """What the columns of a row allow."""
    lead = dict(zip(layout.lead, row.lead, strict=True))
    groups = [dict(zip(layout.groups[0], group, strict=False)) for group in row.groups]
    return columns_of(lead, groups, listed, known=known)


def row_fits(layout: Layout, row: Row, collective: Collective, ranks: int) -> bool:
    """Whether the bandwidths of a row are what that many ranks give."""
    algbw, busbw = layout.groups[0].index("algbw"), layout.groups[0].index("busbw")
    return all(ranks_fit(collective, number(group[algbw]), number(group[busbw]), ranks) for group in row.groups)
