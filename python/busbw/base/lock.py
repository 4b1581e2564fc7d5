"""One process at a time in a folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from busbw.base.errors import UserError

NAME = "lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder, which is made where there is none; UserError where another process holds it.

    The system lets go of it when its holder ends, however that ends. Where a file system knows no locks nobody waits.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as problem:
        raise UserError(f"nothing can be kept in {folder}: {problem.strerror or problem}") from problem
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another process works in {folder}; wait for its end, or name another folder") from None
        except OSError:
            pass  # a file system without locks
        yield
    finally:
        os.close(descriptor)
