"""The environment in which a program finds a library of ours where it looks for NCCL, and why one cannot."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from busbw.base.errors import UsageError, UserError
from busbw.launch.elf import Elf, read_elf
from busbw.launch.engine import checkout, find_engine

AUDITOR = "libbusbw_with.so"
SHIM = "busbw_with/libnccl.so.2"
FILES = {"busbw": "libbusbw_gpu.so", "recorder": "libbusbw_record.so"}
"""Names of `--library`, and their files beside the engine's."""
_AUDIT_SINCE = (2, 35)
"""Older C libraries slow every call down, or lose objects, while an auditor looks on."""
_MAX_SCRIPTS = 4


@dataclass(frozen=True)
class Front:
    """A library, and the way in which the loader is brought to take it for NCCL."""

    library: Path
    auditor: Path | None
    shim: Path | None


def find_front(name: str, how: str, engine: Path | None = None) -> Front:
    """`how` is audit, preload, or auto for the better one that this C library can do."""
    library = _library(name, engine)
    elf = read_elf(library)
    if elf is None or not elf.defines_nccl:
        raise UserError(f"{library} is no library with the NCCL API for this kind of machine; give another --library")
    if how == "preload" or (how == "auto" and not _audits()):
        return Front(library, None, None)
    auditor, shim = find_beside(AUDITOR, engine), find_beside(SHIM, engine)
    return Front(library, auditor, shim)


def environment(front: Front, environ: Mapping[str, str], nccl: Path | None) -> dict[str, str]:
    """`environ` with the library in front; `nccl` is the file that shall stand behind, whatever the program opens."""
    made = dict(environ)
    if nccl is not None:
        made["BUSBW_REAL_NCCL"] = str(nccl)
    if front.auditor is None:
        made["LD_PRELOAD"] = ":".join(filter(None, (str(front.library), environ.get("LD_PRELOAD", ""))))
        return made
    made["BUSBW_WITH_FRONT"], made["BUSBW_WITH_SHIM"] = str(front.library), str(front.shim)
    made["LD_AUDIT"] = ":".join(filter(None, (str(front.auditor), environ.get("LD_AUDIT", ""))))
    return made


def resolve_program(word: str, environ: Mapping[str, str]) -> Path:
    """The file that a shell would start for this word."""
    found = shutil.which(word, path=environ.get("PATH", os.defpath))
    if found is None:
        is_there = os.sep in word and Path(word).exists()
        why = "is no program that can be run" if is_there else "was not found"
        raise UserError(f"'{word}' {why}; give the program after --", exit_code=126 if is_there else 127)
    return Path(found)


def check(program: Path, library: Path, environ: Mapping[str, str]) -> None:
    """Raise a UserError with the reason if nothing can stand in front of NCCL in this program."""
    file, elf = _started(program, environ)
    if elf is None:
        return
    ours = read_elf(library)
    if ours is not None and ours.machine != elf.machine:
        raise UserError(f"{file} is a program for {elf.machine}, but {library.name} is for {ours.machine}")
    if not elf.loader:
        raise UserError(f"{file} is linked statically: no library can be put in front of what it calls")
    if "ld-linux" not in elf.loader:
        raise UserError(f"{file} runs with the C library of {elf.loader}; busbw's libraries need glibc")
    if elf.defines_nccl or (elf.nccl_inside and not any(name.startswith("libnccl") for name in elf.needed)):
        version = f" {elf.nccl_inside}" if elf.nccl_inside else ""
        raise UserError(f"{file} has NCCL{version} built in; link it with libnccl.so.2 to put a library in front")
    if _is_privileged(file):
        raise UserError(f"{file} is set-user-ID or has capabilities: the loader takes no other library for it")


def check_nccl(path: str) -> Path:
    """The file that shall stand behind."""
    file = Path(path)
    elf = read_elf(file)
    if elf is None or not elf.defines_nccl:
        raise UserError(f"--nccl {path}: that is no NCCL; give the path of a libnccl.so.2")
    return file.absolute()


def _started(program: Path, environ: Mapping[str, str]) -> tuple[Path, Elf | None]:
    """The ELF file that runs in the end: of a script, its interpreter's."""
    file = program
    for _ in range(_MAX_SCRIPTS):
        with file.open("rb") as opened:
            first = opened.readline(4096)
        if not first.startswith(b"#!"):
            break
        words = first[2:].decode(errors="replace").split()
        if words and Path(words[0]).name == "env":
            words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        found = shutil.which(words[0], path=environ.get("PATH", os.defpath)) if words else None
        if found is None:
            raise UserError(f"{file} is a script for '{words[0] if words else ''}', which was not found")
        file = Path(found)
    return file, read_elf(file)


def _is_privileged(file: Path) -> bool:
    mode = file.stat().st_mode
    if mode & stat.S_ISUID or (mode & stat.S_ISGID and mode & stat.S_IXGRP):
        return True
    try:
        return bool(os.getxattr(file, "security.capability"))
    except OSError:
        return False


def _library(name: str, engine: Path | None) -> Path:
    if name in FILES:
        return find_beside(FILES[name], engine)
    if os.sep not in name:
        raise UsageError(f"--library {name}: give {' or '.join(FILES)}, or the path of a library with the NCCL API")
    path = Path(name)
    if not path.is_file():
        raise UserError(f"--library {name}: there is no such file")
    return path.resolve()


def find_beside(name: str, engine: Path | None = None) -> Path:
    """A file of ours in lib/, beside the engine's bin/; UserError where it is not built."""
    folder = (engine or find_engine()).resolve().parent.parent / "lib"
    path = folder / name
    if not path.is_file():
        how = "`make build`" if checkout() is not None else "installing busbw again"
        raise UserError(f"{path} is missing; {how} makes it")
    return path


def _audits() -> bool:
    name, version = platform.libc_ver()
    try:
        return name == "glibc" and tuple(int(part) for part in version.split(".")[:2]) >= _AUDIT_SINCE
    except ValueError:
        return False
