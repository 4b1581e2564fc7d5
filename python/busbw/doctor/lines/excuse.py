"""Errors that a program says it has dealt with: they count only where nothing shows that the job went on.

Whoever catches an exception may say so ("falling back", "ignored"), in its line or before its traceback. A logger says
no more than that it is an error. What is thrown while an interpreter shuts down ended no job that had ended before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from busbw.doctor.finding import Severity
from busbw.doctor.lines.benign import is_retry
from busbw.doctor.lines.candidates import Candidate, look_for
from busbw.doctor.lines.course import Course
from busbw.doctor.lines.hit import Hit
from busbw.doctor.lines.life import DEALT_WORDS
from busbw.doctor.lines.speakers import prefix_of, speaker
from busbw.doctor.signature import Signature, Stage

MOST, MAX_HEAD = 512, 120
_DEALT = (
    r"(?:fall(?:s|ing)? ?back|ignor(?:ed?|es|ing)|suppress(?:ed|ing)|swallow(?:ed|ing)|skipp(?:ed|ing)|skips"
    r"|continu(?:es?|ing)|tolerat(?:ed|ing)|handled|harmless|non-?fatal|(?:as |was |is |\()expected"
    r"|decreas(?:es|ed|ing)|halv(?:es|ed|ing)"
    r"|(?:retrying|trying|again|retry) with (?:an? )?(?:smaller|half|lower|fewer|reduced|less)"
    r"|(?:batch|chunk|micro\w*|sequence|size)\b.{0,40}\b(?:reduced|lowered|shrunk|cut)"
    r"|(?:reducing|lowering|shrinking|cutting) .{0,40}(?:batch|chunk|micro\w*|size)"
    r"|start(?:s|ing) (?:from (?:scratch|zero|the beginning|(?:step|epoch|iter\w{0,6}) 0\b)|over|fresh|anew)"
    r"|train(?:s|ing)? from scratch"
    r"|using \S{1,40} instead|disabl(?:es|ing)|without it|optional|best effort"
    r"|(?:recorded|counted|counts?|scored|marked|logged) as (?:a )?fail(?:ed|ure)?)"
)
_HANDLED = re.compile(
    rf"(?:\b(?:errors?|exception|caught|[a-z.]{{1,60}}(?:Error|Exception)|failed|warning|could not|raised|oom"
    rf"|out of memory|RESOURCE_EXHAUSTED)\b.{{0,300}}"
    rf"\b{_DEALT}\b|\b{_DEALT}\b.{{0,120}}(?:exception|errors?)\b"
    # Who posts the log says that it passed.
    r"|\b(?:errors?|failed|timed out|refused|warning)\b.{0,160}\b(?:it|they|that|all|everything|the (?:job|run|test)) "
    r"(?:then )?(?:went on|came (?:through|up|back)|recovered|connected|succeeded)\b)",
    re.IGNORECASE,
)
_NOT_HANDLED = re.compile(
    r"\b(?:not|never|cannot|can't|un|without|unable to|instead of|try|consider|please) (?:be )?"
    + _DEALT
    + r"|unhandled|NCCL WARN|\bXid\b"
    r"|watchdog caught",
    re.IGNORECASE,
)
_TIME = re.compile(r"\d\d:\d\d:\d\d", re.ASCII)
_LEVEL = re.compile(r"\b(?:ERROR|WARNING|WARN)\b|^\[[EW] \d{4}-|level\"?[=:] ?\"?(?:error|warn)", re.ASCII)
_LOGGED = re.compile(
    r"(?:^|[\s\[|(])(?:ERROR|WARNING|WARN|INFO|Error|Warning)[\]\s:|)-]|^[EWI]\d{4} |^\[[EWI] \d{4}-"
    r"|level=(?:error|warn)",
    re.ASCII,
)
"""How a logger's record begins, of which a traceback may be a part."""
_CALM_LEVEL = re.compile(r"\[(?:[IVD]|INFO|DEBUG|VERBOSE)\]|(?:^|[\s|])(?:INFO|DEBUG)[\s|:-]")
"""Who tells of an exception as information has caught it."""
_AT_EXIT = re.compile(
    r"cannot schedule new futures after|\bEvent loop is closed|Python is likely shutting down"
    r"|can't create new thread at interpreter shutdown|BrokenPipeError|terminate called without an active exception"
    r"|\bFailed to disconnect\b"
    r"|could not acquire lock for .{1,80} at interpreter shutdown|driver shutting down",
    re.IGNORECASE,
)
"""What parts of a program say that are still at work while the program ends."""


_OF_PROGRAMS = frozenset(
    {"python-exception", "remote-error", "file-system", "connection-refused", "connection-timeout"}
)
"""What a program can catch and go on after. What libraries and launchers tell in records is no less for it."""
_OF_SIZES = frozenset({"gpu-memory-full", "not-a-number"})
"""What a sweep or a tuner meets and only warns of: it takes the next size."""
_WARNED = re.compile(r"\b(?:WARNING|WARN)\b|^\[W \d{4}-|\[W\]")
_FORCED = re.compile(
    r"Unable to shutdown process (\d{1,9}) via \S{1,40}, forcefully exiting via (?:\S{0,9}SIGKILL|9)\b"
)
"""How torchrun tells whom it kills that did not end when asked: no memory ran out there."""
_KILLED = re.compile(
    r"\bexitcode\W{1,4}-9\W.{0,40}\(pid: (?P<a>\d{1,9})\)|\(SIGKILL\) received by PID (?P<b>\d{1,9})\b"
)
_OF_STORE = re.compile(r"^\W{0,3}(?:\[rank\d{1,7}\]:)?\[W.{0,60}\b(?:TCPStore|Utils|socket)\.\wpp:\d{1,6}\]")
"""A warning of PyTorch's store: of a connection that broke it says next that it tries again, or an error follows."""
_BROKE = re.compile(r"reset by peer|Broken pipe|got 0 bytes|likely closed", re.IGNORECASE)
_TRIES = re.compile(r"\bretrying \(try=(?P<number>\d{1,6}),")
_FEW_TRIES, _STACK = 2, 80
"""As many tries again are usual at a start; lines of a stack between the warning and the next try."""
_IN_THREAD = re.compile(r"\bException in thread \S")
"""How Python tells of a thread that failed while the program goes on, or ends."""


class Kind(Enum):
    """By what an error is excused: its own words, a logger that told of it, or the end of the program around it.

    LOGGED is a traceback behind a record, WARNED behind one that only warns. RECORDED is a record that names an
    exception in the same line. RETRIED is a connection that is tried again at once.
    """

    HANDLED = 1
    LOGGED = 2
    AT_EXIT = 3
    RECORDED = 4
    WARNED = 5
    RETRIED = 6


def is_handled(line: str) -> bool:
    """Whether the line says that an error was dealt with."""
    lowered = line.lower()
    if not any(word in lowered for word in DEALT_WORDS):
        return False
    return _HANDLED.search(line) is not None and _NOT_HANDLED.search(line) is None


def is_record(line: str) -> bool:
    """Whether it is a record of a logger, with its time and its level: who writes it caught what it tells of."""
    head = line[:MAX_HEAD]
    return _TIME.search(head) is not None and _LEVEL.search(head) is not None


@dataclass
class Excused:
    """The lines of one log that signatures know and that are excused."""

    lines: list[tuple[Kind, int, str, tuple[Candidate, ...], bool]] = field(default_factory=list)
    _before: tuple[int, str] = (0, "")
    _open: Kind | None = None
    _forced: set[str] = field(default_factory=set)
    _tries: list[tuple[int, int]] = field(default_factory=list)

    def passes(self, line: str, number: int) -> None:
        """Any line, after it was looked at: what stands before a traceback tells how it came into the log."""
        self._before = (number, line)
        if "retrying (try=" in line and (tried := _TRIES.search(line)) and len(self._tries) < MOST:
            self._tries.append((number, int(tried["number"])))
        if "forcefully" in line and (forced := _FORCED.search(line)) and len(self._forced) < MOST:
            self._forced.add(forced[1])

    def begin(self, line: str, number: int) -> None:
        """A traceback begins in that line, which may tell in front of it why it is shown."""
        self._open = None
        head = line.partition("Traceback")[0]
        if _CALM_LEVEL.search(head) or is_handled(f"{head}exception"):
            self._open = Kind.HANDLED
            return
        before, line = self._before
        if before == number - 1 and is_retry(line):
            self._open = Kind.HANDLED
        elif before == number - 1 and (not speaker(line) or (is_record(line) and not prefix_of(line))):
            if _IN_THREAD.search(line):
                self._open = Kind.AT_EXIT
            elif is_handled(line):
                self._open = Kind.HANDLED
            elif _LOGGED.search(line):
                self._open = Kind.WARNED if _WARNED.search(line[:MAX_HEAD]) else Kind.LOGGED

    def end(self) -> None:
        """The traceback has ended, with the line that names its exception."""
        self._open = None

    def takes(self, line: str, number: int, candidates: tuple[Candidate, ...], *, foreign: bool) -> bool:
        """Whether the line is excused, and kept apart if any signature speaks of it."""
        if self._forced and (killed := _KILLED.search(line)) and (killed["a"] or killed["b"]) in self._forced:
            return True
        kind = self._open or (Kind.HANDLED if is_handled(line) else Kind.AT_EXIT if _AT_EXIT.search(line) else None)
        if "[W" in line and _BROKE.search(line) and _OF_STORE.match(line):
            kind = Kind.RETRIED
        recorded = kind is None and is_record(line)
        if (kind is None and not recorded) or len(self.lines) >= MOST:
            return False
        found: dict[str, Hit] = {}
        look_for(line, number, candidates, found, foreign=foreign)
        if kind is None:
            warned = _WARNED.search(line[:MAX_HEAD]) is not None
            if not found.keys() <= (_OF_PROGRAMS | _OF_SIZES if warned else _OF_PROGRAMS) or _NOT_HANDLED.search(line):
                return False
            kind = Kind.RECORDED
        known = {each.signature.name: each.signature for each in candidates}
        if not found or not all(_may_be_dealt_with(known[name], kind) for name in found):
            return False
        self.lines.append((kind, number, line, candidates, foreign))
        return True

    def settle(self, hits: dict[str, Hit], alive: int, course: Course, *, closed: bool) -> None:
        """Those after which nothing shows that the job went on are found as any other line is.

        `closed`: the log tells that processes ended, and of no new start.
        """
        done = course.done
        for kind, number, line, candidates, foreign in self.lines:
            if kind is Kind.HANDLED:
                over = number < max(alive, done)
            elif kind is Kind.RECORDED:
                over = number < alive and not closed
            elif kind is Kind.RETRIED:
                over = self._was_tried_again(number)
            elif kind is Kind.WARNED and number < alive and not closed:
                over = True  # who warns of what it caught, and works on, does without
            elif kind in (Kind.LOGGED, Kind.WARNED):
                # A request that failed is nothing to a server that answers the next ones.
                over = number < alive and (number < done or (number < course.served and not closed))
            else:
                over = course.had_ended(alive, number)
            if not over:
                look_for(line, number, candidates, hits, foreign=foreign)

    def _was_tried_again(self, number: int) -> bool:
        """Whether a broken connection was tried again behind that line, and few tries were made in all."""
        soon = any(number <= line <= number + _STACK for line, _ in self._tries)
        return soon and all(count <= _FEW_TRIES for _, count in self._tries)


_TAKES_ANOTHER = frozenset({"gpu-not-visible"})
"""What a program that says so does with another GPU."""


def _may_be_dealt_with(signature: Signature, kind: Kind) -> bool:
    """Whether a program can do without: broken hardware stays broken, and what is only slow stays so."""
    if kind is Kind.HANDLED and signature.name in _TAKES_ANOTHER:
        return True
    return signature.severity is Severity.ERROR and signature.stage > Stage.DRIVER
