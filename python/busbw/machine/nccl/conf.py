"""nccl.conf as NCCL reads it, and which value of each variable is in force.

NCCL (src/misc/param.cc) reads NCCL_CONF_FILE, or without it ~/.nccl.conf of the user in the password file, and then
always /etc/nccl.conf. A file never overrides what is already set: the environment wins, then the first file. It trims
nothing: `NCCL_ALGO = Ring` sets a variable whose name ends in a space, which nobody reads.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw.base.errors import UserError
from busbw.base.files import read_start
from busbw.base.secrets import shortened
from busbw.machine.nccl.problem import Problem

MAX_LINES = 10_000
MAX_BYTES = 32 << 20
SYSTEM_CONF = "/etc/nccl.conf"
MAX_VALUE = 1023  # NCCL's buffer

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a conf file that sets a variable, with its name and value as NCCL takes them."""

    name: str
    value: str
    line: int


@dataclass(frozen=True, slots=True)
class ConfFile:
    """An nccl.conf as read."""

    path: str
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a variable was set: "environment", a conf file with its line, a log or a record."""

    where: str
    line: int | None = None
    conf: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """The value that is in force, and the places whose values it hides."""

    name: str
    value: str
    origin: Origin
    hidden: tuple[tuple[str, Origin], ...] = ()


def read_conf(text: str, path: str) -> ConfFile:
    """Read a conf file as NCCL does; problems are lines of which NCCL makes something else than meant."""
    entries: list[Entry] = []
    problems: list[Problem] = []
    # Lines end where NCCL ends them: at a line feed alone. A carriage return before it belongs to the value.
    for number, line in enumerate(text.split("\n")[:MAX_LINES], 1):
        if line.startswith("#") or not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals:
            problems.append(Problem(number, f"'{_short(line)}' has no = and is ignored"))
            continue
        problem = _oddity(name, value)
        if problem:
            problems.append(Problem(number, problem))
        if _NAME.fullmatch(name):
            entries.append(Entry(name, value[:MAX_VALUE], number))
    return ConfFile(path, tuple(entries), tuple(problems))


def conf_paths(environ: Mapping[str, str]) -> tuple[str, str]:
    """The two files that NCCL looks for, in its order, whether they are there or not."""
    # NCCL asks the password file for the home, not $HOME.
    return environ.get("NCCL_CONF_FILE") or f"{_home()}/.nccl.conf", SYSTEM_CONF


def set_by_files(environ: Mapping[str, str]) -> dict[str, Origin]:
    """The variables that conf files of this host set for every program, and where."""
    found: dict[str, Origin] = {}
    for file in _files_here(environ):
        for entry in file.entries:
            found.setdefault(entry.name, Origin(file.path, entry.line, conf=True))
    return found


def values_here(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables as NCCL sees them on this host: of the environment, and of its conf files where that has none."""
    return {name: setting.value for name, setting in in_force(environ, list(_files_here(environ))).items()}


def _files_here(environ: Mapping[str, str]) -> Iterator[ConfFile]:
    for path in conf_paths(environ):
        try:
            text = read_start(path, MAX_BYTES).decode("utf-8", "replace")
        except UserError:
            continue
        yield read_conf(text, path)


def _home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def in_force(environment: Mapping[str, str], files: Sequence[ConfFile]) -> dict[str, Setting]:
    """The variables as NCCL will see them; `files` in the order in which NCCL reads them."""
    found = {name: Setting(name, value, Origin("environment")) for name, value in environment.items()}
    for file in files:
        for entry in file.entries:
            origin = Origin(file.path, entry.line, conf=True)
            known = found.get(entry.name)
            if known is None:
                found[entry.name] = Setting(entry.name, entry.value, origin)
            else:
                hidden = (*known.hidden, (entry.value, origin))
                found[entry.name] = Setting(known.name, known.value, known.origin, hidden)
    return found


def _oddity(name: str, value: str) -> str | None:
    return _odd_name(name) or _odd_value(name, value)


def _odd_name(name: str) -> str | None:
    if name.lstrip().startswith("#"):
        return "a comment that does not begin in the first column is read as a variable, which nobody reads"
    if name != name.strip():
        return f"white space around '{name.strip()[:40]}' becomes part of its name, so nothing is set"
    if name.startswith("export "):
        return f"'export' becomes part of the name, so {_short(name.removeprefix('export '))} is not set"
    return None if _NAME.fullmatch(name) else f"'{_short(name)}' is no name of a variable"


def _odd_value(name: str, value: str) -> str | None:
    if len(value) > MAX_VALUE:
        return f"the value of {name} is cut after {MAX_VALUE} characters"
    if value.endswith("\r"):
        return f"the carriage return at the end (a file of Windows) becomes part of the value of {name}"
    if value != value.strip():
        return f"white space around the value of {name} becomes part of it"
    if value[:1] in {'"', "'"} and value[-1:] == value[:1]:
        return f"the quotes become part of the value of {name}"
    return None


def _short(text: str) -> str:
    text = "".join(c if c.isprintable() else "\ufffd" for c in text.strip())
    return text if len(text) <= 40 else f"{shortened(text, 40)}..."
