"""Joins one table whose lines stand behind different prefixes, or some behind none.

Rank 0 prints all of a table, but some launchers label only what is written at once, and scripts add to some lines.
"""

from __future__ import annotations

from busbw.importers.nccl_tests_preamble import Preamble, kind_of, rank_of_line
from busbw.importers.nccl_tests_rows import ROW_START
from busbw.importers.prefixes import BULLETS
from busbw.importers.stream import Stream

_MOST = 400
"""Characters of a line that is looked at; no tool's are longer."""
_FOOTERS = ("Out of bounds", "Avg bus")


def belongs_to(taker: Stream | None, own: Stream, text: str) -> Stream:
    """The stream that a line belongs to: the one that took the last line, where it waits for just such a line.

    `own` is the stream of the line's prefix, which keeps the line where anything of nccl-tests is open in it.
    """
    if taker is None or taker is own or len(text) > _MOST:
        return own
    line = text.lstrip()
    if not line.startswith(("#", *_FOOTERS)) and not line[:1].isdecimal():
        return own
    waiting, mine = taker.waits_for, own.waits_for
    # The lines of a difference are those of two files.
    if waiting is None or mine is not None or not BULLETS.isdisjoint((taker.who, own.who)):
        return own
    if isinstance(waiting, Preamble):
        return taker if _goes_on(waiting, line, alike=taker.who == own.who or not (taker.who and own.who)) else own
    # Streams of two names are two copies of a program, each with a table of its own.
    if taker.who and own.who:
        return own
    is_row = ROW_START.match(line) is not None and not line.startswith("#")
    return taker if is_row or line.lstrip("# ").startswith(_FOOTERS) or kind_of(line)[0] == "silent" else own


def _goes_on(before: Preamble, line: str, *, alike: bool) -> bool:
    """Whether a line follows what was said before a table: a further rank of the list, whoever prints it; a header."""
    rank = rank_of_line(line)
    if rank is not None:
        return all(each.rank != rank.rank for each in before.ranks or ())
    return alike and kind_of(line)[0] in ("above", "header", "silent")
