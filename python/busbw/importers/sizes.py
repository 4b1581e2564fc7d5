"""Sizes of a table that name their unit in the cell, or that are elements and a type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.importers.cells import plain_number
from busbw.importers.columns import SIZES
from busbw.importers.json_values import whole_number
from busbw.importers.torch_names import torch_type
from busbw.importers.units import Figure, Row, Units, tells_size
from busbw.importers.values import ELEMENT_BYTES, size_in_bytes, type_named

_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([KMGkmg][Bb])")
_THOUSANDS = frozenset({1e3, 1e6, 1e9})
_EITHER = frozenset({"kb", "mb", "gb"})


def of_elements(count: str, type_: str) -> list[tuple[str, str]]:
    """The bytes of so many elements of a type, as a cell of a size."""
    elements = whole_number(plain_number(count[:40], "", commas=False))
    each = ELEMENT_BYTES.get(torch_type(type_[:40]) or type_named(type_[:40]) or "", 0)
    return [(str(elements * each), "b")] if elements and each else []


def with_own_unit(text: str) -> Figure | None:
    """A size whose cell has its unit: KB, MB and GB may be powers of 1000, which the other figures tell."""
    found = _SIZE.fullmatch(text)
    size = size_in_bytes(text)
    if found is None or size is None:
        return None if size is None else Figure(float(size), "", 0.0)
    return Figure(float(found[1]), found[2].lower(), 0.0)


def all_of_1000(groups: Sequence[tuple[Sequence[Row], Units]]) -> list[Units]:
    """Where the figures say that sizes of one unit are powers of 1000, those of the others are, unless they say no."""
    if not any(rows[0].size.unit in SIZES and units.size in _THOUSANDS for rows, units in groups):
        return [units for _, units in groups]
    return [
        replace(units, size=SIZES[rows[0].size.unit][-1])
        if units.note is None and rows[0].size.unit in _EITHER and not tells_size(rows, units)
        else units
        for rows, units in groups
    ]
