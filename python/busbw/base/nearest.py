"""Which known name a word was meant to be: by edit distance, as the engine's app/nearest.cc takes it."""

from __future__ import annotations

from collections.abc import Collection

LONGEST = 64
"""What is longer was not meant to be a name."""
BEGINNING = 4
"""So many letters at the beginning of a name mean it."""


def nearest(word: str, names: Collection[str]) -> str | None:
    """The name from which the word differs least, where that is by one letter, or by a third of the shorter one."""
    if not word or len(word) > LONGEST:
        return None
    found = min(((_distance(word, name), len(name), name) for name in names), default=None)
    if found is None:
        return None
    away, _, best = found
    if away <= max(1, min(len(word), len(best)) // 3):
        return best
    begun = [name for name in names if len(word) >= BEGINNING and name.startswith(word)]
    return min(begun, key=len, default=None)


def _distance(one: str, other: str) -> int:
    """Letters replaced, left out, put in, or two neighbours exchanged."""
    rows = [list(range(len(other) + 1))]
    for i, a in enumerate(one, start=1):
        row = [i]
        for j, b in enumerate(other, start=1):
            least = min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                least = min(least, rows[i - 2][j - 2] + 1)
            row.append(least)
        rows.append(row)
    return rows[-1][-1]
