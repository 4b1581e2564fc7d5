"""A length that the ranks of a group cannot split evenly: some ranks padded it to a multiple, and others did not."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_SHAPES = re.compile(
    r"of different shape \([^)]{1,60}\): rank (?P<one>\d{1,7}) has \[(?P<first>[\d, ]{1,80})\], "
    r"rank (?P<other>\d{1,7}) has \[(?P<second>[\d, ]{1,80})\]"
)
_PARTS = re.compile(
    r"(?:\b(?:context|sequence)[-_ ]parallel(?:[-_ ](?:size|degree|world_size))?|\bulysses\w{0,24}"
    r"|(?:\b|_)(?:cp|sp)(?:_size|_degree|-size)?|(?:\b|_)size_(?:cp|sp))['\"]?[ =:]{1,3}"
    r"(?P<n>[2-9]|[1-9]\d{1,2})\b",
    re.IGNORECASE,
)
"""How many ranks share one sequence, as options and programs tell it."""
_MOST = 64


def padded_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Two shapes differ in one length by less than the parts of a group, and one of both is a multiple of these."""
    shapes = _SHAPES.search(finding.title)
    if shapes is None:
        return None
    one, other = ([int(each) for each in shapes[side].split(",")] for side in ("first", "second"))
    apart = [at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b]
    # The first length is mostly that of the batch, whose last one is smaller for other reasons.
    if len(one) != len(other) or len(apart) != 1 or not apart[0]:
        return None
    long, short = (pick(one[apart[0]], other[apart[0]]) for pick in (max, min))
    for text in texts:
        for number, found in enumerate(_PARTS.finditer(text.text)):
            parts = int(found["n"])
            if number < _MOST and long % parts == 0 and 0 < long - short < parts:
                bare = shapes["one"] if one[apart[0]] == short else shapes["other"]
                return Sharper(
                    f"a length of {short} is no multiple of the {parts} ranks that share it: rank {bare} has it as it "
                    f"is, and others padded it to {long} ({finding.title})",
                    f"pad to a multiple of {parts} on all ranks of the group alike, before it is split, and cut the "
                    "padding off after the gather. Or gather parts of different size (all_gather of the sizes first). "
                    "Network, GPUs and time limits are not at fault",
                    (text.evidence(found.start()),),
                )
    return None
