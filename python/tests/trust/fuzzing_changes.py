"""Changes to an input, drawn by a seed: bytes flipped, lost and said twice, and what readers stumble over."""

from __future__ import annotations

import random

LONGEST = 20_000  # bytes of an input
TOKENS = (
    b"0", b"-1", b"1e400", b"nan", b"N/A", b"99999999999999999999999", b"\xff", b"\xc3", b"\0", b"#", b"|", b"\t",
    b"\r\n", b"\n", b"{", b"}", b"[", b"]", b'"', b"\\", b"=", b"<", b"/>", b"null", b"true", b"1" * 5000,
    b"[" * 2000, b'{"a":' * 500, b"a." * 500, "²".encode(), "٣".encode(), b"\xed\xa0\x80", b"&lt;", b"h[1-99999999]",
)  # fmt: skip


def changed(chance: random.Random, seeds: list[bytes]) -> bytes:
    """A seed with a few changes, or two seeds joined."""
    data = bytearray(chance.choice(seeds))
    if chance.random() < 0.2:
        other = chance.choice(seeds)
        data = data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        chance.choice((_flip, _insert, _cut, _repeat, _swap_lines, _digit))(chance, data)
    return bytes(data[: max(LONGEST, 70_000 if data[:4] == b"SQLi" else 0)])


def _flip(chance: random.Random, data: bytearray) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.randrange(256)


def _insert(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data) + 1)
    data[at:at] = chance.choice(TOKENS)


def _cut(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data) + 1)
    del data[at : at + chance.choice((1, 3, 20, 200, len(data)))]


def _repeat(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data) + 1)
    part = data[at : at + chance.choice((5, 50, 500))]
    data[at:at] = part * chance.choice((1, 2, 3))


def _swap_lines(chance: random.Random, data: bytearray) -> None:
    lines = data.split(b"\n")
    a, b = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    data[:] = b"\n".join(lines)


def _digit(chance: random.Random, data: bytearray) -> None:
    digits = [at for at in range(len(data)) if 48 <= data[at] < 58]
    if digits:
        data[chance.choice(digits)] = chance.choice(b"0123456789.-e ")
