"""What stands around a line that tells of an error: the frames of its traceback, and the lines that go on with it."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace

from busbw.doctor.lines.speakers import prefix_of

MAX_TOLD = 96
"""Lines of which it is kept; findings show the first few of each kind."""
MAX_AFTER = 6
NEAR = 40
"""Lines of other ranks that may stand between a frame and its exception."""
MAX_OPEN = 4096
"""Ranks of which it is remembered where their traceback begins."""
_MAX_TEXT = 600
_MAX_SOURCE = 160
_RULES = frozenset({"==", "--", "##", "**"})
_HEAD = re.compile(
    r"\s{0,3}(?:==> (?P<file>[^\n]{1,160}) <==|(?:={2,30}|-{2,30}|#{2,30}|\*{2,30}) ?(?P<name>[A-Za-z_/][^\n=]{0,80}?)"
    r" ?(?:=*|-*|#*|\**))\s*$"
)
_FRAME = re.compile(r'File "(?P<file>[^"]{1,400})", line (?P<line>\d{1,7}), in (?P<name>[\w.<>]{1,80})')


_OTHERS = re.compile(
    r"Watchdog caught|ProcessGroup\w{2,8}\.cpp|torch/distributed/(?:elastic|run)|ChildFailedError|closing "
    r"signal|slurmstepd"
    r"|srun: error|NCCL (?:INFO|WARN)|\bWorkNCCL\(|\[launch\.py:|Traceback \(most recent"
)
"""What launchers, watchdogs and other libraries print into an error of a program."""
_RECORD = re.compile(
    r"^\W{0,3}(?:\[\w{1,20}\]: ?)?\W{0,3}(?:[IWEF]\d{4} \d\d:|\d{4}-\d\d-\d\d[ T]\d\d:|(?:INFO|WARNING|DEBUG)\b)"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """One call of a traceback of Python."""

    file: str
    line: str
    name: str
    text: str = ""
    """The line of source, which stands below it."""


@dataclass(slots=True)
class Beside:
    """`frames` are the last ones before the line, the innermost last; `after` are the lines behind it."""

    frames: tuple[Frame, ...] = ()
    after: str = ""
    begun: int = 0
    """The line in which its traceback begins; 0 without one."""


class Following:
    """Keeps what stands beside lines while the lines of a log go by."""

    def __init__(self) -> None:
        self.kept: dict[int, Beside] = {}
        self._frames: deque[Frame] = deque(maxlen=12)
        self._last = 0
        self._open: Beside | None = None
        self._left = 0
        self._speaker: str | None = None
        self.parts: list[tuple[int, str]] = []
        """Lines at which the part of another rank, host or file begins, and its name."""
        self._begun: dict[str, int] = {}
        """Where the open traceback of each rank begins."""

    def begin(self, line: str, number: int) -> None:
        """A traceback begins: frames of another one say nothing of its exception."""
        self._frames.clear()
        if len(self._begun) < MAX_OPEN:
            self._begun[prefix_of(line)] = number

    def frame(self, line: str, number: int) -> None:
        """A line that may be a frame."""
        if found := _FRAME.search(line):
            self._frames.append(Frame(found["file"], found["line"], found["name"]))
            self._last = number

    def source(self, line: str) -> None:
        """The line of source below the last frame."""
        if self._frames:
            bare = line.strip().removeprefix(prefix_of(line)).lstrip(":> ")
            self._frames[-1] = replace(self._frames[-1], text=bare[:_MAX_SOURCE])

    def told(self, line: str, number: int) -> None:
        """That line tells of an error."""
        if len(self.kept) >= MAX_TOLD or number in self.kept:
            return
        near = self._frames and number - self._last <= NEAR
        self._left, self._speaker = MAX_AFTER, prefix_of(line)
        begun = self._begun.pop(self._speaker, 0)
        self._open = self.kept[number] = Beside(tuple(self._frames) if near else (), begun=begun)

    def parted(self, line: str, number: int) -> bool:
        """Whether that line is the head of a part, such as `tail` writes above each file."""
        found = _HEAD.match(line) if line.lstrip()[:2] in _RULES else None
        if found is not None and len(self.parts) < MAX_OPEN:
            self.parts.append((number, (found["file"] or found["name"]).strip()))
        return found is not None

    def go_on(self, line: str) -> None:
        """Any further line: it belongs to the error where the same rank goes on with it, and begins nothing else."""
        if self._open is None:
            return
        self._left -= 1
        if prefix_of(line) == self._speaker and not _OTHERS.search(line) and not _RECORD.search(line):
            self._open.after += f"\n{line[:_MAX_TEXT].strip()}"
        if not self._left:
            self._open = None


_CLOSES = re.compile(
    r"^(?:\W{0,3}\[\w{1,20}\]: ?|\s{0,6}\d{1,7}: |\[\d{1,6},\d{1,7}\]<\w+>:|[^\n]{0,120}[\])] )?"
    r"(?P<name>(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{2,60})(?:: (?P<said>.{3,}))?\s*$"
)
"""The last line of a traceback."""
_NO_NAME = re.compile(
    r"(?:Error|Exception|Warning|Interrupt|Exit|Killed|Aborted|Iteration)$|^torch\.distributed|^(?:subprocess|grpc|multiprocessing|INFO|WARN"
    r"|ERROR|DEBUG|CRITICAL|FATAL|Traceback|During|The)\b|^\w+Group$"
)
"""Names that signatures know, or leave out on purpose."""


def closed_by(line: str) -> dict[str, str] | None:
    """The exception that closes a traceback, by whatever name; None for names that signatures know."""
    found = _CLOSES.search(line)
    if found is None or _NO_NAME.search(found["name"]):
        return None
    said = (found["said"] or "").strip()
    return {"error": found["name"], **({"said": said} if said else {})}
