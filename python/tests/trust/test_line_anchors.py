"""Patterns that look for lines: none that begins with `^` may go on over the ends of lines, once from each of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "busbw"
_OVER_LINES = re.compile(r"\^(?:\\s|\[[^\]^]*\\s[^\]]*\])[*+]")
_BY_LINES = re.compile(r"re\.MULTILINE|re\.M\b|\(\?m")
MANY = 1_000_000


@pytest.mark.parametrize("path", sorted(path for path in SOURCE.rglob("*.py") if _BY_LINES.search(path.read_text())),
                         ids=lambda path: str(path.relative_to(SOURCE)))  # fmt: skip
def test_no_pattern_for_lines_begins_with_space_of_any_kind(path: Path) -> None:
    """`^\\s*` takes a million empty lines from each of them on: one MB had kept `fleet plan` for more than 100 s."""
    text = path.read_text()
    found = [
        text.count("\n", 0, each.start()) + 1
        for call in re.finditer(r"re\.(?:compile|search|findall|finditer|sub)\((?:[^()]|\([^()]*\))*?re\.M", text)
        for each in _OVER_LINES.finditer(call[0])
    ]
    assert found == []


@pytest.mark.parametrize("text", ["\n" * MANY, "\t\n" * (MANY // 2)])
def test_a_million_empty_lines_are_no_topology(text: str) -> None:
    """What does not end in 100 s without the rule above."""
    from busbw.fleet.pods import read_pods
    from busbw.importers.seems import what_it_seems

    assert read_pods(text, "there") == {}
    assert what_it_seems(text)
