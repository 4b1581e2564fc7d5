"""Changes to an input, drawn by a seed: bytes flipped, lost and said twice, and what readers stumble over."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

LONGEST = 20_000  # bytes of an input
TOKENS = (
    b"0", b"-1", b"1e400", b"nan", b"N/A", b"99999999999999999999999", b"\xff", b"\xc3", b"\0", b"#", b"|", b"\t",
    b"\r\n", b"\n", b"{", b"}", b"[", b"]", b'"', b"\\", b"=", b"<", b"/>", b"null", b"true", b"1" * 5000,
    b"[" * 2000, b'{"a":' * 500, b"a." * 500, "²".encode(), "٣".encode(), b"\xed\xa0\x80", b"&lt;", b"h[1-99999999]",
)  # fmt: skip


_DIGIT = re.compile(rb"[0-9]")


def changed(chance: random.Random, seeds: list[bytes]) -> bytes:
    """A seed with a few changes, or two seeds joined."""
    data = bytearray(_one(chance, seeds))
    if chance.random() < 0.2:
        other = _one(chance, seeds)
        data = data[: _below(chance, len(data) + 1)] + other[_below(chance, len(other) + 1) :]
    for _ in range(_one(chance, (1, 1, 2, 3, 8))):
        _one(chance, (_flip, _insert, _cut, _repeat, _swap_lines, _digit))(chance, data)
    return bytes(data[: max(LONGEST, 70_000 if data[:4] == b"SQLi" else 0)])


def _below(chance: random.Random, end: int) -> int:
    """Three times as fast as `randrange`, and even enough for at most some 10,000 places."""
    return int(chance.random() * end)


def _one(chance: random.Random, of: Sequence[T]) -> T:
    return of[_below(chance, len(of))]


def _flip(chance: random.Random, data: bytearray) -> None:
    if data:
        data[_below(chance, len(data))] = _below(chance, 256)


def _insert(chance: random.Random, data: bytearray) -> None:
    at = _below(chance, len(data) + 1)
    data[at:at] = _one(chance, TOKENS)


def _cut(chance: random.Random, data: bytearray) -> None:
    at = _below(chance, len(data) + 1)
    del data[at : at + _one(chance, (1, 3, 20, 200, len(data)))]


def _repeat(chance: random.Random, data: bytearray) -> None:
    at = _below(chance, len(data) + 1)
    part = data[at : at + _one(chance, (5, 50, 500))]
    data[at:at] = part * _one(chance, (1, 2, 3))


def _swap_lines(chance: random.Random, data: bytearray) -> None:
    lines = data.split(b"\n")
    a, b = _below(chance, len(lines)), _below(chance, len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    data[:] = b"\n".join(lines)


def _digit(chance: random.Random, data: bytearray) -> None:
    """The next digit behind a place, or the first: a list of all of them takes longer than most readers."""
    found = _DIGIT.search(data, _below(chance, len(data) + 1)) or _DIGIT.search(data)
    if found:
        at = found.start()
        del found  # it holds the bytes as they are
        data[at] = _one(chance, b"0123456789.-e ")
