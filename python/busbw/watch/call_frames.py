"""Entries of .eh_frame (DWARF's call frame information): at one place in a function, where its caller is found."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

RBP, RSP, RETURN = 6, 7, 16
_MOST_STEPS = 4096
_CHUNK, _MOST_CHUNKS = 1 << 14, 4096


class FileBytes:
    """A file that may shrink while it is read: what is not there any more is short, and no signal comes."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self.inode = os.fstat(self._file).st_ino
        self._chunks: dict[int, bytes] = {}

    def close(self) -> None:
        os.close(self._file)

    def cut(self, at: int, size: int) -> bytes:
        return os.pread(self._file, size, at)

    def unpack(self, form: str, at: int) -> tuple[int, ...]:
        """Short pieces, of which many lie side by side."""
        which, size = at // _CHUNK, struct.calcsize(form)
        if which not in self._chunks:
            if len(self._chunks) >= _MOST_CHUNKS:
                self._chunks.clear()
            self._chunks[which] = self.cut(which * _CHUNK, _CHUNK + 64)
        start = at - which * _CHUNK
        return struct.unpack(form, self._chunks[which][start : start + size])


@dataclass
class Rules:
    """The caller's stack pointer is a register's value and a number; what was saved lies so far from it."""

    register: int = RSP
    offset: int = 8
    saved: dict[int, int] = field(default_factory=dict)
    is_known: bool = True
    """False where only an expression of DWARF's tells."""


class _Reader:
    def __init__(self, data: FileBytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, form: str) -> int:
        (value,) = self.data.unpack("<" + form, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.take("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift > 70:
                return value

    def sleb(self) -> int:
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def pointer(self, way: int, address_of: Callable[[int], int | None]) -> int:
        """By one of the encodings that name a place in the file."""
        here = address_of(self.at) or 0
        form = {0: "Q", 2: "H", 3: "I", 4: "Q", 10: "h", 11: "i", 12: "q"}[way & 0x0F]
        return self.take(form) + (here if way & 0x70 == 0x10 else 0)


@dataclass
class _Common:
    """What entries of one compiler have in common (a CIE)."""

    code: int = 1
    data: int = 1
    way: int = 0
    has_more: bool = False
    program: tuple[int, int] = (0, 0)


def rules_at(data: FileBytes, entry: int, address_of: Callable[[int], int | None], address: int) -> Rules | None:
    """By the entry (an FDE) at this offset; None where it is not for this address."""
    reader = _Reader(data, entry)
    end = reader.take("I") + reader.at
    here = reader.at
    common = _common(data, here - reader.take("I"), address_of)
    begin = reader.pointer(common.way, address_of)
    length = reader.pointer(common.way & 0x0F, address_of)
    if not begin <= address < begin + length:
        return None
    if common.has_more:
        reader.at += reader.uleb()
    rules = Rules()
    run = _Run(data, common, rules)
    run.steps(*common.program, None)
    run.first = dict(rules.saved)
    run.steps(reader.at, end, address - begin)
    return rules


def _common(data: FileBytes, at: int, address_of: Callable[[int], int | None]) -> _Common:
    reader = _Reader(data, at)
    end = reader.take("I") + reader.at
    reader.take("I")
    version = reader.take("B")
    letters = data.cut(reader.at, 16).partition(b"\0")[0]
    reader.at += len(letters) + 1
    common = _Common(reader.uleb(), reader.sleb())
    (reader.take("B") if version == 1 else reader.uleb())
    if letters.startswith(b"z"):
        common.has_more = True
        after = reader.uleb() + reader.at
        for letter in letters[1:]:
            if letter == ord("R"):
                common.way = reader.take("B")
            elif letter == ord("P"):
                reader.pointer(reader.take("B") & 0x0F, address_of)
            elif letter == ord("L"):
                reader.take("B")
        reader.at = after
    common.program = (reader.at, end)
    return common


class _Run:
    """The little programs of a CIE and an FDE, up to one place of the function."""

    def __init__(self, data: FileBytes, common: _Common, rules: Rules) -> None:
        self.data, self.common, self.rules = data, common, rules
        self.first: dict[int, int] = {}
        self._kept: list[tuple[int, int, dict[int, int], bool]] = []

    def steps(self, at: int, end: int, wanted: int | None) -> None:
        """Until the function's place `wanted`, counted from its begin."""
        reader, place = _Reader(self.data, at), 0
        for _ in range(_MOST_STEPS):
            if reader.at >= end:
                return
            step = reader.take("B")
            moved = self._advance(step, reader)
            if moved is not None:
                place += moved * self.common.code
                if wanted is not None and place > wanted:
                    return
            else:
                self._rule(step, reader)

    @staticmethod
    def _advance(step: int, reader: _Reader) -> int | None:
        if step >> 6 == 1:
            return step & 0x3F
        form = {2: "B", 3: "H", 4: "I"}.get(step)
        return reader.take(form) if form else None

    def _rule(self, step: int, reader: _Reader) -> None:
        rules, low = self.rules, step & 0x3F
        if step >> 6 == 2:
            rules.saved[low] = reader.uleb() * self.common.data
        elif step >> 6 == 3 or step == 0x06:
            self._restore(low if step >> 6 == 3 else reader.uleb())
        elif step == 0x0A:
            self._kept.append((rules.register, rules.offset, dict(rules.saved), rules.is_known))
        elif step == 0x0B:
            rules.register, rules.offset, rules.saved, rules.is_known = self._kept.pop()
        elif step in {0x0C, 0x12}:
            rules.register = reader.uleb()
            rules.offset = reader.uleb() if step == 0x0C else reader.sleb() * self.common.data
            rules.is_known = True
        elif step == 0x0D:
            rules.register = reader.uleb()
        elif step in {0x0E, 0x13}:
            rules.offset = reader.uleb() if step == 0x0E else reader.sleb() * self.common.data
        elif step == 0x0F:
            rules.is_known = False
            reader.at += reader.uleb()
        else:
            self._rare(step, reader)

    def _rare(self, step: int, reader: _Reader) -> None:
        if step in {0x05, 0x11}:
            register = reader.uleb()
            self.rules.saved[register] = (reader.uleb() if step == 0x05 else reader.sleb()) * self.common.data
        elif step in {0x07, 0x08}:
            self.rules.saved.pop(reader.uleb(), None)
        elif step in {0x09, 0x14}:
            self.rules.saved.pop(reader.uleb(), None)
            reader.uleb()
        elif step in {0x10, 0x16}:
            self.rules.saved.pop(reader.uleb(), None)
            reader.at += reader.uleb()
        elif step == 0x2E:
            reader.uleb()
        elif step != 0:
            raise ValueError(f"step {step:#x} is not known")

    def _restore(self, register: int) -> None:
        if register in self.first:
            self.rules.saved[register] = self.first[register]
        else:
            self.rules.saved.pop(register, None)
