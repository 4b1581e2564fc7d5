"""Which rows of nccl-tests are the usual ones, and how far they go on: by a pattern, then by the shapes it matched."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from busbw.importers.nccl_tests_rows import OPS, Layout
from busbw.importers.values import ELEMENT_BYTES

# Numbers as JSON has them, so that their text can be taken over as it is: ASCII digits only.
_WHOLE = r"(?!0\d)\d{1,18}"
_NUMBER = r"(?!0\d)\d{1,15}(?:\.\d{1,6})?"
_WRONG = rf"(?:{_NUMBER}|N/A)"
_NUMBER_E = rf"{_NUMBER}(?:e[+-]\d\d)?"
_WRONG_E = rf"(?:{_NUMBER}(?:e\+\d\d)?|N/A)"
_LEADS = (("bytes", "count", "type", "op", "root"), ("bytes", "count", "type", "op"))
_GROUP = ("time", "algbw", "busbw", "wrong")


@cache
def usual_rows(layout: Layout) -> UsualRows | None:
    """Finds the usual rows of that layout that follow each other."""
    match = matcher(layout)
    return None if match is None else UsualRows(match)


@cache
def matcher(layout: Layout) -> Callable[[str], object] | None:
    """Matches a usual row of that layout; None where the layout is not a usual one."""
    if layout.lead not in _LEADS or layout.groups != (_GROUP, _GROUP) or layout.timestamp or layout.milliseconds:
        return None
    lead = [_WHOLE, _WHOLE, f"(?:{'|'.join(ELEMENT_BYTES)})", f"(?:{'|'.join(sorted(OPS))}|none)"]
    lead += [r"-?\d{1,7}"] * (len(layout.lead) - 4)
    # Exponents are rare, and looking for them costs a quarter of the time of a row: the second try.
    groups = [_NUMBER, _NUMBER, _NUMBER, _WRONG] * 2, [_NUMBER_E, _NUMBER_E, _NUMBER_E, _WRONG_E] * 2
    tries = (r"\s*" + r"\s+".join([*lead, *each]) + r"\s*$" for each in groups)
    return re.compile("|".join(tries), re.ASCII).match


class UsualRows:
    """Finds usual rows that follow each other: by their shape, all of a row but its digits, once one of it matched."""

    def __init__(self, match: Callable[[str], object]) -> None:
        self.match = match
        self._known: set[bytes] = set()
        self._before = 8

    def past(self, lines: list[str], at: int, end: int) -> int:
        """Where the usual rows from `at` on end."""
        start = at
        while at < end and lines[at][:1] != "#":
            # As many as the table before had: the tables of a log are mostly alike.
            upto = min(end, at + self._before)
            if self._all_known(lines[at:upto]):
                at = upto
                continue
            past = self._one_by_one(lines, at, upto)
            if past < upto:
                at = past
                break
            at = upto
        self._before = max(4, min(at - start, 1000))
        return at

    def _all_known(self, lines: list[str]) -> bool:
        rows = "\n".join(lines)
        # A number that starts with 0 is none of JSON's; shapes do not tell it from others.
        if not rows.isascii() or _STARTS_WITH_0.search(rows):
            return False
        return self._known.issuperset(_shapes(rows)) or self._known.issuperset(_shapes(_with_coded_names(rows)))

    def _one_by_one(self, lines: list[str], at: int, end: int) -> int:
        while at < end and self.match(lines[at]):
            # A row starts with a space, and all its blanks are such, so that shapes are compared alike.
            if len(self._known) < MAX_SHAPES and _ONLY_SPACES.fullmatch(lines[at]):
                self._known.update(_shapes(_with_coded_names(lines[at])))
            at += 1
        return at


MAX_SHAPES = 4_000
_ONLY_SPACES = re.compile(r" [ -~]*")
_STARTS_WITH_0 = re.compile(r" 0\d")
_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_OTHER_DIGITS = {ord(str(digit)): chr(0x2080 + digit) for digit in range(10)}
_CODED = {name: name.translate(_OTHER_DIGITS) for name in ELEMENT_BYTES if not name.isalpha()}
"""Types whose names have digits, with other digits in their place: those of a name are a part of the shape."""


def _shapes(rows: str) -> list[bytes]:
    """Each row with 0 for all digits of its numbers."""
    return rows.encode().translate(_ALIKE).split(b"\n")


def _with_coded_names(rows: str) -> str:
    for name, coded in _CODED.items():
        if name in rows:
            rows = rows.replace(f" {name} ", f" {coded} ")
    return rows
