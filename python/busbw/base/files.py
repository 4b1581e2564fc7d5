"""Files that a user names: read up to a limit, written but never over what was read, a sentence where either fails."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from busbw.base.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 5.0
"""A pipe that has a name must give its first byte within this, or get its reader: somebody has to be at its end."""

_written: list[int] = []
"""Our ends of pipes into which something will be written: while one is open their readers wait."""

_read: dict[tuple[int, int], str] = {}
"""Device and inode of every file that this process has read because somebody named it, and the name."""


def open_to_read(path: str | Path, *, what: str = "") -> BinaryIO:
    """The file, open. UserError for a folder, a device that never ends and a pipe into which nobody writes.

    What is opened here is remembered, and `writing` refuses it.
    """
    called = _called(what, path)
    descriptor = -1
    try:
        # A pipe without a writer must not hold us, and a terminal must not become ours.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        state = os.fstat(descriptor)
        if stat.S_ISDIR(state.st_mode):
            raise UserError(f"{called} cannot be read: it is a folder")
        if stat.S_ISCHR(state.st_mode) and state.st_rdev != _device_of(os.devnull):
            raise UserError(f"{called} is a device, and no device is read; save what it gives into a file first")
        if stat.S_ISFIFO(state.st_mode) and not select.select([descriptor], [], [], PATIENCE_S)[0]:
            raise UserError(f"{called} is a pipe into which nobody wrote within {PATIENCE_S:g} s")
        os.set_blocking(descriptor, True)
        _read[state.st_dev, state.st_ino] = os.path.abspath(path)  # noqa: PTH100
        return os.fdopen(descriptor, "rb")
    except OSError as problem:
        _close(descriptor)
        # A name that names nothing is a wrong word.
        code = 2 if isinstance(problem, FileNotFoundError) else 1
        raise UserError(f"{called} cannot be read: {problem.strerror or problem}", exit_code=code) from problem
    except UserError:
        _close(descriptor)
        raise


def _close(descriptor: int) -> None:
    with suppress(OSError):
        if descriptor >= 0:
            os.close(descriptor)


def _device_of(path: str) -> int:
    return os.stat(path).st_rdev  # noqa: PTH116


def read_bytes(path: str | Path, most: int, *, what: str = "", hint: str) -> bytes:
    """The content of up to `most` bytes; UserError calls the file `what` and gives the hint where it is larger."""
    # By its size, where it has one: what is refused need not be read first.
    data = b"" if _is_larger(path, most) else read_start(path, most + 1, what=what)
    if len(data) > most or _is_larger(path, most):
        raise UserError(f"{_called(what, path)} is larger than {most >> 20} MiB; {hint}")
    return data


def _is_larger(path: str | Path, most: int) -> bool:
    with suppress(OSError, ValueError):
        state = os.stat(path)  # noqa: PTH116
        return stat.S_ISREG(state.st_mode) and state.st_size > most
    return False


def read_start(path: str | Path, most: int, *, what: str = "") -> bytes:
    """The first `most` bytes, or all where there are fewer."""
    with open_to_read(path, what=what) as file:
        try:
            return file.read(most)
        except OSError as problem:
            raise UserError(f"{_called(what, path)} cannot be read: {problem.strerror or problem}") from problem


def read_text(path: str | Path, most: int, *, what: str = "", hint: str) -> str:
    """As `read_bytes`, of text in UTF-8, without the mark that some editors put before it."""
    try:
        return read_bytes(path, most, what=what, hint=hint).decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise UserError(f"{_called(what, path)} is no text in UTF-8") from None


@contextmanager
def writing(path: str | Path, *, update: bool = False) -> Iterator[None]:
    """What goes wrong with writing becomes a sentence; a file that was read is refused, except for an update of it."""
    if not update:
        refuse_read(path)
    try:
        await_reader(path)
        yield
    except OSError as problem:
        raise UserError(f"{path} cannot be written: {problem.strerror or problem}") from problem


def await_reader(path: str | Path) -> None:
    """OSError where this is a pipe that nobody opens for reading: to open it for writing would hold us for ever."""
    end = time.monotonic() + PATIENCE_S
    with suppress(FileNotFoundError):
        while stat.S_ISFIFO(os.stat(path).st_mode):  # noqa: PTH116
            try:
                _written.append(os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK))
            except OSError as problem:
                if problem.errno != errno.ENXIO:
                    raise
                if time.monotonic() > end:
                    raise OSError(errno.ENXIO, f"nobody read from this pipe within {PATIENCE_S:g} s") from None
                time.sleep(0.02)
            else:
                return


@contextmanager
def whole(path: Path, mode: int = 0o666) -> Iterator[Path]:
    """Where to write what shall stand at `path` whole or not at all; it takes that name when nothing has failed.

    A device, a pipe and an open descriptor (/dev/stdout) are no files that may be replaced: root would put a file into
    the place of /dev/null. They are written to in the end.
    """
    import shutil
    import tempfile

    replaceable = is_replaceable(path)
    if replaceable:
        path = path.resolve()  # a link stays one
    folder = path.parent if replaceable else None
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:60]}.", suffix=".partial", dir=folder)
    part = type(path)(name)
    try:
        os.fchmod(descriptor, _mode_of(path, mode) if replaceable else 0o600)
        os.close(descriptor)
        yield part
        if replaceable:
            part.replace(path)
        else:
            with part.open("rb") as source, path.open("wb") as target:
                shutil.copyfileobj(source, target)
    finally:
        part.unlink(missing_ok=True)


def _mode_of(path: Path, mode: int) -> int:
    """The mode of a file that replaces this one: the one it had, where nobody asks for less."""
    mask = os.umask(0)
    os.umask(mask)
    with suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode) & 0o777 & mode
    return mode & ~mask


def is_replaceable(path: Path) -> bool:
    """Whether a file may take this name: nothing has it yet, or a regular file that is no open descriptor's name.

    In a folder where no file can be made, one that is there can only be written into.
    """
    if path.parent.resolve().parts[:2] in {("/", "dev"), ("/", "proc")} and path.is_symlink():
        return False
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True
    return is_file and os.access(path.resolve().parent, os.W_OK)


def write_whole(path: str | Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """A file that a user asked for, whole or not at all; what lay there stays until all of the new one is written.

    What goes wrong becomes a sentence; a file that was read is refused.
    """
    from pathlib import Path

    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    target = Path(path)
    with writing(target):
        if is_replaceable(target):
            with whole(target, mode) as part:
                part.write_bytes(data)
        else:
            target.write_bytes(data)


def replace_text(path: Path, text: str) -> None:
    """Write it whole or not at all: somebody may read it at any moment. What stood in it was read and goes on."""
    with writing(path, update=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as part:
            part.write_text(text, encoding="utf-8")


def unwritable(folder: Path) -> str:
    """Why no file can be made in this folder, by making one; "" where one can."""
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as problem:
        return f"{folder}: {problem.strerror or problem}"


def bytes_on_disk(file: int | str | Path) -> int:
    """What of a file lies on disk, by name or descriptor: the zeros of a sparse one cost their reader time, too.

    A file system that counts no blocks, as some of user space, is believed where it says that there is data.
    """
    state = os.stat(file)  # noqa: PTH116 - a descriptor too
    if state.st_blocks or not stat.S_ISREG(state.st_mode):
        return min(state.st_size, state.st_blocks * 512)
    descriptor = file if isinstance(file, int) else os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        at = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, 0, os.SEEK_DATA)
        os.lseek(descriptor, at, os.SEEK_SET)
    except OSError:
        return 0
    finally:
        if descriptor != file:
            os.close(descriptor)
    return state.st_size


def refuse_read(path: str | Path) -> None:
    """UserError where this file, by whatever name, is one that was read."""
    found = identity(path)
    # An inode comes again: the file that was read may be gone, and this one may have its number.
    if found is not None and found in _read and identity(_read[found]) == found:
        raise UserError(f"{path} is a file that was read, and is not overwritten; name another one to write to")


def identity(path: str | Path | int) -> tuple[int, int] | None:
    """Device and inode of a regular file, by whatever name or descriptor; None where there is none."""
    with suppress(OSError, ValueError):
        state = os.stat(path)  # noqa: PTH116 - a descriptor too
        if stat.S_ISREG(state.st_mode):
            return state.st_dev, state.st_ino
    return None


def _called(what: str, path: str | Path) -> str:
    return f"{what} {path}" if what else str(path)


def open_standard_descriptors() -> None:
    """Open what is closed of stdin, stdout and stderr on /dev/null: else a file of ours takes its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one. What is started gets it too: it may not open its own.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = sys.stdin or os.fdopen(0, "r")
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
