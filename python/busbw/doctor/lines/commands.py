"""Variables that a log shows being set: by a shell's trace or echo, and on the command line of a launcher."""

from __future__ import annotations

import re
from collections.abc import MutableMapping

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
WORDS = ("export ", "declare -x ", "mpirun", "mpiexec", "prterun", "srun", "docker run", "podman run", "horovodrun")
"""One of these is in each line of which `note` can tell anything."""


def note(line: str, number: int, given: MutableMapping[str, tuple[str, int]]) -> None:
    """Keep what the line sets; the first value of each variable counts."""
    if ("NCCL_" not in line and "CUDA_" not in line) or not any(word in line for word in WORDS):
        return
    found = _EXPORT.search(line[:MAX_LOOK])
    words = re.split(r"\s+|(?<=[>:])", line[: found.start()]) if found is not None else []
    if not all(_BEFORE.match(word) for word in words if word.strip(":>")):
        found = None
    options = _OPTION.finditer(line[:4096]) if found is None and _LAUNCHER.search(line) else iter(())
    for each in (found, *options):
        if each is not None and len(given) < MAX_GIVEN:
            given.setdefault(each["name"], (each["value"].strip("\"'")[:MAX_VALUE], number))
