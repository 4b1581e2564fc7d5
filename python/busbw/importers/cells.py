"""The cells of a line of a table, however it is drawn: CSV, pipes, boxes, columns of blanks; and numbers in them."""

from __future__ import annotations

import csv
import re

from busbw.importers.columns import plain_unit

MAX_CELLS = 100
MAX_HEADER = 4000

BOX = str.maketrans(dict.fromkeys("│┃║┆┊╎", "|"))
"""What separates the cells of a box."""
RULE = re.compile(r"[\s|+:=*\u2500-\u257f_-]{3,}$")
"""A line between rows."""
_GAP = re.compile(r"\S\s{2,}\S")
_GLUE = re.compile(r"(?<=\w)[ \t]+(?=[(\[][^()\[\]]{1,12}[)\]])")
_VALUE_UNIT = re.compile(
    r"(?<=\d)[ \t]+(?=(?:[kKMGT]?i?B|[µμu]s|ms|ns|s|us|[GMTK]i?B/s|[GMTK]i?Bps|[GM]b/s|[GM]bps|bytes)(?:\s|$))"
)
_WITH_UNIT = re.compile(r"([-+]?[\d.,]{1,30}(?:e[-+]?\d{1,3})?)\s?([a-zA-Zµμ/]{1,8})")
_FIGURE_UNITS = frozenset({"us", "ms", "s", "ns", "gb/s", "mb/s", "gib/s", "mib/s", "gbit/s", "tb/s", "gb/s?"})

_GROUPED = re.compile(
    r"\d{1,2}(?:,\d\d)+,\d{3}(?:\.\d{1,9})?"
    r"|\d{1,3}(?:,\d{3})+(?:\.\d{1,9})?|\d{1,3}(?:[ \u00a0\u202f'_]\d{3})+(?:\.\d{1,9})?"
)
_DOTS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}")
_DECIMAL_COMMA = re.compile(r"\d{1,3}(?:[. \u00a0\u202f]\d{3})*,\d{1,9}|\d{1,15},\d{1,9}")
_WITH_COMMA = re.compile(r"[\d. \u00a0\u202f]{1,30}(?:,\d{1,9})?")
_GROUPS = re.compile(r"[. \u00a0\u202f]")


_LINK = re.compile(r"\[([^\[\]|]{1,80})\]\([^()|]{0,300}\)")
"""A link of Markdown; its text is the cell."""


def mark_of(line: str) -> str:
    """What parts the cells of a header: a comma, semicolon, tab or pipe; "" for blanks."""
    if line.count("|") >= 1 and line.lstrip().startswith("|"):
        return "|"
    if 1 <= line.count(" | ") <= 3 and all(_GAP.search(part) for part in line.strip().split(" | ")):
        return ""  # a bar between two parts of a row whose cells blanks part
    return next((mark for mark in ("|", ",", ";", "\t") if mark in line), "")


def cells_of(line: str, mark: str) -> list[str]:
    """The cells of a line."""
    if mark == "|":
        text = _LINK.sub(r"\1", line.strip()) if "](" in line else line.strip()
        parted = "||" if text.startswith("||") else "|"
        text = text.removeprefix(parted).removesuffix(parted)
        return [cell.strip(" *`\u00a0\t") for cell in text.split(parted)]
    if mark == "":
        return blank_cells(line)
    if '"' not in line:
        return [cell.strip() for cell in line.split(mark)]
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=mark), [])]
    except csv.Error:
        return []


def blank_cells(line: str) -> list[str]:
    """Cells that blanks part; a value and its unit are one cell, and a bar between two parts of a row is none."""
    return _VALUE_UNIT.sub("", line.replace(" | ", "  ")).split()


def header_cells(line: str, mark: str) -> list[list[str]]:
    """The ways in which a header may be cut: by wide gaps, where names have blanks, and by any."""
    if mark:
        return [cells_of(line, mark)]
    glued = _GLUE.sub("", line.replace(" | ", "  ").strip())
    return [each for each in (re.split(r"\s{2,}", glued), glued.split()) if 3 <= len(each) <= MAX_CELLS]


def has_decimal_comma(cell: str) -> bool:
    """Whether a cell is a number whose decimals follow a comma."""
    return len(cell) <= 40 and _DECIMAL_COMMA.fullmatch(cell) is not None


def plain_number(cell: str, mark: str, *, commas: bool) -> str:
    """A number without what groups its digits; with `commas`, decimals follow commas in this table, and dots group."""
    if not commas and len(cell) <= 40 and cell.isascii() and cell.replace(".", "", 1).isdecimal():
        return cell  # nothing groups its digits
    if (not cell[:1].isdecimal() and cell[:1] not in "-+\u2212") or len(cell) > 40:
        return cell
    cell = cell.replace("\u2212", "-")
    if commas and _WITH_COMMA.fullmatch(cell):
        return _GROUPS.sub("", cell).replace(",", ".")
    if mark in (";", "\t", "|", "") and _DOTS.fullmatch(cell):
        return cell.replace(".", "")
    return re.sub(r"[^\d.]", "", cell) if _GROUPED.fullmatch(cell) else cell


def split_unit(cell: str) -> tuple[str, str]:
    """(number, unit) of a figure such as `110.91 GB/s`; the unit is "" where the cell has none that is known."""
    found = _WITH_UNIT.fullmatch(cell)
    if found is None:
        return cell, ""
    unit = plain_unit(found[2])
    return (found[1], unit) if unit in _FIGURE_UNITS else (cell, "")
