"""Variables that a log shows being set: by a shell's trace or echo, and on the command line of a launcher."""

from __future__ import annotations

import re
from collections.abc import MutableMapping

from busbw.machine.nccl.conf_values import misread

MAX_GIVEN = 200
MAX_VALUE = 200
MAX_LOOK = 400
_NAME = r"(?P<name>(?:NCCL|CUDA)_[A-Z0-9_]{2,60})"
_VALUE = r"=(?P<value>\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[^\s\"';]{0,200})"
_EXPORT = re.compile(rf"(?:\bexport |declare -x ){_NAME}{_VALUE}")
_BEFORE = re.compile(r"(?:\S*[\d\[<]\S*|\+{1,4}|\$)\Z")
"""A word that launchers and shells put before a command: it has a digit or a bracket, so that prose is none."""
_LAUNCHER = re.compile(r"\b(?:mpirun|mpiexec|prterun|srun|docker run|podman run|horovodrun)\b")
_OPTION = re.compile(rf"(?:\s-(?:x|e|genv|env)\s|--env[= ]|[,=]ALL,){_NAME}{_VALUE}")
_TYPED = re.compile(
    rf"^\s{{0,12}}(?:[^\n$#]{{0,80}}[$#] ?)?(?:env )?(?:[A-Z]\w{{2,60}}=[^\s\"']{{0,120}} ){{0,12}}?"
    rf"{_NAME}{_VALUE}(?=\s|$)"
)
"""In front of a command, and in what `env` prints: of these only what NCCL takes otherwise than meant is kept."""
_PLAIN = re.compile(r"[\w+-][\w.,:;^+-]{0,80}")
"""A value as it stands: one with $, < or ... is of a manual, or is filled in later."""
WORDS = ("export ", "declare -x ", "mpirun", "mpiexec", "prterun", "srun", "docker run", "podman run", "horovodrun")
"""One of these is in each line of which `note` can tell anything."""


def note(line: str, number: int, given: MutableMapping[str, tuple[str, int]]) -> None:
    """Keep what the line sets; the first value of each variable counts."""
    if "NCCL_" not in line and "CUDA_" not in line:
        return
    if not any(word in line for word in WORDS):
        if "NCCL_" in line and "=" in line:
            _note_misread(line, number, given)
        return
    found = _EXPORT.search(line[:MAX_LOOK])
    words = re.split(r"\s+|(?<=[>:])", line[: found.start()]) if found is not None else []
    if not all(_BEFORE.match(word) for word in words if word.strip(":>")):
        found = None
    options = _OPTION.finditer(line[:4096]) if found is None and _LAUNCHER.search(line) else iter(())
    for each in (found, *options):
        if each is not None and len(given) < MAX_GIVEN:
            given.setdefault(each["name"], (each["value"].strip("\"'")[:MAX_VALUE], number))


def _note_misread(line: str, number: int, given: MutableMapping[str, tuple[str, int]]) -> None:
    """Keep the variables of a prompt, a script or a list of the environment whose values NCCL misreads."""
    rest = line[:MAX_LOOK]
    while (found := _TYPED.match(rest)) is not None and len(given) < MAX_GIVEN:
        value = found["value"].strip("\"'")
        if _PLAIN.fullmatch(value) and misread(found["name"], value) is not None:
            given.setdefault(found["name"], (value[:MAX_VALUE], number))
        rest = rest[found.end() :]
