"""What an ELF program says of itself: processor, loader, the libraries that it needs, whether NCCL is built in."""

from __future__ import annotations

import mmap
import re
import struct
from dataclasses import dataclass
from pathlib import Path

MACHINES = {62: "x86-64", 183: "aarch64"}
_MAX_BYTES = 4 << 30
_MAX_HEADERS = 4096
_MAX_SYMBOLS = 4_000_000
_PT_DYNAMIC, _PT_INTERP, _SHT_SYMTAB, _SHT_DYNSYM = 2, 3, 2, 11
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ = 1, 5, 10
# NCCL writes its version into its text in digits; programs that only print one do not.
_NCCL_INSIDE = re.compile(rb"NCCL version (2\.\d{1,3}\.\d{1,3})")


@dataclass(frozen=True)
class Elf:
    """An ELF file of 64 bits; `loader` is "" for a program that is linked statically."""

    machine: str
    loader: str
    needed: tuple[str, ...]
    defines_nccl: bool
    nccl_inside: str | None
    """The version of an NCCL whose code lies in the file; None where there is none."""


def read_elf(path: Path) -> Elf | None:
    """None for what is no ELF file of 64 bits, or a damaged one."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if len(data) > _MAX_BYTES or data[:6] != b"\x7fELF\x02\x01":
                return None
            return _read(data)
    except (OSError, OverflowError, ValueError, struct.error):
        return None


def _read(data: mmap.mmap) -> Elf:
    machine = struct.unpack_from("<H", data, 18)[0]
    program_headers, section_headers = struct.unpack_from("<QQ", data, 32)
    program_size, program_count, section_size, section_count = struct.unpack_from("<HHHH", data, 54)
    segments = [
        struct.unpack_from("<IIQQQQ", data, program_headers + i * program_size)
        for i in range(min(program_count, _MAX_HEADERS))
    ]
    loader = ""
    needed: tuple[str, ...] = ()
    for kind, _, offset, _, _, size in segments:
        if kind == _PT_INTERP:
            loader = data[offset : offset + min(size, 4096)].split(b"\0")[0].decode(errors="replace")
        if kind == _PT_DYNAMIC:
            needed = _needed(data, offset, size, [(s[3], s[2], s[5]) for s in segments if s[0] == 1])
    defines = _defines(data, b"ncclCommInitRank", section_headers, section_size, min(section_count, _MAX_HEADERS))
    inside = _NCCL_INSIDE.search(data)
    version = inside[1].decode() if inside else None
    return Elf(MACHINES.get(machine, f"processor {machine}"), loader, needed, defines, version)


def _needed(data: mmap.mmap, offset: int, size: int, loads: list[tuple[int, int, int]]) -> tuple[str, ...]:
    entries = [struct.unpack_from("<QQ", data, at) for at in range(offset, offset + min(size, 1 << 16) - 15, 16)]
    values = dict(entries)
    names = values.get(_DT_STRTAB, 0)
    for address, in_file, length in loads:
        if address <= names < address + length:
            names += in_file - address
            break
    end = names + values.get(_DT_STRSZ, 0)
    return tuple(_text(data, names + value, end) for tag, value in entries if tag == _DT_NEEDED)


def _text(data: mmap.mmap, start: int, end: int) -> str:
    return data[start : min(end, start + 4096)].split(b"\0")[0].decode(errors="replace")


def _defines(data: mmap.mmap, name: bytes, headers: int, size: int, count: int) -> bool:
    sections = [struct.unpack_from("<IIQQQQII", data, headers + i * size) for i in range(count)] if headers else []
    for _, kind, _, _, offset, length, link, _ in sections:
        if kind not in (_SHT_SYMTAB, _SHT_DYNSYM) or link >= len(sections):
            continue
        names, names_size = sections[link][4], sections[link][5]
        # The linker lets a name be the end of another, as of pncclCommInitRank.
        at = data.find(name + b"\0", names, names + names_size)
        if at < 0:
            continue
        wanted = at - names
        for i in range(min(length // 24, _MAX_SYMBOLS)):
            text, _, _, section = struct.unpack_from("<IBBH", data, offset + 24 * i)
            if text == wanted and section != 0:
                return True
    return False
