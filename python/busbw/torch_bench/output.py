"""The record of rank 0, written line by line as it is measured, and the environment that may stand in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from busbw.base.acting import belongs_in_record, digests
from busbw.base.errors import UserError
from busbw.base.secrets import hide_random, shortened
from busbw.machine.nccl.conf import common, files_here, in_force, shown_path
from busbw.records import Case, ConfSetting, End, Run, to_json

_LONGEST = 4096
_MOST_SETTINGS = 200
_LONGEST_VERSION = 100
_LONGEST_FILE = 4096
_MOST_IDENTIFIED = 64
_UUID = "GPU UUID:"


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that belong in a record."""
    return {
        name: hide_random(shortened(value, _LONGEST))
        for name, value in sorted(environ.items())
        if belongs_in_record(name)
    }


def conf(environ: Mapping[str, str], nccl: int | None) -> tuple[ConfSetting, ...]:
    """What the files nccl.conf set for an NCCL of that version, by the rules of the engine (record/nccl_conf.cc)."""
    found: list[ConfSetting] = []
    known = set(environ)
    for file in files_here(environ, common([nccl])):
        for each in file.entries:
            if belongs_in_record(each.name) and len(found) < _MOST_SETTINGS:
                value = hide_random(shortened(each.value, _LONGEST))
                found.append(ConfSetting(each.name, value, shown_path(file.path), each.line, each.name not in known))
            known.add(each.name)
    return tuple(found)


def files(environ: Mapping[str, str], nccl: int | None) -> dict[str, str]:
    """The digests of files that variables name, of the environment or of an nccl.conf."""
    settings = in_force(environ, list(files_here(environ, common([nccl]))))
    return dict(digests({name: each.value for name, each in settings.items()}))


def system(root: Path = Path("/")) -> dict[str, str]:
    """The kernel, the GPU driver and the hardware of this host, as the engine has them."""
    said = {"kernel": _word(os.uname().release), "driver": _word(_start(root / "sys/module/nvidia/version")),
            "hardware": hardware_identity(root)}  # fmt: skip
    return {name: value for name, value in said.items() if value}


def joined(systems: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What all hosts said, each value once; too many kinds of hardware are left to the hosts' names."""
    found: dict[str, set[str]] = {}
    for one in systems:
        for name, value in one.items():
            found.setdefault(name, set()).add(value)
    return {name: ", ".join(sorted(values)) for name, values in found.items()
            if name != "hardware" or len(values) <= _MOST_IDENTIFIED}  # fmt: skip


def hardware_identity(root: Path) -> str:
    """A hash of the GPUs' UUIDs, else of the network adapters' own addresses: engine/platform/software.cc's."""
    parts = _said_below(root / "proc/driver/nvidia/gpus", _gpu_uuid)
    parts = parts or _said_below(root / "sys/class/net", _made_address)
    return hashlib.sha256("".join(f"{part}\n" for part in parts).encode()).hexdigest()[:16] if parts else ""


def _said_below(folder: Path, said_by: Callable[[Path], str]) -> list[str]:
    try:
        return sorted(said for said in map(said_by, folder.iterdir()) if said)
    except OSError:
        return []


def _gpu_uuid(gpu: Path) -> str:
    for line in _start(gpu / "information").splitlines():
        if line.startswith(_UUID):
            said = _word(line.removeprefix(_UUID))
            return "" if "?" in said else said  # GPU-????????-...: the driver does not know it yet
    return ""


def _made_address(adapter: Path) -> str:
    """What is no adapter has no device; what was given or drawn at random at its start has another type than 0."""
    if not (adapter / "device").exists() or _start(adapter / "addr_assign_type").partition("\n")[0] != "0":
        return ""
    address = _word(_start(adapter / "address"))
    return address if address.strip("0:") else ""


def _start(path: Path) -> str:
    with suppress(OSError), path.open("rb") as stream:
        return stream.read(_LONGEST_FILE).decode("ascii", "replace")
    return ""


def _word(text: str) -> str:
    """Printable and short: it goes into records and is shown."""
    word = (text.split() or [""])[0]
    return next((word[:at] for at, each in enumerate(word) if not "!" <= each <= "~"), word)[:_LONGEST_VERSION]


class Output:
    """A record, or nothing where this rank keeps none."""

    def __init__(self, path: str | None) -> None:
        self._stream: TextIO | None = None
        if path:
            try:
                self._stream = Path(path).open("x", encoding="utf-8")  # noqa: SIM115 - kept open from case to case
            except OSError as problem:
                reason = problem.strerror or problem
                raise UserError(f"the record {path} cannot be written: {reason}; name another with --runs") from None

    def line(self, line: Run | Case | End) -> None:
        """One line, on the disk before the next case begins."""
        if self._stream:
            self._stream.write(to_json(line) + "\n")
            self._stream.flush()
