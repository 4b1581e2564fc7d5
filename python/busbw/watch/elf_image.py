"""A program's or library's file: names of its functions, and how to find the caller of one at any place in it.

Read as hostile bytes: what does not fit the file is no name and no rule.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from busbw.watch.call_frames import FileBytes, Rules, rules_at

_MAX_SYMBOLS, _MAX_NAMES = 500_000, 64 << 20
_LOAD, _EH_FRAME_HDR = 1, 0x6474E550
_SYMTAB, _DYNSYM = 2, 11
_FUNCTION, _INDIRECT = 2, 10
_SEARCH_TABLE = 0x3B
"""Pairs of numbers of 32 bits from the header's own place on, as every linker writes them."""
_ERRORS = (OSError, struct.error, ValueError, IndexError, KeyError, OverflowError)


class Image:
    """One ELF file for x86-64; an OSError or ValueError where it is none."""

    def __init__(self, path: Path) -> None:
        self.data = FileBytes(path)
        try:
            self._read_header()
        except _ERRORS as error:
            self.data.close()
            raise ValueError(f"{path}: {error}") from error
        self._names: tuple[list[int], list[tuple[int, bytes]]] | None = None

    def __enter__(self) -> Image:
        return self

    def __exit__(self, *_: object) -> None:
        self.data.close()

    def _read_header(self) -> None:
        if self.data.cut(0, 6) != b"\x7fELF\x02\x01":
            raise ValueError("no ELF file of 64 bits")
        headers, self._sections = self.data.unpack("<QQ", 32)
        size, number, self._section_size, self._section_number = self.data.unpack("<HHHH", 54)
        self._loads: list[tuple[int, int, int]] = []
        self._frames = 0
        for which in range(min(number, 64)):
            kind, _, offset, address, _, length = self.data.unpack("<IIQQQQ", headers + which * size)
            if kind == _LOAD:
                self._loads.append((offset, address, length))
            elif kind == _EH_FRAME_HDR:
                self._frames = offset

    def address_of(self, offset: int) -> int | None:
        """Where a byte of the file is, as the file's own numbers have it."""
        return next((offset - start + at for start, at, size in self._loads if start <= offset < start + size), None)

    def offset_of(self, address: int) -> int | None:
        return next((address - at + start for start, at, size in self._loads if at <= address < at + size), None)

    def name_at(self, address: int) -> str:
        """Of the function there; "" where the file does not tell."""
        if self._names is None:
            found: list[tuple[int, int, bytes]] = []
            with suppress(*_ERRORS):
                found += self._symbols(_SYMTAB)
            with suppress(*_ERRORS):
                found += self._symbols(_DYNSYM)
            found.sort()
            self._names = [at for at, _, _ in found], [(size, name) for _, size, name in found]
        starts, rest = self._names
        for which in range(bisect_right(starts, address) - 1, -1, -1):
            size, name = rest[which]
            if address < starts[which] + size:
                return name.decode(errors="replace")
            if address - starts[which] > 1 << 20:
                break
        return ""

    def _symbols(self, wanted: int) -> Iterator[tuple[int, int, bytes]]:
        for number in range(min(self._section_number, 4096)):
            at = self._sections + number * self._section_size
            _, kind, _, _, offset, size, link = self.data.unpack("<IIQQQQI", at)
            if kind != wanted:
                continue
            names_at, names_size = self.data.unpack("<QQ", self._sections + link * self._section_size + 24)
            names = self.data.cut(names_at, min(names_size, _MAX_NAMES))
            table = self.data.cut(offset, 24 * min(size // 24, _MAX_SYMBOLS))
            for name, info, _, section, value, length in struct.iter_unpack("<IBBHQQ", table[: len(table) // 24 * 24]):
                if info & 15 in {_FUNCTION, _INDIRECT} and section and length:
                    yield value, length, names[name : name + 200].partition(b"\0")[0]
            return  # Every linker writes one of a kind.

    def rules_at(self, address: int) -> Rules | None:
        """How to come from there to the caller; None where no table tells."""
        try:
            entry = self._entry_of(address)
            return rules_at(self.data, entry, self.address_of, address) if entry is not None else None
        except _ERRORS:
            return None

    def _entry_of(self, address: int) -> int | None:
        """The offset of the entry of .eh_frame for the function, by the sorted table of .eh_frame_hdr."""
        start = self._frames
        version, _, count_way, table_way = self.data.cut(start, 4)
        base = self.address_of(start)
        if not start or version != 1 or count_way != 3 or table_way != _SEARCH_TABLE or base is None:
            return None
        (count,) = self.data.unpack("<I", start + 8)
        low, high = 0, count
        while low < high:
            middle = (low + high) // 2
            (begin,) = self.data.unpack("<i", start + 12 + 8 * middle)
            low, high = (middle + 1, high) if base + begin <= address else (low, middle)
        if low == 0:
            return None
        _, entry = self.data.unpack("<ii", start + 12 + 8 * (low - 1))
        return self.offset_of(base + entry)
