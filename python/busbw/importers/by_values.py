"""Columns that are known by what stands in them or above the table: collectives, libraries, variants, figures."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.importers.across import metric_in
from busbw.importers.cells import split_unit
from busbw.importers.columns import FIGURES, TIMES, Column, column_of
from busbw.importers.names import plain_words
from busbw.importers.values import collective_named

MAX_LOOKED_AT = 2000
_LIBRARY = re.compile(r"(?i)[a-z]{0,8}ccl[\w.+-]{0,20}|gloo|ucc|(?:open|u)?mpi|mpich")
_COMPARED = re.compile(r"(?i)speed-?up|\bratio\b|normali[sz]ed|relative|improvement")
"""What stands above a table of factors, whatever was said before it."""
_FIGURE = re.compile(r"(?i)\b(?:bus|alg(?:o|orithm)?)[ _]?(?:bw|bandwidth)\b|\blatency\b")
_UNIT_BEHIND = re.compile(r"(?P<name>[^()\[\]]{1,80}?) ?[(\[](?P<unit>[GM]i?B/s|[GM]i?Bps|us|\u00b5s|ms)[)\]]")
_WORD = re.compile(r"[A-Za-z][\w .+-]{0,60}")
_NO_FIGURE = re.compile(
    r"(?i)speed-?up|ratio|gain|delta|diff|change|improvement|factor|%|winner|best|note|comment|iter|rank|gpu|node|count|type"
)


def with_values(columns: Sequence[Column | None], rows: Sequence[Sequence[str]]) -> list[Column | None]:
    """Columns with those whose values say what they are, where no header did."""
    found = list(columns)
    rows = rows[:MAX_LOOKED_AT]
    fields = {column.field for column in found if column is not None}
    texts = {
        at: values
        for at, column in enumerate(found)
        if column is None and (values := [row[at].strip() for row in rows]) and all(map(_WORD.fullmatch, values))
    }
    named = next((at for at, values in texts.items() if all(map(collective_named, values))), None)
    if named is not None and "collective" not in fields and texts[named]:
        found[named] = Column("collective")
        del texts[named]
    library = next((at for at, values in texts.items() if all(map(_LIBRARY.fullmatch, values))), None)
    if library is not None and "library" not in fields:
        found[library] = Column("library")
        del texts[library]
    if "time" not in fields:
        timed = (at for at, column in enumerate(found) if column is None and rows)
        at = next((at for at in timed if all(split_unit(row[at])[1] in TIMES for row in rows)), None)
        if at is not None:
            found[at] = Column("time")
    return _with_variant(found, rows, texts)


def _with_variant(
    columns: list[Column | None], rows: Sequence[Sequence[str]], texts: dict[int, list[str]]
) -> list[Column | None]:
    """Where rows are alike in all that is known but for their figures, a text that tells them apart is a variant."""
    known = [at for at, column in enumerate(columns) if column is not None and column.field not in FIGURES | {"aside"}]
    keys = [tuple(row[at] for at in known) for row in rows]
    if len(set(keys)) == len(keys):
        return columns
    for at, values in texts.items():
        if len(set(values)) > 1 and len(set(zip(keys, values, strict=True))) == len(keys):
            columns[at] = Column("variant")
            break
    return columns


def _with_units(cells: Sequence[str], above: Sequence[str]) -> tuple[Column | None, list[str]]:
    """The figure that the words above name and whose unit stands in the header's cells, and the cells without it."""
    figure = next((found[0] for text in reversed(above) if (found := _FIGURE.search(text))), None)
    parted = [_UNIT_BEHIND.fullmatch(cell.strip("* `")) for cell in cells]
    units = {part["unit"] for part in parted[1:] if part}
    if figure is None or len(units) != 1:
        return None, list(cells)
    bare = [part["name"] if part else "" for part in parted]
    # What has no unit beside those that have one, such as a change in per cent, is no figure.
    return column_of(f"{figure} ({units.pop()})"), [cells[0], *bare[1:]]


def sizes_and_names(columns: Sequence[Column | None]) -> bool:
    """Whether columns are a size and else names: only then it matters what the words above them say."""
    if not columns or columns[0] is None or columns[0].field != "bytes" or len(columns) > 30:
        return False
    return all(column is None or column.field == "aside" for column in columns[1:])


def below_a_title(
    cells: Sequence[str], columns: Sequence[Column | None], above: Sequence[str]
) -> list[Column | None] | None:
    """Columns of a size and else of names of collectives or variants, below words that name the figure of all."""
    if not sizes_and_names(columns):
        return None
    if above and above[-1].lstrip().startswith("**"):
        return None  # a caption of Markdown, which has a reader of its own
    if above and _COMPARED.search(above[-1]):
        return None
    metric = next((named for text in reversed(above) if (named := metric_in(text))), None)
    if metric is None:
        metric, cells = _with_units(cells, above)
    if metric is None or metric.field not in FIGURES:
        return None
    found: list[Column | None] = [columns[0]]
    for cell, column in zip(cells[1:], columns[1:], strict=True):
        name = " ".join(cell.split()).strip("* `")
        collective = collective_named(name)
        if column is not None or not name or name[:1].isdigit() or (not collective and _NO_FIGURE.search(name)):
            found.append(None)
        elif collective:
            found.append(Column(metric.field, metric.unit, collective=collective))
        elif _LIBRARY.fullmatch(name):
            found.append(Column(metric.field, metric.unit, library=name))
        else:
            found.append(Column(metric.field, metric.unit, variant=plain_words(name) and name))
    return found if sum(column is not None for column in found) > 1 else None
