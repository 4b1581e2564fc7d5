"""Reads a log once, as bytes, and passes on only those lines that may say something new: most of it is repetition."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from io import FileIO
from itertools import chain, islice
from typing import BinaryIO

from busbw.doctor.lines.calls import Watching
from busbw.doctor.lines.scan import DIGITS, Scanning
from busbw.doctor.lines.scan import MAX_LINE as LOOKED_AT
from busbw.doctor.lines.work_limit import TAIL_BYTES, WorkLimit
from busbw.machine.nccl.log import is_inert

MAX_LINE = 65536
BLOCK = 1 << 20
MAX_DULL = 20_000
MAX_SEEN = 50_000
_SILENT, _NCCL, _ALIVE = 0, 1, 2
_CALL, _VIA, _CHANNEL = b" opCount ", b" via ", b"NCCL INFO Channel "
"""In each line about one call of a collective (NCCL_DEBUG_SUBSYS=COLL), of which the last are read; in connections."""

_ADDRESS = re.compile(rb"\b0x[0-9a-f]{6,16}\b")

_ID = re.compile(rb"(?<![0-9A-Za-z])(?=[a-f]{0,63}[0-9])[0-9a-f]{8,64}(?![0-9A-Za-z])")
"""Of requests, commits, containers: two lines that differ by these alone say the same."""


def lines_in(stream: BinaryIO, read: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """Lines without their ends; \\r ends a line too. A line without an end is cut, so that it cannot fill memory.

    `read` is told the size of each block.
    """
    return chain.from_iterable(_blocks_in(stream, read))


def numbered_in(stream: BinaryIO, limit: WorkLimit) -> Iterator[tuple[int, bytes]]:
    """The same with their numbers, up to what the log may cost; then its end alone."""
    return chain.from_iterable(_numbered_blocks(stream, limit))


def _numbered_blocks(stream: BinaryIO, limit: WorkLimit) -> Iterator[Iterable[tuple[int, bytes]]]:
    first = 1
    for lines in _blocks_in(stream, limit.read):
        limit.read_lines(len(lines))
        yield zip(range(first, first + len(lines)), lines, strict=False)  # as no step of Python for each
        first += len(lines)
        if limit.is_spent:
            break
    else:
        return
    behind, first = _end_of(stream, limit, first)
    lines = behind.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    yield zip(range(first, first + len(lines)), [each[:MAX_LINE] for each in lines if each], strict=False)


def _end_of(stream: BinaryIO, limit: WorkLimit, first: int) -> tuple[bytes, int]:
    """The last bytes of a log, from the beginning of a line on, and its number."""
    tail = b""
    while block := stream.read(BLOCK):
        tail += block
        if len(tail) <= TAIL_BYTES:
            continue
        gone = tail[: tail.find(b"\n", len(tail) - TAIL_BYTES) + 1]
        tail = tail[len(gone) :][-2 * TAIL_BYTES :]
        lines = gone.count(b"\n") + (gone.count(b"\r") - gone.count(b"\r\n") if b"\r" in gone else 0)
        more = limit.counted(first, lines, len(gone))
        first += lines
        if not more and not limit.is_cut:
            limit.is_cut = True
            if not _goes_to_end(stream):
                break
            tail = b""
    return tail, first


def _goes_to_end(stream: BinaryIO) -> bool:
    """Whether the last bytes of a file can be read without those before them."""
    with suppress(OSError, ValueError):
        if isinstance(getattr(stream, "raw", None), FileIO) and stream.seekable():
            stream.seek(max(stream.tell(), stream.seek(0, 2) - TAIL_BYTES))
            return True
    return False


def _blocks_in(stream: BinaryIO, read: Callable[[int], None]) -> Iterator[list[bytes]]:
    rest = b""
    while block := stream.read(BLOCK):
        read(len(block))
        data = rest + block if rest else block
        rest = b""
        if b"\r" in data:
            held = data.endswith(b"\r")
            data = (data[:-1] if held else data).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            rest = b"\r" if held else b""
        parts = data.split(b"\n")
        rest = parts.pop() + rest
        while len(rest) > MAX_LINE:
            parts.append(rest[:MAX_LINE])
            rest = rest[MAX_LINE:]
        yield parts
    if rest:
        yield [rest.rstrip(b"\r")]


_SAYS = (
    *("log", "message", "msg", "MESSAGE", "textPayload", "text", "line", "content", "event", "fields", "jsonPayload"),
    *("@message", "_raw", "body"),
)
_DETAILS = (
    *("rank", "ts", "error", "err", "exception", "exc_info", "reason", "xid", "desc", "description", "cause"),
    *("exitCode", "exit_code", "component"),
)
_TIMES = ("time", "timestamp", "asctime", "@timestamp")
_LEVELS = ("level", "severity", "levelname", "log.level", "lvl", "PRIORITY", "level_name", "loglevel")
_BAD = re.compile(r"(?:d?panic|fatal|emerg\w*|alert|crit\w*|severe|error|err|[0-3])\Z", re.IGNORECASE)
"""Words of a level that is an error, and journald's numbers. Of other loggers' numbers 50 and more are errors."""
_WORST_NUMBERS = range(50, 100)
_HOLDS = ("values", "result", "results", "data", "_source", "hits", "events", "logEvents", "streams", "entries")
"""Under these services (Loki, Splunk, Elasticsearch, CloudWatch) keep several lines, or what holds one."""
_DEEPEST, _MOST_PARTS, _MOST_EMPTY = 8, 20_000, 1000
_KEYS = b"|".join(each.encode() for each in (*_SAYS, *_HOLDS, "stream"))
_JSON_LOG = re.compile(rb'\s{0,100}\{\s{0,100}(?:[^\n]{0,4000}?[,{]\s{0,100})?"(?:' + _KEYS + rb')"\s{0,100}:')


def is_json_log(start: bytes) -> bool:
    """Whether the first line is an object that holds a log's line: of docker, Kubernetes, journald or a framework."""
    return b'"schema"' not in start[:200] and _JSON_LOG.match(start) is not None


def numbered(lines: Iterable[bytes], limit: WorkLimit | None = None) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, and what they say."""
    return said_in(enumerate(lines, 1), limit)


def said_in(counted: Iterator[tuple[int, bytes]], limit: WorkLimit | None = None) -> Iterator[tuple[int, bytes]]:
    """Numbered lines; of a log of JSON objects what each says, which may be several lines.

    Lines of a plain log pass without a step of Python for each. Objects are not taken apart in vain once `limit` is.
    """
    begun = list[tuple[int, bytes]]()
    for number, raw in counted:
        begun.append((number, raw))
        if raw or number >= _MOST_EMPTY:
            every = chain(begun, counted)
            return _objects(every, limit) if is_json_log(raw) else every
    return iter(begun)


def _objects(counted: Iterator[tuple[int, bytes]], limit: WorkLimit | None) -> Iterator[tuple[int, bytes]]:
    for number, raw in counted:
        if limit is not None and limit.is_reached:
            yield from _objects(limit.few(chain([(number, raw)], counted)), None)
            return
        if not raw.startswith(b"{"):
            yield number, raw
            continue
        if limit is not None:
            limit.spend_on_object(len(raw))
        for part in _said(raw).split("\n"):
            yield number, part.encode("utf-8", "replace")


def _said(raw: bytes) -> str:
    """What the object says; the line itself where it is no object or says nothing."""
    with suppress(ValueError, RecursionError):
        found = json.loads(raw)
        if parts := list(islice(_parts(found, 0, bad=False), _MOST_PARTS)):
            return "\n".join(parts)
    return raw.decode("utf-8", "replace")


def _parts(found: object, depth: int, *, bad: bool) -> Iterator[str]:
    """The lines that an object holds, as deep as services put them; `bad`: one around it calls them an error."""
    if depth > _DEEPEST:
        return
    if isinstance(found, str):
        # A service's object may hold the program's own as a text.
        inner = _object_in(found)
        if inner is not None:
            yield from _parts(inner, depth + 1, bad=bad)
            return
        first, end, rest = found.rstrip("\n").partition("\n")
        yield f"{first}, level=error{end}{rest}" if bad and first and not _is_of_nccl(first) else found
    elif isinstance(found, dict):
        key = next((key for key in (*_SAYS, *_HOLDS) if key in found and not _is_about(found[key])), None)
        if key is None:
            return
        said = _with_details(found, found[key])
        bad = bad or any(_is_bad(found.get(name)) for name in _LEVELS)
        yield from _parts(said, depth + 1, bad=bad)
        if key in _SAYS and isinstance(said, str):
            # A sentence about events that the same object holds.
            for name in ("events", "event", "errors"):
                if name != key and isinstance(found.get(name), dict | list):
                    yield from _parts(found[name], depth + 1, bad=bad)
    elif isinstance(found, list):
        # Loki's pair of a time and a line.
        pair = len(found) == 2 and all(isinstance(each, str) for each in found) and found[0].isdigit()
        for each in found[1:] if pair else found:
            yield from _parts(each, depth + 1, bad=bad)


def _with_details(found: Mapping[str, object], said: object) -> object:
    """What an object says, with what it keeps apart from the sentence, and when."""
    if not isinstance(said, str) or _object_in(said) is not None:
        return said
    more = [f"{name}: {found[name]}" for name in _DETAILS if _tells(found.get(name))]
    when = next((each for name in _TIMES if isinstance(each := found.get(name), str)), "")
    if when:
        more.append(f"at: {when}")
    # Structured loggers keep what happened apart from the sentence.
    return ", ".join([said.rstrip("\n"), *more]) if more and not _is_of_nccl(said) else said


def _is_of_nccl(said: str) -> bool:
    """Whether the sentence is NCCL's own: the values of its settings reach to the end of the line."""
    return "NCCL INFO" in said or "NCCL WARN" in said


def _is_about(said: object) -> bool:
    """Whether what stands where a line should is about the file that it was read from, as shippers of logs keep it."""
    if isinstance(said, str) and said.startswith("{") and _object_in(said) is None:
        with suppress(ValueError, RecursionError):
            said = json.loads(said[:MAX_LINE])
    return isinstance(said, dict) and not any(key in said for key in (*_SAYS, *_HOLDS))


def _tells(detail: object) -> bool:
    """Whether a key beside the sentence says anything: many loggers write `"error": ""` where there was none."""
    return isinstance(detail, str | int) and detail is not False and detail not in {"", "null", "<nil>", "None"}


def _is_bad(level: object) -> bool:
    return _BAD.match(level) is not None if isinstance(level, str) else level in _WORST_NUMBERS


def _object_in(text: str) -> dict[str, object] | None:
    """The object that a text is, where it says something."""
    if text.startswith("{") and len(text) <= MAX_LINE:
        with suppress(ValueError, RecursionError):
            found = json.loads(text)
            if isinstance(found, dict) and any(key in found for key in _SAYS):
                return found
    return None


def _is_repetition(line: str) -> bool:
    """Whether further lines of this one's shape tell a reader of NCCL's messages nothing, nor that a job goes on."""
    _, info, text = line.partition("NCCL INFO ")
    return bool(info) and "COMPLETE" not in text and " -> " not in text and is_inert(text.strip())


class Sieve:
    """Passes each line to the scan until lines of its shape (equal but for digits) are known to say nothing more."""

    def __init__(self, scanning: Scanning) -> None:
        self.scanning = scanning
        self.lines = 0
        self.limit = WorkLimit()
        self._dull = dict[bytes, int]()
        self._seen = set[bytes]()
        self._watching = Watching()
        self._repeated = 0
        self._whole = True
        """Whether every line was looked at so far."""

    def passed(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
        """Those lines, with their numbers, that a reader of NCCL's messages and of tables must see."""
        each = iter(lines)
        yield from self._of(each)
        if self.limit.is_reached:
            self._whole = False
            yield from self._of(self.limit.few(each))
        scanning = self.scanning
        scanning.kinds["nccl"] += self._repeated
        scanning.calls, scanning.passed_over = self._watching.ended(), self.limit.said
        scanning.unread = self.limit.passed

    def _of(  # noqa: PLR0912 - a call for each of millions of lines would cost more than all looks together
        self, lines: Iterator[tuple[int, bytes]]
    ) -> Iterator[tuple[int, str]]:
        """The same for a part of the lines; up to where the log has cost what it may, while it is whole."""
        scanning, dull, seen, limit = self.scanning, self._dull, self._seen, self.limit
        recent = self._watching.recent
        repeated, called, number, same = 0, False, self.lines, b"\n"
        for number, raw in lines:
            if raw == same:
                continue
            # The looks are in the order of what they cost: a call or a connection once more, then the shape.
            if ((called := _CALL in raw) or raw in seen) and b"NCCL INFO " in raw:
                repeated += 1
                if called:
                    recent.append((number, raw))
                continue
            if _VIA in raw and _CHANNEL in raw:
                # Which pair talks by what: nothing for signatures, but a reader of NCCL's messages must see it once.
                repeated += 1
                if b"NET/IB" in raw and b"GDRDMA" not in raw:
                    scanning.kinds["shown"] += 1  # other hosts may have it
                if len(seen) < MAX_SEEN:
                    seen.add(raw)
                yield number, raw.decode("utf-8", "replace")
                continue
            # Addresses have letters among their digits.
            plain = _ADDRESS.sub(b"0x", raw) if b" 0x" in raw or b"=0x" in raw else raw
            shape = plain.translate(None, DIGITS)
            state = dull.get(shape)
            if state is None and len(plain := _ID.sub(b"", plain)) < len(raw):
                shape = plain.translate(None, DIGITS)
                state = dull.get(shape)
            if state is not None and not scanning.ignored:
                if state == _ALIVE:
                    scanning.alive = number
                    scanning.course.goes_on(raw, number, served=b"HTTP/" in raw or b"throughput" in raw)
                elif state == _NCCL:
                    repeated += 1
                else:
                    same = raw
                continue
            same = b"\n"  # no line holds its end: while a box or a traceback is open the next one counts
            line = self._looked_at(number, raw, shape)
            if line is not None:
                yield number, line
            if self._whole and limit.is_reached:
                break
        self.lines, self._repeated = number, self._repeated + repeated

    def _looked_at(self, number: int, raw: bytes, shape: bytes) -> str | None:
        """The line, looked at, where a reader of NCCL's messages must see it; shapes that say no more are kept."""
        scanning, dull = self.scanning, self._dull
        line = raw.decode("utf-8", "replace")
        before, tried = scanning.alive, scanning.tried
        is_of_nccl = b"NCCL " in raw
        silent = scanning.look(line, number, None if is_of_nccl or len(raw) > LOOKED_AT else shape)
        passed_on = is_of_nccl or line.lstrip().startswith("#")
        self.limit.spend(len(raw), scanning.tried - tried, passed_on=passed_on)
        if passed_on:
            if silent and len(dull) < MAX_DULL and _is_repetition(line):
                dull[shape] = _NCCL
            if b" commId " in raw:
                self._watching.begun(raw)
            return line
        if silent and len(dull) < MAX_DULL:
            dull[shape] = _ALIVE if scanning.alive == number != before else _SILENT
        return None
