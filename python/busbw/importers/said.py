"""What cells of a table say, remembered: a table says the same sizes, ranks and often times again and again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from busbw.importers.cells import plain_number, split_unit
from busbw.importers.json_values import whole_number
from busbw.importers.sizes import with_own_unit
from busbw.importers.units import Figure

_SPREAD = re.compile(r"\s*(?:\u00b1|\+/-|\+-)\s*[\d.,]{1,20}")
"""How far a mean is off, behind it."""


@lru_cache(maxsize=4096)
def size_in(text: str, mark: str, commas: bool) -> Figure | None:
    """The size in a cell, behind which a zero byte and the unit of its column stand."""
    cell, _, unit = text.partition("\0")
    plain = plain_number(cell[:40], mark, commas=commas)
    figure = Figure.of(plain, unit)
    if figure is None:
        figure = with_own_unit(plain)
    return figure if figure is not None and 0 <= figure.value < 1 << 63 else None


@lru_cache(maxsize=4096)
def figure_in(cell: str, unit: str, mark: str, commas: bool) -> Figure | None:
    """The figure in a cell of a column of that unit."""
    value, own = cell[:40], ""
    if not value.replace(".", "", 1).isdecimal():
        value, own = split_unit(_SPREAD.sub("", cell)[:40])
    plain = plain_number(value, mark, commas=commas)
    figure = Figure.of(plain, own or unit)
    # -1 and the like say that there is no figure.
    return figure if figure is not None and figure.value >= 0 else None


def ranks_of(plain: Mapping[str, str]) -> tuple[int | None, int | None]:
    """(ranks, nodes): with nodes where nobody says whether the ranks are those of each node or of all."""
    return _ranks_said(*[plain.get(name, "")[:60] for name in ("ranks", "nodes", "per_node", "gpus")])


@lru_cache(maxsize=1024)
def _ranks_said(*said: str) -> tuple[int | None, int | None]:
    ranks, nodes, each, gpus = map(whole_number, said)
    if ranks is not None:
        return ranks, None
    if each is not None:
        return (nodes * each if nodes else gpus), None
    return gpus, nodes if gpus and nodes and nodes > 1 else None
