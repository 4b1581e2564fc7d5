"""A folder for a while that goes with us, however we end: a shell of its own waits for our end and removes it.

SIGKILL leaves no time to clean up. The shell holds one end of a pipe, sees that the other was closed, and removes the
folder; it has a session of its own and takes no notice of SIGINT, SIGTERM and SIGHUP. Where it was killed, we remove.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from busbw.base.errors import UserError

_SHELL = "/bin/sh"
_WAITS = 'trap "" INT TERM HUP; read -r _; exec rm -rf -- "$0"'
_REMOVED_WITHIN_S = 5.0


@contextmanager
def scratch_folder(prefix: str, within: Path | None = None) -> Iterator[Path]:
    """A new folder for this user alone (mode 0700), where temporary files belong or in that folder."""
    folder = Path(within or tempfile.gettempdir(), f"{prefix}{secrets.token_hex(6)}").absolute()
    read, write = os.pipe()  # neither end is passed on to programs
    waiting = _start_waiting(folder, read)
    os.close(read)
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        os.close(write)
        hint = "; TMPDIR names another place" if within is None else ""
        raise UserError(f"{folder} cannot be made: {error.strerror}{hint}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(write)
        _collect(waiting)


def _start_waiting(folder: Path, read: int) -> int | None:
    """The number of the shell; None where there is none: then only our own end in order removes the folder."""
    with suppress(OSError, NotImplementedError):
        return os.posix_spawn(
            _SHELL, [_SHELL, "-c", _WAITS, str(folder)], {"PATH": os.defpath},
            file_actions=[(os.POSIX_SPAWN_DUP2, read, 0), (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                          (os.POSIX_SPAWN_DUP2, 1, 2)],
            setsid=True, setsigmask=(), setsigdef=(signal.SIGPIPE,),
        )  # fmt: skip
    return None


def _collect(pid: int | None) -> None:
    """Its end comes by itself; a loaded machine takes a moment."""
    end = time.monotonic() + _REMOVED_WITHIN_S
    while pid is not None and time.monotonic() < end:
        with suppress(ChildProcessError):  # SIGCHLD is ignored, or somebody else has collected it
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
                continue
        return
