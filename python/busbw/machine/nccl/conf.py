"""nccl.conf as NCCL reads it, and which value of each variable is in force.

NCCL (src/misc/param.cc) reads NCCL_CONF_FILE (from 2.23 on), or without it ~/.nccl.conf, and then always
/etc/nccl.conf. The home is $HOME from 2.30 on, before it that of the user in the password file. A file never overrides
what is already set: the environment wins, then the first file. It trims nothing: `NCCL_ALGO = Ring` sets a variable
whose name ends in a space, which nobody reads. 2.30 alone leaves out a carriage return at the end of a line, and takes
what follows the 4,095th character of a line for a line of its own. engine/record/nccl_conf.cc has the same rules.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw.base.errors import UserError
from busbw.base.files import read_start
from busbw.base.secrets import shortened
from busbw.machine.nccl.conf_values import misread
from busbw.machine.nccl.problem import Problem

MAX_LINES = 10_000
MAX_BYTES = 32 << 20
SYSTEM_CONF = "/etc/nccl.conf"
USER_CONF = ".nccl.conf"
MAX_VALUE = 1023  # NCCL's buffer
MAX_LINE = 4095  # likewise, from 2.30 on

Version = tuple[int, int]
"""Of an NCCL, such as (2, 30). Where it is None nobody knows it, and both rules are told."""
NAMES_A_FILE: Version = (2, 23)
NEW_RULES: Version = (2, 30)
OLD_ONLY = "up to NCCL 2.29 "
"""So a problem begins that newer ones have not, where the version is not known."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|\d{1,20})")
_EMPTY_IS_NONE = frozenset({"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL"})
_TEXTS = frozenset({"NCCL_HOSTID", "NCCL_COMM_ID"})
_NUMBERS = re.compile(r"(\d{1,3})\.(\d{1,3})")


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


def read_conf(text: str, path: str, version: Version | None = None) -> ConfFile:
    """Read a conf file as NCCL does; problems are lines of which NCCL makes something else than meant."""
    entries: list[Entry] = []
    problems: list[Problem] = []
    # Lines end where NCCL ends them: at a line feed alone.
    for number, whole in enumerate(text.split("\n")[:MAX_LINES], 1):
        for line in _as_read(whole, version):
            if line.startswith("#") or not line.strip():
                continue
            name, equals, value = line.partition("=")
            problem = _oddity(name, value, version) if equals else f"'{_short(line)}' has no = and is ignored"
            if problem:
                problems.append(Problem(number, problem))
            # Of an unknown version: as the newest takes it, and the problem says what others make of it.
            value = value if version is not None else value.removesuffix("\r")
            if equals and _NAME.fullmatch(name):
                entries.append(Entry(name, value[:MAX_VALUE], number))
    return ConfFile(path, tuple(entries), tuple(problems))


def _as_read(line: str, version: Version | None) -> Iterator[str]:
    """A line of the file as the lines that this NCCL sees."""
    if version is None or version < NEW_RULES:
        yield line
        return
    while len(line) > MAX_LINE:
        yield line[:MAX_LINE]
        line = line[MAX_LINE:]
    yield line.removesuffix("\r")


def common(versions: Iterable[str | int | None]) -> Version | None:
    """One with the rules of all of these ("2.30.7+cuda13.0" or 23007); None where they differ or one is unknown."""
    found = {_version(each) for each in versions}
    if not found or None in found:
        return None
    known = {each for each in found if each is not None}
    sides = {(each >= NAMES_A_FILE, each >= NEW_RULES) for each in known}
    return min(known) if len(sides) == 1 else None


def _version(said: str | int | None) -> Version | None:
    if isinstance(said, int):
        # Up to 2.8 the major version counted a thousand.
        major = 10_000 if said >= 10_000 else 1_000
        return said // major, said % major // 100
    found = _NUMBERS.match(said or "")
    return (int(found[1]), int(found[2])) if found else None


def homes(environ: Mapping[str, str], version: Version | None = None) -> tuple[str, ...]:
    """Where NCCL looks for the user's file: by its version in one home, by an unknown one perhaps in either."""
    by_variable, by_password_file = environ.get("HOME", ""), _home()
    if version is None:
        return tuple(dict.fromkeys(each for each in (by_variable, by_password_file) if each))
    home = by_variable if version >= NEW_RULES else by_password_file
    return (home,) if home else ()


def of_two_homes(environ: Mapping[str, str], version: Version | None) -> str | None:
    """A sentence where it depends on the version, which nobody knows, in which home the user's file lies."""
    if environ.get("NCCL_CONF_FILE") or len(found := homes(environ, version)) < 2:
        return None
    by_variable, by_password_file = (f"{home}/{USER_CONF}" for home in found)
    return f"NCCL 2.30 and later read {by_variable} (of $HOME), earlier ones {by_password_file} (of the password file)"


def conf_paths(environ: Mapping[str, str], version: Version | None = None) -> tuple[str, ...]:
    """The files that NCCL looks for, in its order, whether they are there or not."""
    named = environ.get("NCCL_CONF_FILE") if version is None or version >= NAMES_A_FILE else None
    return (*((named,) if named else (f"{home}/{USER_CONF}" for home in homes(environ, version))), SYSTEM_CONF)


def shown_path(path: str) -> str:
    """The file as a record names it: that of the user alike wherever the home is."""
    return f"~/{USER_CONF}" if path.startswith("/") and path.endswith(f"/{USER_CONF}") else path


def without_effect(name: str, value: str) -> str | None:
    """A value that NCCL takes for none, for a variable that /etc/nccl.conf sets to `value`; None where there is none.

    An empty number is passed over (src/misc/param.cc), an empty name of a file is not, and up to 2.23 an empty
    NCCL_PROTO leaves no protocol at all (src/graph/tuning.cc).
    """
    if name == "NCCL_ALGO":
        return "^"  # all but none of them, in every version
    if name in _EMPTY_IS_NONE or (name.startswith("NCCL_") and name not in _TEXTS and _NUMBER.fullmatch(value.strip())):
        return ""
    return None


def set_by_files(environ: Mapping[str, str]) -> dict[str, Origin]:
    """The variables that conf files of this host set for every program, and where."""
    found: dict[str, Origin] = {}
    for file in files_here(environ):
        for entry in file.entries:
            found.setdefault(entry.name, Origin(file.path, entry.line, conf=True))
    return found


def values_here(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables as NCCL sees them on this host: of the environment, and of its conf files where that has none."""
    return {name: setting.value for name, setting in in_force(environ, list(files_here(environ))).items()}


def files_here(environ: Mapping[str, str], version: Version | None = None) -> Iterator[ConfFile]:
    """The conf files of this host that can be read, in NCCL's order."""
    for path in conf_paths(environ, version):
        try:
            text = read_start(path, MAX_BYTES).decode("utf-8", "replace")
        except UserError:
            continue
        yield read_conf(text, path, version)


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


def _oddity(name: str, value: str, version: Version | None) -> str | None:
    return _odd_name(name) or _odd_value(name, value, version)


def _odd_name(name: str) -> str | None:
    if name.lstrip().startswith("#"):
        return "a comment that does not begin in the first column is read as a variable, which nobody reads"
    if name != name.strip():
        return f"white space around '{name.strip()[:40]}' becomes part of its name, so nothing is set"
    if name.startswith("export "):
        return f"'export' becomes part of the name, so {_short(name.removeprefix('export '))} is not set"
    return None if _NAME.fullmatch(name) else f"'{_short(name)}' is no name of a variable"


def _odd_value(name: str, value: str, version: Version | None) -> str | None:
    if len(value) > MAX_VALUE:
        rest = version is None and len(name) + 1 + len(value) > MAX_LINE
        more = f"; NCCL 2.30 takes what follows the {MAX_LINE:,}th of the line for a line of its own" if rest else ""
        return f"the value of {name} is cut after {MAX_VALUE} characters{more}"
    if value.endswith("\r"):
        until = "" if version is not None else OLD_ONLY
        more = "; NCCL 2.30 leaves it out" if version is None else ""
        return f"{until}the carriage return at the end (a file of Windows) becomes part of the value of {name}{more}"
    if value != value.strip():
        return f"white space around the value of {name} becomes part of it"
    if value[:1] in {'"', "'"} and value[-1:] == value[:1]:
        return f"the quotes become part of the value of {name}"
    return misread(name, value)


def _short(text: str) -> str:
    text = "".join(c if c.isprintable() else "\ufffd" for c in text.strip())
    return text if len(text) <= 40 else f"{shortened(text, 40)}..."
