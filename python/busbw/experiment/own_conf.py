"""A variant's own nccl.conf: the user's, without the lines of those variables that the variant removes.

NCCL sets anew what its conf files say, so removing a variable from the environment is not enough. An empty value is not
always none: of a file it is a name that cannot be opened. NCCL_CONF_FILE replaces the user's file; /etc/nccl.conf is
read whatever it names.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from busbw.base.errors import UsageError, UserError
from busbw.base.files import read_start
from busbw.machine.nccl.conf import MAX_BYTES, SYSTEM_CONF, ConfFile, files_here, without_effect

NAME = "nccl.conf"


def refuse_where_it_stays(variable: str, environ: Mapping[str, str]) -> None:
    """UsageError for a variable that a conf file sets whatever this process does."""
    of_system, of_user = _files(environ)
    entry = next((each for file in of_system for each in file.entries if each.name == variable), None)
    if entry is not None and without_effect(variable, entry.value) is None:
        raise UsageError(
            f"{variable} cannot be unset: NCCL always reads {SYSTEM_CONF}, and line {entry.line} of it sets it; "
            "remove that line for the experiment, or name the value that it should have"
        )
    if len(of_user) > 1 and any(each.name == variable for file in of_user for each in file.entries):
        raise UsageError(
            f"{variable} cannot be unset: which of {' and '.join(file.path for file in of_user)} is read depends on "
            "the version of NCCL; name one of them by NCCL_CONF_FILE"
        )


def settings_without(removed: Collection[str], environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What to set besides so that conf files do not set these variables; a copy is written into `folder` if needed."""
    of_system, of_user = _files(environ)
    stay = {each.name: each.value for file in of_system for each in file.entries if each.name in removed}
    # Values that NCCL takes for none win over both files; what has no such value was refused before.
    settings = {name: value for name in stay if (value := without_effect(name, stay[name])) is not None}
    for file in of_user:
        lines = {each.line for each in file.entries if each.name in removed}
        if lines:
            settings["NCCL_CONF_FILE"] = str(_copy(file.path, lines, folder / NAME))
    return settings


def needs_copy(removed: Collection[str], environ: Mapping[str, str]) -> bool:
    """Whether the user's conf file sets one of them."""
    return any(each.name in removed for file in _files(environ)[1] for each in file.entries)


def _files(environ: Mapping[str, str]) -> tuple[list[ConfFile], list[ConfFile]]:
    """That of the system and those that may be the user's."""
    found = list(files_here(environ))
    return [file for file in found if file.path == SYSTEM_CONF], [file for file in found if file.path != SYSTEM_CONF]


def _copy(path: str, without: Collection[int], to: Path) -> Path:
    lines = read_start(path, MAX_BYTES).split(b"\n")
    text = b"\n".join(line for number, line in enumerate(lines, 1) if number not in without)
    try:
        descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # it may hold secrets, as the file may
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text)
    except OSError as problem:
        raise UserError(f"a copy of {path} cannot be written to {to}: {problem.strerror or problem}") from problem
    return to.absolute()
