"""Members of gzip unpack as Python's own reader unpacks them: whole, cut, padded, damaged and many."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable

import pytest

from busbw.importers.gunzip import Gunzip


def unpacked(read: Callable[[int], bytes], size: int) -> tuple[bytes, type[Exception] | None]:
    found = b""
    try:
        while part := read(size):
            found += part
    except (OSError, EOFError) as problem:
        return found, type(problem)
    return found, None


def members(r: random.Random) -> bytes:
    return b"".join(
        gzip.compress(r.randbytes(r.choice((0, 1, 50, 9000))) + b"a" * r.choice((0, 3, 40000)))
        + b"\0" * r.choice((0, 0, 1, 7, 9000))
        for _ in range(r.randint(1, 5))
    )


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("size", [1, 5000, 1 << 20])
def test_as_pythons_own(seed: int, size: int) -> None:
    data = members(random.Random(seed))
    assert unpacked(Gunzip(io.BytesIO(data)).read, size) == (gzip.decompress(data), None)
    assert unpacked(Gunzip(io.BytesIO(data)).read1, size) == (gzip.decompress(data), None)


@pytest.mark.parametrize("seed", range(40))
def test_what_was_cut_gives_all_before_the_cut_and_then_says_so(seed: int) -> None:
    r = random.Random(seed)
    data = gzip.compress(r.randbytes(3000) + b"a" * 9000)
    found, problem = unpacked(Gunzip(io.BytesIO(data[: r.randrange(20, len(data) - 1)])).read, 1 << 20)
    assert gzip.decompress(data).startswith(found)
    assert problem is EOFError


@pytest.mark.parametrize("behind", [b"junk", b"j", b"\0\0junk", b"\x1f"])
def test_what_is_no_member_is_refused(behind: bytes) -> None:
    found, problem = unpacked(Gunzip(io.BytesIO(gzip.compress(b"a" * 100) + behind)).read1, 1 << 20)
    assert found == b"a" * 100
    assert problem is gzip.BadGzipFile


def test_a_wrong_sum_is_refused() -> None:
    data = bytearray(gzip.compress(b"a" * 100))
    data[-6] ^= 1
    assert unpacked(Gunzip(io.BytesIO(bytes(data))).read, 1 << 20)[1] is gzip.BadGzipFile
