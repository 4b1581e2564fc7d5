"""What cannot be written, or would overwrite what is read, is refused from the words alone, before anything runs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from busbw.base.errors import UsageError
from busbw.base.files import await_reader, identity, unwritable
from busbw.base.options import ENGINE, Option


class Given(Protocol):
    """An option or word as somebody wrote it: `busbw.base.words.Given`."""

    @property
    def option(self) -> Option | None: ...
    @property
    def text(self) -> str | None: ...
    @property
    def words(self) -> tuple[str, ...]: ...


def refuse_overwriting(given: Iterable[Given], words: Sequence[str] = ()) -> None:
    """UsageError where an option that writes names a file which another word names too, or which cannot be written.

    The table of options says which write (`writes`). All else that names a file, a folder's files and what stands on
    standard input included, counts as read. `base.files.writing` looks again for what no word names, as kept runs do.
    """
    written = [each for each in given if each.option is not None and each.option.writes and each.text]
    if not written:
        return
    read = [each.text or "" for each in given if each.option is not None and not each.option.writes and each.text]
    read += [each.words[0] for each in given if each.option is None]
    read += words
    for at, each in enumerate(written):
        target = Path(each.text or "")
        if each.option is not None and (why := _hindrance(target, each.option)):
            raise UsageError(f"{each.words[0].partition('=')[0]} {target} cannot be written: {why}; name another file")
        if any(_same(target, Path(other.text or "")) for other in written[:at] if other.option is not each.option):
            raise UsageError(f"{target} is to be written twice; name two files")
        if source := _read_as(target, read):
            raise UsageError(f"{each.words[0].partition('=')[0]} {target} would overwrite {source}, which is read; "
                             "name another file")  # fmt: skip


def _hindrance(target: Path, option: Option) -> str:
    """Why nothing can be written there; what is known before an hour of measuring is not told after it."""
    try:
        if option.value == "FILE" and target.is_dir():
            return "it is a folder"
        above = next(each for each in target.absolute().parents if each.exists())
        if not above.is_dir():
            return f"{above} is no folder"
        await_reader(target)
        if option.half == ENGINE:
            # The engine looks itself before it measures, and may do so on another host, which has other folders.
            return ""
        if above != target.absolute().parent and not option.makes:
            return f"there is no folder {target.parent}"
        return _refusal(target, above)
    except OSError as problem:
        return problem.strerror or str(problem)


def _refusal(target: Path, folder: Path) -> str:
    """What the system says to who writes there, by trying: rights alone know nothing of file systems."""
    try:
        state = target.stat()
    except FileNotFoundError:
        state = None
    if state is not None and not stat.S_ISREG(state.st_mode):
        return "" if os.access(target, os.W_OK) else "it may not be written"
    try:
        if state is not None:
            os.close(os.open(target, os.O_WRONLY | os.O_CLOEXEC))  # changes nothing
            return ""
    except OSError as problem:
        return problem.strerror or str(problem)
    return unwritable(folder)


def _read_as(target: Path, read: Sequence[str]) -> str:
    """By which name the target is read too; empty where it is not."""
    mine = identity(target)
    if mine is None:
        return ""
    for word in read:
        if word == "-":
            if identity(0) == mine:
                return "standard input"
        elif identity(word) == mine:
            return word
        elif _is_folder_of(word, target):
            return f"a file of the folder {word}"
    return ""


def _same(one: Path, other: Path) -> bool:
    if identity(one) is not None:
        return identity(one) == identity(other)
    return one.absolute() == other.absolute()


def _is_folder_of(word: str, target: Path) -> bool:
    try:
        folder = Path(word)
        return folder.is_dir() and folder.resolve() in target.resolve().parents
    except (OSError, RuntimeError, ValueError):
        return False
