"""Looks through the lines of a log for the words of signatures, each kind of line once, and counts what it read."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from busbw.base.typography import uncoloured
from busbw.doctor.lines import benign, commands, excuse, life, locales, quoted
from busbw.doctor.lines.beside import Following, closed_by
from busbw.doctor.lines.calls import Calls
from busbw.doctor.lines.candidates import WRITERS, Candidate, look_for, of_all
from busbw.doctor.lines.counts import ROW, count_kind, count_table
from busbw.doctor.lines.course import Course
from busbw.doctor.lines.first_failure import SUMMARY, FirstFailure
from busbw.doctor.lines.hit import Hit
from busbw.doctor.lines.kernel_lines import is_of_boot
from busbw.doctor.lines.last_error import LastError
from busbw.doctor.lines.moments import moment_of
from busbw.doctor.lines.ports import Ports
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.lines.trouble import RULE, Trouble, is_cut_warning
from busbw.doctor.signature import Signature

MAX_SHAPES = 50_000
"""Kinds of lines (a line without its digits) of which it is remembered which signatures may speak of them."""
OFTEN = 32
"""Lines of a shape that say nothing, after which it is looked into whether any further one can."""
MAX_LINE, MAX_RESULT = 4096, 120

# Bytes lose their digits several times as fast as characters do.
DIGITS = b"0123456789"
_TRACEBACK = "Traceback (most recent call last)"
_FRAME = re.compile(r'File "[^"]{1,400}"|^\s{2,}\S|\s{3,}\S|\^\^')
"""A line of a traceback before its last, which names the exception."""
_IN_FRAME = re.compile(r'File "[^"]{1,400}", line \d{1,7}, in ')
_SOURCE = re.compile(r"(?:^|[\]:)>-]) {4,40}\S")
"""How the line of source below a frame of Python stands: what it would do is no event."""


_WAIT_FOR_PODS = frozenset({"dns", "mpi-launch", "ssh-launch"})
_OF_COURSE = frozenset({"end", "again", "back", "work", "wish"})


def scan(lines: Iterable[str], source: str, signatures: Sequence[Signature]) -> Scan:
    """Look through the lines. Never fails; a line is looked at up to its 4096th character."""
    return Scanning(source, signatures).over(lines)


def knowing(line: str, signatures: tuple[Signature, ...]) -> tuple[str, tuple[Candidate, ...]]:
    """The line as English tells it, up to its limit, and the signatures of which it holds a trigger."""
    index = of_all(signatures)
    line = line[:MAX_LINE]
    seen = index.of(line.lower())
    if seen.foreign:
        line = locales.in_english(line)
        seen = index.of(line.lower())
    return line, seen.candidates


class Scanning:
    """What is known while the lines of one log go by."""

    def __init__(self, source: str, signatures: Sequence[Signature]) -> None:
        self.source = source
        self.signatures = signatures
        self.index = of_all(tuple(signatures))
        self.hits: dict[str, Hit] = {}
        self.kinds = {"nccl": 0, "torch": 0, "kernel": 0, "headers": 0, "rows": 0, "starts": 0, "alone": 0, "zeros": 0}
        self.kinds |= {"steps": 0, "ends": 0, "boots": 0, "shown": 0} | dict.fromkeys(WRITERS, 0)
        self.shapes: dict[bytes, tuple[Candidate, ...]] = {}
        self.foreign: set[bytes] = set()
        """Those shapes that hold a message of the C library in another language than English."""
        self.in_vain: dict[bytes, int] = {}
        """Of shapes with candidates, how many lines no signature spoke of."""
        self.alive = 0
        self.alive_shapes: set[bytes] = set()
        """Those shapes by which a job shows that it goes on, of which a signature might speak too."""
        self.course = Course()
        self.course_shapes: dict[bytes, frozenset[str]] = {}
        """Shapes by which a log tells its job's course, or that an error was dealt with: of what they hold words."""
        self.excused = excuse.Excused()
        self.closed: int | None = None
        """The last sign of life before the job ended; None where it goes on, or began again."""
        self.closing_shapes: set[bytes] = set()
        self.trouble = Trouble()
        self.following = Following()
        self.newest: float | None = None
        self.began = (0, "")
        self.thrown = (0, "")
        self.retried = (0, "")
        self.retry_shapes: set[bytes] = set()
        self.given: dict[str, tuple[str, int]] = {}
        self.calls = Calls({})
        self.frame = 0
        """The last line of the open traceback; 0 without one."""
        self.framed = False
        """Whether the line before was a frame of Python, below which its source stands."""
        self.start_shapes: set[bytes] = set()
        self.section = quoted.Section()
        self.ports = Ports()
        self.tried = 0
        """How often a signature was tried on a line."""
        self.hit = 0
        """The last line of which a signature spoke."""
        self.ignored = False
        self.passed_over, self.unread = "", 0
        self.last, self.first = LastError(), FirstFailure()

    def over(self, lines: Iterable[str]) -> Scan:
        number = 0
        for number, raw in enumerate(lines, 1):
            self.look(raw, number)
        return self.finished(number)

    def finished(self, lines: int) -> Scan:
        """What was found in that many lines."""
        strange = [each for each in self.trouble.strange if each[0] < lines or not is_cut_warning(each[1])]
        if len(strange) < len(self.trouble.strange):
            self.began = (0, "")  # a log that ends within a line was cut off: nothing says that ranks wait
        kept = tuple(strange), tuple(self.trouble.odd)
        thrown = self.thrown if self.frame == lines else (0, "")
        # Steps behind the end were printed before it, and reached the file late: programs hold their output back.
        alive = self.alive if self.closed is None else self.closed
        self.excused.settle(self.hits, alive, self.course, closed=self.closed is not None)
        told = self.source, lines, self.hits, self.kinds, alive, self.course.ended
        return Scan(
            *told, *kept, self.began, thrown, self.retried, given=self.given, calls=self.calls,
            passed_over=self.passed_over, unread=self.unread, beside=self.following.kept, parts=self.following.parts,
            last_errors=frozenset(self.last.names),
            first_failed=frozenset(self.first.failed), unused_ports=self.ports.unused,
            course=self.course, newest=self.newest,
        )  # fmt: skip

    def look(self, raw: str, number: int, shape: bytes | None = None) -> bool:
        """Look at a line. True: no line that is equal but for digits can say anything that is not known now.

        `shape` is what the line has in common with those like it; None: all but its digits.
        """
        kinds = self.kinds
        at = raw.find("NCCL INFO ")
        if at >= 0:
            kinds["nccl"] += 1
            if self._plain(raw, at, number):
                return True
        elif "NCCL WARN" in raw:
            kinds["nccl"] += 1
        elif not raw or raw.isspace():
            return True
        line = raw[:MAX_LINE]
        if self.last.may_follow(line):
            self.last.follow(line, number, lambda each: self.index.of(each.lower()).candidates, self.hits)
        summed_up = self.first.left > 0 or any(each in line for each in SUMMARY)
        if summed_up:
            self.first.look(line)
        if "#" in line or kinds["headers"]:
            count_table(line, kinds)
        key = line.encode("utf-8", "replace").translate(None, DIGITS) if shape is None else shape
        known = self.shapes.get(key)
        source = self._is_source(line, number) or self.section.holds(line)
        self.following.go_on(line)
        listed = self.ports.follows(line) or self.following.parted(line, number)
        if not source and not self.ports.noted and (known != () or self.ignored):
            self._look_at(line, number, key, known)
            if "ib-port-down" in self.hits and self.hits["ib-port-down"].last == number:
                self.ports.told(line)
        elif not source and key in self.alive_shapes:
            self._lives(line, number)
        within = self._follow_traceback(line, number)
        self.excused.passes(line, number)
        if self._tells_state(key, line, number):
            return False
        if self.trouble.boxed or RULE in line:
            self.trouble.ruled(line, number, known=self.hit == number)
            return False
        told = within or source or listed or self.framed or self.ignored or summed_up
        return (
            not told
            and self.shapes.get(key) == ()
            and "#" not in line
            and not (len(key) < len(line) and ROW.search(line))
        )

    def _tells_state(self, key: bytes, line: str, number: int) -> bool:
        """Whether the line is of a shape by which a job shows that it ends, tries again or starts."""
        if key in self.course_shapes:
            self._follow_course(uncoloured(line), number, self.course_shapes[key])
        if key in self.closing_shapes:
            self._close()
        elif key in self.retry_shapes:
            self.retried = (number, line)
            self.course.tries_again(number)
        elif key in self.start_shapes:
            self.began, self.closed = (number, line), None
        elif self.began[0] and len(line) < MAX_RESULT and life.RESULT.search(line):
            self.began = (0, "")
            return False
        else:
            if self.retried[0] and life.RESOLVED.search(line) and not life.UNRESOLVED.search(line):
                self.retried = (0, "")
            return key in self.course_shapes
        return True

    def _follow_course(self, line: str, number: int, words: Collection[str]) -> bool:
        """Whether the line tells the job's course; `words`: of what it holds words."""
        told = "end" in words and self.course.look_for_end(line, number, self.alive)
        if self.course.ended == number:
            self.alive, self.kinds["steps"] = number, self.kinds["steps"] + 1
        if "again" in words and self.course.look_for_start(line, number):
            self.closed, told = None, True
        told = ("work" in words and self.course.busy.look(line, number, self.alive)) or told
        told = ("wish" in words and self.course.look_for_wish(line, number)) or told
        return ("back" in words and self.course.look_for_return(line, number)) or told

    def _is_source(self, line: str, number: int) -> bool:
        """Whether the line is the source below a frame of Python."""
        below, self.framed = self.framed, "File " in line and _IN_FRAME.search(line) is not None
        if self.framed:
            self.following.frame(line, number)
        source = below and not self.framed and _SOURCE.search(line) is not None
        if source:
            self.following.source(line)
        return source

    def _plain(self, raw: str, at: int, number: int) -> bool:
        """Whether a line of NCCL's is one of those that every healthy run says."""
        told = "isabled" in raw or "Using" in raw or "nabled for GPU" in raw
        if raw[at + 10 : at + 40].partition(" ")[0] in benign.PLAIN and not told:
            self.kinds["shown"] += " PCI[" in raw
            if "Init COMPLETE" in raw:
                self.alive, self.closed = number, None
            elif " COMPLETE" in raw:  # the end of a communicator: its ranks had found each other
                self.began = (0, "")
            return True
        if " -> " in raw and life.RETURNED.search(raw, at):
            self._close()
        return False

    def _is_of_job(self, line: str) -> bool:
        """Whether a sign of life is one: that a pod has its node ends no waiting of those who miss it by name."""
        return "Scheduled" not in line or _WAIT_FOR_PODS.isdisjoint(self.hits) or "slurm-resources" in self.hits

    def _lives(self, line: str, number: int) -> None:
        """The job goes on there."""
        self.alive = number
        self.course.goes_on(line, number, served="HTTP/" in line or "throughput" in line)

    def _close(self) -> None:
        """The job ends: what it printed until now is what it did."""
        if self.closed is None:
            self.closed = self.alive

    def _follow_traceback(self, line: str, number: int) -> bool:
        """Whether the line is part of a traceback, or ends one."""
        if _TRACEBACK in line and not self.ignored:
            self.thrown, self.frame = (number, line), number
            self.following.begin(line, number)
            self.excused.begin(line, number)
            return True
        within = self.frame > 0
        if within:
            self.frame = number if _FRAME.search(line) else 0
            if not self.frame and self.hit != number:
                self._named_otherwise(line, number)
            if not self.frame:
                self.excused.end()
        return within

    def _named_otherwise(self, line: str, number: int) -> None:
        """What closes a traceback is an exception, whatever its name: most are told by a name that ends in Error."""
        if (groups := closed_by(line)) is not None:
            self.hits.setdefault("python-exception", Hit()).add(line, number, groups)
            self.hit = number
            self.following.told(line, number)

    def _look_at(self, line: str, number: int, key: bytes, known: tuple[Candidate, ...] | None) -> None:
        """Look at a line whose shape is new, or of which some signature may speak."""
        if "\x1b" in line:
            line = uncoloured(line)
        if self.ignored:
            # Python tells of an exception that it ignored: up to the exception's own line nothing happened.
            self.ignored = not benign.closes_traceback(line)
            return
        if quoted.is_zero(line):
            return
        new, words = known is None, None
        if known is None:
            # Numbers decide what some signatures say, so that lines of one shape share their candidates alone.
            known, words = self._new_shape(line, number, key)
            if len(self.shapes) < MAX_SHAPES and not self.ignored:
                self.shapes[key] = known
                if self.alive == number:
                    self.alive_shapes.add(key)
        elif key in self.alive_shapes:
            self._lives(line, number)
        self.tried += len(known)
        foreign = key in self.foreign
        bare = quoted.without_zeros(line) if known else line
        if len(bare) < len(line) and not look_for(bare, number, known, {}, foreign=foreign):
            return
        if known and (
            self.excused.takes(line, number, known, foreign=foreign)
            or look_for(line, number, known, self.hits, foreign=foreign)
        ):
            self.hit = number
            self.last.credit(number, self.hits)
            self.following.told(line, number)
        elif known:
            kept = self._trouble(line, number, words)
            if key in self.shapes and ((new and "NCCL INFO " in line) or (not kept and self._is_often(key))):
                # Of no further line of this shape either, unless digits decide.
                self.shapes[key] = tuple(each for each in known if each.signature.minds_digits(line, line.lower()))

    def _is_often(self, key: bytes) -> bool:
        """Whether so many lines of that shape said nothing that it is worth while to find out whether any can."""
        self.in_vain[key] = count = self.in_vain.get(key, 0) + 1
        return count == OFTEN

    def _trouble(self, line: str, number: int, words: Collection[str] | None = None) -> bool:
        """Keep a line of which no signature speaks, where it may be of trouble; whether it is kept."""
        if is_of_boot(line):
            return False
        kept = self.trouble.add(line, number, words, checker=self.kinds["perftest"] > 0)
        if kept:
            self.following.told(line, number)
        return kept

    def _new_shape(self, line: str, number: int, key: bytes) -> tuple[tuple[Candidate, ...], frozenset[str]]:
        """Which patterns may speak of the line, and which words it holds besides."""
        commands.note(line, number, self.given)
        if (moment := moment_of(line)) is not None:
            self.newest = moment if self.newest is None else max(self.newest, moment)
        lowered = line.lower()
        seen = self.index.of(lowered)
        if seen.foreign and len(self.foreign) < MAX_SHAPES:
            self.foreign.add(key)
            lowered = locales.in_english(line).lower()
            seen = self.index.of(lowered)
        self.kinds["shown"] += "shown" in seen.watched
        for writer, words in WRITERS.items():
            if writer in seen.watched:
                self.kinds[writer] += words.search(line) is not None  # a prompt with its command says it, too
        if quoted.is_quoted(line):
            self._follow_life(line, key, number, seen.watched)
            return (), seen.watched
        if benign.is_echo(line) or any(each.search(line) for each in seen.harmless):
            self.ignored = benign.opens_ignored(line)
            self._follow_course(line, number, {"again", "end"} & seen.watched)
            if benign.is_retry(line):
                self.course.tries_again(number)
                if len(self.retry_shapes) < MAX_SHAPES:
                    self.retry_shapes.add(key)
            return (), seen.watched
        self._follow_life(line, key, number, seen.watched)
        count_kind(line, self.kinds)
        if benign.is_calm(line):
            return (), seen.watched
        if not seen.candidates:
            self._trouble(line, number, seen.watched)
        return seen.candidates, seen.watched

    def _follow_life(self, line: str, key: bytes, number: int, watched: frozenset[str]) -> None:
        """Whether the job starts, goes on, ends or begins again there."""
        closed = ("closed" in watched and life.CLOSED.search(line)) or ("F" in line and life.FATAL.search(line))
        full = len(self.course_shapes) >= MAX_SHAPES
        if closed and len(self.closing_shapes) < MAX_SHAPES:
            self.closing_shapes.add(key)
        elif not full and (
            (not watched.isdisjoint(_OF_COURSE) and self._follow_course(line, number, watched))
            or ("dealt" in watched and excuse.is_handled(line))
        ):
            self.course_shapes[key] = watched & _OF_COURSE
        if "start" in watched and life.START.search(line) and len(self.start_shapes) < MAX_SHAPES:
            self.start_shapes.add(key)
        elif self.began[0] and "on" in watched and life.ON.search(line):
            self.began = (0, "")
        if "alive" in watched and life.ALIVE.search(line) and not life.THROWN.search(line) and self._is_of_job(line):
            self._lives(line, number)
            self.kinds["steps"] += 1
