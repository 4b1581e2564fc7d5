"""The C stack of a thread that waits, read from outside by the tables that compilers leave for exceptions.

The process is not stopped: its memory is read while it waits. Registers but the stack pointer are not known to others
than debuggers, so where a function keeps its frame by rbp, and none below it has saved that, the frame is looked for:
the first place that holds a place further up and is followed by an address behind a call.
"""

from __future__ import annotations

import os
import platform
import struct
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from busbw.watch.call_frames import RBP, RETURN, RSP, Rules
from busbw.watch.elf_image import Image

MAX_FRAMES = 64
_STACK_BYTES = 1 << 18
_MAX_MAPS = 4 << 20
_ENDS = frozenset({"main", "_start", "start_thread", "clone", "clone3", "__libc_start_main"})


@dataclass(frozen=True)
class _Code:
    """A part of a file that may be run, in the memory of the process."""

    start: int
    end: int
    offset: int
    inode: int
    path: str


class Images:
    """The files of several processes, which mostly have the same ones; use it in a with statement."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Image | None] = {}
        self._open = ExitStack()

    def __enter__(self) -> Images:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def of(self, pid: int, code: _Code) -> Image | None:
        """As the process sees it; not what has taken the file's place since."""
        if (key := (code.path, code.inode)) not in self._known:
            self._known[key] = None
            with suppress(OSError, ValueError):
                image = self._open.enter_context(Image(Path(f"/proc/{pid}/root{code.path}")))
                self._known[key] = image if image.data.inode == code.inode else None
        return self._known[key]


class Unwinder:
    """Of one process of this host; use it in a with statement. Without rights it finds nothing."""

    def __init__(self, pid: int, images: Images) -> None:
        self._pid = pid
        self._code: list[_Code] = []
        self._images = images
        self._memory = -1

    def __enter__(self) -> Unwinder:
        if platform.machine() == "x86_64":
            with suppress(OSError):
                self._memory = os.open(f"/proc/{self._pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
                with Path(f"/proc/{self._pid}/maps").open("rb") as maps:
                    lines = maps.read(_MAX_MAPS).splitlines()
                self._code = [code for line in lines if (code := _code_of(line))]
        return self

    def __exit__(self, *_: object) -> None:
        if self._memory >= 0:
            os.close(self._memory)

    def frames(self, stack: int, at: int) -> list[str]:
        """Names of functions, the innermost first, to main or the begin of the thread; a library for an unknown one."""
        words = self._words(stack)
        found: list[str] = []
        base: int | None = None
        first, is_inner = stack, True
        while len(found) < MAX_FRAMES and (place := self._place(at)):
            code, image, address = place
            # Behind a call is the caller's place, which may be another function already.
            within = address if is_inner else address - 1
            name = image.name_at(within) or f"[{Path(code.path).name}]"
            if name != (found[-1] if found else ""):
                found.append(name)
            rules = image.rules_at(within)
            if name in _ENDS or rules is None or not rules.is_known or RETURN not in rules.saved:
                break
            caller = self._caller(rules, first, base, words, stack)
            if caller is None or caller <= first:
                break
            at = _at(words, stack, caller + rules.saved[RETURN])
            if RBP in rules.saved:
                base = _at(words, stack, caller + rules.saved[RBP])
            first, is_inner = caller, False
        return found

    def _caller(self, rules: Rules, first: int, base: int | None, words: tuple[int, ...], stack: int) -> int | None:
        if rules.register == RSP:
            return first + rules.offset
        if rules.register != RBP:
            return None
        if base is None or base < first:
            base = next((place for place in range(first, stack + 8 * len(words) - 16, 8)
                         if self._is_frame(words, stack, place)), None)  # fmt: skip
        return base + rules.offset if base is not None else None

    def _is_frame(self, words: tuple[int, ...], stack: int, place: int) -> bool:
        above = _at(words, stack, place)
        return place < above < stack + 8 * len(words) and self._is_behind_call(_at(words, stack, place + 8))

    def _is_behind_call(self, at: int) -> bool:
        place = self._place(at)
        if place is None:
            return False
        code, image, _ = place
        offset = at - code.start + code.offset
        before = image.data.cut(max(0, offset - 7), min(7, offset))
        return before[-5:-4] == b"\xe8" or any(
            before[-size : 1 - size or None] == b"\xff" and before[1 - size] >> 3 & 7 == 2 for size in (2, 3, 6, 7)
            if len(before) >= size
        )  # fmt: skip

    def _words(self, stack: int) -> tuple[int, ...]:
        """The stack from its pointer on."""
        for size in (_STACK_BYTES, 1 << 14, 1 << 12):
            with suppress(OSError, OverflowError):
                found = os.pread(self._memory, size, stack)
                return struct.unpack(f"<{len(found) // 8}Q", found[: len(found) // 8 * 8])
        return ()

    def _place(self, at: int) -> tuple[_Code, Image, int] | None:
        code = next((each for each in self._code if each.start <= at < each.end), None)
        if code is None:
            return None
        image = self._images.of(self._pid, code)
        address = image.address_of(at - code.start + code.offset) if image else None
        return (code, image, address) if image and address is not None else None


def _code_of(line: bytes) -> _Code | None:
    words = line.split(maxsplit=5)
    if len(words) < 6 or b"x" not in words[1] or not words[5].startswith(b"/"):
        return None
    start, _, end = words[0].partition(b"-")
    return _Code(int(start, 16), int(end, 16), int(words[2], 16), int(words[4]), os.fsdecode(words[5]))


def _at(words: tuple[int, ...], stack: int, place: int) -> int:
    """The word of the stack at an address; 0 where it was not read."""
    which = (place - stack) // 8
    return words[which] if 0 <= which < len(words) else 0
