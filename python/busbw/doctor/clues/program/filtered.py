"""Clues of batches from which a function of the program leaves samples out: ranks then have different sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_SHAPES = re.compile(r"of different shape\b.{0,60}: rank \d{1,7} has \[\d{1,9}(?P<one>[\d, ]{0,80})\], rank \d{1,7} "
                     r"has \[\d{1,9}(?P<other>[\d, ]{0,80})\]")  # fmt: skip
"""Shapes whose first number, that of the samples, differs where the rest is the same."""
_COLLATES = re.compile(
    r"^[ \t]{0,12}def (?P<name>\w{0,30}collate\w{0,30}|collate)\(\w{1,20}[^\n]{0,80}:\n(?:[^\n]{0,200}\n){0,8}?"
    r"[^\n]{0,80}(?:\bfor \w{1,30} in \w{1,30} if \b|\bfilter\()",
    re.MULTILINE,
)


def leaves_samples_out(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The function that makes batches keeps only some samples, and batches of two ranks differ by some."""
    shapes = _SHAPES.search(finding.title)
    if shapes is None or shapes["one"] != shapes["other"]:
        return None
    for text in texts:
        if (found := _COLLATES.search(text.text)) is not None:
            name = named(found["name"])
            return Sharper(
                f"{name} leaves samples out, so that batches of ranks differ in size: {finding.title}",
                f"keep the size of a batch in {name}: take other samples for those left out, or leave these out of the "
                "data set before it is split over ranks. Or pad to one size before the call and gather the sizes "
                "first. drop_last does not help here; NCCL, P2P and streams are not at fault",
                (text.evidence(found.start()),),
            )
    return None
