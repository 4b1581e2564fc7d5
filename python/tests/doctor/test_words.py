"""Each of these lines is known by one pattern of its signature alone, so that no pattern of them can be lost unseen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from busbw.doctor.signatures import SIGNATURES

WORDS = Path(__file__).parent / "corpus" / "words.txt"
LINES = [
    (name, line)
    for name, _, line in (each.partition(" | ") for each in WORDS.read_text(encoding="utf-8").splitlines())
    if line and not name.startswith("#")
]


@pytest.mark.parametrize(("name", "line"), LINES, ids=[f"{name}-{at}" for at, (name, _) in enumerate(LINES)])
def test_one_pattern_knows_the_line(name: str, line: str) -> None:
    signature = SIGNATURES[name]
    assert signature.match(line, line.lower()) is not None
    knowing = [each for each in signature.patterns if re.search(each, line, re.IGNORECASE)]
    assert len(knowing) == 1, knowing
