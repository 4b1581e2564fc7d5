"""What a pipe gives is kept in a file without a name: a log is looked at first, and then read from its start."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Sequence

from busbw.base.errors import UserError
from busbw.base.files import open_to_read

MAX_BYTES = 4 << 30
_BLOCK = 1 << 20
_OWN = re.compile(r"/dev/(?:stdin|fd/(\d{1,7}))|/proc/self/fd/(\d{1,7})")
_kept: list[int] = []
"""Descriptors of what pipes with names gave: the file is gone when its last one is closed."""


def kept(names: Sequence[str]) -> list[str]:
    """The names, `-` as standard input; what is a pipe can be read again and again by the name given here."""
    return [_kept_name("/dev/stdin" if name == "-" else name) for name in names]


def _kept_name(name: str) -> str:
    try:
        if not stat.S_ISFIFO(os.stat(name).st_mode):  # noqa: PTH116 - as it is opened
            return name
        with tempfile.TemporaryFile() as file:
            _copy(name, file.fileno())
            # A pipe that has no name but a descriptor's is replaced, so that the file has the name that was given.
            own = _OWN.fullmatch(name)
            if own is not None:
                os.dup2(file.fileno(), int(own[1] or own[2] or 0))
                return name
            _kept.append(os.dup(file.fileno()))
            return f"/proc/self/fd/{_kept[-1]}"
    except FileNotFoundError:
        return name
    except OSError as problem:
        raise UserError(f"{name} cannot be read: {problem.strerror or problem}") from problem


def _copy(name: str, target: int) -> None:
    taken = 0
    with open_to_read(name) as pipe:
        while block := pipe.read(_BLOCK):
            taken += len(block)
            if taken > MAX_BYTES:
                raise UserError(f"{name} gives more than {MAX_BYTES >> 30} GiB; save the part that matters into a file")
            while block:
                block = block[os.write(target, block) :]
