"""Copies of a file that another process writes meanwhile through its own memory.

A copy by the kernel does not take the words of an entry in their order: one copy alone may hold an entry's newest word
beside older ones. Two copies one after the other settle that: what the first has seen is behind all that the second
takes.
"""

from __future__ import annotations

from collections.abc import Callable

Read = Callable[[int, int], bytes]
"""Takes a place of the file and an amount in bytes."""
_TRIES = 3
_TOGETHER = 64


def entries(read: Read, at: int, amount: int, size: int, mark: slice) -> bytes:
    """At most `amount` bytes of entries of `size` bytes each, with zeros for the mark of each that is not settled.

    `mark` are the bytes by which a reader knows that an entry is there: its writer sets them last, and clears them
    before it writes the entry again.
    """
    seen = read(at, amount)
    now = read(at, amount)
    length = min(len(seen), len(now)) // size * size
    if seen == now:
        return now[:length]
    settled = bytearray(now[:length])
    for first in range(0, length, _TOGETHER * size):
        after = min(first + _TOGETHER * size, length)
        if seen[first:after] == now[first:after]:
            continue
        for entry in range(first, after, size):
            bytes_of = slice(entry + mark.start, entry + mark.stop)
            if seen[bytes_of] != now[bytes_of]:
                settled[bytes_of] = bytes(mark.stop - mark.start)
    return bytes(settled)


def steady(read: Read, at: int, amount: int) -> bytes:
    """What lies there once two copies agree; nothing where none do."""
    seen = read(at, amount)
    for _ in range(_TRIES):
        now = read(at, amount)
        if seen == now:
            return now
        seen = now
    return b""
