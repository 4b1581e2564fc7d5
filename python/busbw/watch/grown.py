"""A communicator that was grown from another one: its old and its new ranks know it by different identities.

A new rank knows the unique id alone, an old one the parent alone, but for the root of the growth, which knows both. Its
row says what the others take it for (schema/recording.md).
"""

from __future__ import annotations

from collections.abc import Iterable

from busbw.watch.recording import Communicator

_MASK = (1 << 64) - 1
_GROW = 5


def _mixed(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _MASK
    return value ^ value >> 31


def by_parent(parent: int, number: int) -> int:
    """The identity that an old rank gives to its parent's child of this number."""
    return _mixed(_mixed(_mixed(parent) ^ _GROW << 56 ^ number & _MASK))


def two_names(rows: Iterable[Communicator]) -> dict[int, int]:
    """By the identity that old ranks know, the one that the new ranks know, as far as a root says so."""
    found = {}
    for row in rows:
        if row.made == "grow" and row.parent:
            old = by_parent(row.parent, row.color)
            if old != row.identity:
                found[old] = row.identity
    return found
