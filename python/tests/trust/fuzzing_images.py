"""A small ELF file with two functions and their frames: changes reach further into it than into a whole program."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

from busbw.launch.elf import read_elf
from busbw.watch.elf_image import Image

BASE = 0x1000
WAITS, CALLS = BASE + 0x10, BASE + 0x40
_SIZE = 0x20
_HEADER, _FRAMES, _NAMES, _SYMBOLS, _SECTIONS = 0x100, 0x140, 0x200, 0x240, 0x300


def image() -> bytes:
    data = bytearray(_SECTIONS + 3 * 64)
    data[:64] = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, _SECTIONS, 0, 64, 56, 2, 64, 3, 0
    )
    data[64:176] = struct.pack("<IIQQQQQQ", 1, 5, 0, BASE, BASE, len(data), len(data), 4096) + struct.pack(
        "<IIQQQQQQ", 0x6474E550, 4, _HEADER, BASE + _HEADER, BASE + _HEADER, 32, 32, 4
    )
    common = _entry(struct.pack("<I", 0) + b"\x01zR\0\x01\x78\x10\x01\x1b" + b"\x0c\x07\x08\x90\x01")
    entries, table = common, b""
    for start in (WAITS, CALLS):
        at = _FRAMES + len(entries)
        table += struct.pack("<ii", start - BASE - _HEADER, at - _HEADER)
        program = b"\x41\x0e\x10\x86\x02\x43\x0d\x06\x0a\x48\x0c\x07\x08\xc6\x41\x0b"
        entries += _entry(struct.pack("<Iii", at + 4 - _FRAMES, start - BASE - at - 8, _SIZE) + b"\0" + program)
    data[_FRAMES : _FRAMES + len(entries)] = entries
    header = struct.pack("<BBBBiI", 1, 0x1B, 3, 0x3B, _FRAMES - _HEADER - 4, 2) + table
    data[_HEADER : _HEADER + len(header)] = header
    data[_NAMES : _NAMES + 13] = b"\0waits\0calls\0"
    data[_SYMBOLS : _SYMBOLS + 72] = bytes(24) + b"".join(
        struct.pack("<IBBHQQ", name, 0x12, 0, 1, start, _SIZE) for name, start in ((1, WAITS), (7, CALLS))
    )
    sections = ((0, 0, 0, 0), (2, _SYMBOLS, 72, 2), (3, _NAMES, 13, 0))
    for which, (sort, offset, size, link) in enumerate(sections):
        at = _SECTIONS + 64 * which
        data[at : at + 64] = struct.pack("<IIQQQQIIQQ", 0, sort, 0, 0, offset, size, link, 0, 8, 24)
    return bytes(data)


def _entry(words: bytes) -> bytes:
    words += bytes(-(len(words) + 4) % 8)
    return struct.pack("<I", len(words)) + words


def read_program(path: Path) -> object:
    """As who starts it and as who looks at its stack."""
    with suppress(ValueError), Image(path) as found:
        for address in (WAITS, WAITS + 9, CALLS + 5, 0, 1 << 63):
            found.name_at(address)
            found.rules_at(address)
    return read_elf(path)
