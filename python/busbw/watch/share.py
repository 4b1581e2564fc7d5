"""What one host's watcher tells the others of its processes: a summary as bytes, hostile until it was decoded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from busbw.base.errors import UserError
from busbw.base.sentences import visible
from busbw.watch.links import MAX_LINKS, Link
from busbw.watch.makings import MADE, Making
from busbw.watch.messages import MOST_MARKS, NONE, Called, Messages
from busbw.watch.processes import (
    EXITED,
    FROZEN,
    GONE,
    HISTORY,
    MOST_OVER,
    REPLACED,
    RUNNING,
    STOPPED,
    TRACED,
    Process,
    joined,
)
from busbw.watch.pulses import MOST_PULSES, Pulse
from busbw.watch.recording import ENDED, KINDS, OPS, TYPES, Communicator, Shape

MAGIC = "busbw-share 2"
MAX_BYTES = 8 << 20
MAX_PROCESSES = 4096
MAX_LINES = 400
_MAX_TEXT = 4000
_STATES = (RUNNING, STOPPED, TRACED, GONE, EXITED, REPLACED, FROZEN)
_OWN_OP = "an operator of the program"
_DIGEST = 64


@dataclass(frozen=True)
class Summary:
    """Of one watcher; `written_ns` is by the monotonic clock of its host."""

    written_ns: int
    quiet_ns: int
    """How long nothing had moved in its processes when it was written."""
    is_final: bool
    """The watcher's program has ended."""
    said: str
    """The verdict that it gave, or ""."""
    processes: tuple[Process, ...]
    stacks: tuple[tuple[int, str], ...] = ()
    """Lines of the stacks of accused processes, with their pid."""


def encode(summary: Summary) -> bytes:
    """A line with length and checksum, so that half of a summary is known as such, and JSON."""
    shapes: dict[Shape, int] = {}
    body = json.dumps({
        "written_ns": summary.written_ns, "quiet_ns": summary.quiet_ns, "final": summary.is_final,
        "said": summary.said[:_MAX_TEXT], "stacks": [list(line) for line in summary.stacks[:MAX_LINES]],
        "processes": [_of_process(process, shapes) for process in summary.processes],
        "shapes": [list(astuple(shape)) for shape in shapes],
    }, separators=(",", ":")).encode()  # fmt: skip
    # `shapes` is filled while the processes are written: a dict keeps the order of its keys.
    return f"{MAGIC} {len(body)} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def _of_process(process: Process, shapes: dict[Shape, int]) -> dict[str, object]:
    def number_of(shape: Shape) -> int:
        return shapes.setdefault(shape, len(shapes))

    def list_of(row: Communicator) -> list[int]:
        return [
            row.place, row.identity, row.parent, row.rank, row.ranks, row.device,
            MADE.index(row.made) if row.made in MADE else 0, row.color, row.last_error, row.made_ns, row.entered,
            row.returned, row.collectives, row.entered_ns, row.returned_ns, number_of(row.last),
        ]  # fmt: skip

    return {
        "pid": process.pid, "host": process.host, "rank": process.name, "state": process.state, "gpus": process.gpus,
        "start": process.start, "new_turn": process.is_new_turn,
        "rows": [list_of(row) for row in process.communicators],
        "over": [[ENDED.index(row.ended) if row.ended in ENDED else 1, list_of(row)] for row in process.over],
        "making": None if process.making is None else _list_of(process.making),
        "ending": [row.place for row in process.communicators if row.in_group_end],
        "in_end": [row.place for row in (*process.communicators, *process.over) if row.in_end],
        "leaving": process.is_leaving,
        "refused": None if process.refused is None else _list_of(process.refused),
        "pulses": [list(astuple(pulse)) for pulse in process.pulses.values()],
        "grouped": [[place, length] for place, length in process.grouped.items()],
        "messages": _of_messages(process.messages, number_of),
        "busy": None if process.busy is None else round(process.busy * 1000),
        "turn_us": None if process.turn_s is None else round(process.turn_s * 1e6),
        "links": [list(astuple(link)) for link in process.links],
        "history": [
            [place, [[first, [number_of(calls[first + at]) for at in range(many)]] for first, many in _runs(calls)]]
            for place, calls in process.history.items()
        ],
    }  # fmt: skip


def _of_messages(messages: Messages, number_of: Callable[[Shape], int]) -> list[object] | None:
    def side(found: Mapping[tuple[int, int], tuple[Called, ...]]) -> list[object]:
        return [
            [place, peer, [[number, number_of(shape)] for number, shape in calls]]
            for (place, peer), calls in found.items()
        ]

    if messages == NONE:
        return None
    marks = [[place, [list(each) for each in found.items()]] for place, found in messages.marks.items()]
    return [messages.is_whole, side(messages.sent), side(messages.received), marks, messages.newest]


def _list_of(making: Making) -> list[int]:
    return [MADE.index(making.how), *astuple(making)[1:]]


def _runs(calls: Mapping[int, Shape]) -> list[tuple[int, int]]:
    """Numbers that follow each other, as first and how many."""
    found: list[tuple[int, int]] = []
    for number in sorted(calls):
        if found and sum(found[-1]) == number:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found


def decode(raw: bytes) -> Summary:
    """UserError where it is none, where half of it is missing, or where a field is not what it has to be."""
    head, _, body = raw.partition(b"\n")
    words = head[:200].decode("ascii", errors="replace").rsplit(" ", 2)
    if len(words) != 3 or words[0] != MAGIC or len(words[2]) != _DIGEST:
        raise UserError("it is no summary of `busbw watch`, or one of another version")
    if words[1] != str(len(body)) or words[2] != hashlib.sha256(body).hexdigest():
        raise UserError("it is not whole")
    try:
        found = json.loads(body)
        shapes = [_shape(each) for each in _list(found["shapes"], 1 << 20)]
        return Summary(
            _whole(found["written_ns"]),
            _whole(found["quiet_ns"]),
            found["final"] is True,
            _text(found["said"], _MAX_TEXT),
            tuple(_process(each, shapes) for each in _list(found["processes"], MAX_PROCESSES)),
            tuple((_whole(pid), _text(line, 400)) for pid, line in _list(found["stacks"], MAX_LINES)),
        )
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise UserError(f"it is damaged: {type(error).__name__}") from error


def _whole(value: object, bits: int = 64) -> int:
    """From 0 on."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << bits:
        raise ValueError("no such number")
    return value


def _signed(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise ValueError("no such number")
    return value


def _text(value: object, longest: int) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    return visible(value)[:longest]


def _list(value: object, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError("no list, or too long")
    return value


def _of(value: object, names: Sequence[str]) -> str:
    if isinstance(value, str) and (value in names or (value.startswith("number ") and value[7:].isdecimal())):
        return value[:30]
    raise ValueError("no such name")


def _shape(raw: object) -> Shape:
    kind, count, type_, op, root = _list(raw, 5)
    return Shape(
        _of(kind, KINDS), _whole(count), _of(type_, TYPES), _of(op, (*OPS, _OWN_OP)),
        None if root is None else _whole(root),
    )  # fmt: skip


def _process(raw: Mapping[str, object], shapes: Sequence[Shape]) -> Process:
    history: dict[int, dict[int, Shape]] = {}
    left = HISTORY
    rows = [_row(row, shapes) for row in _list(raw["rows"], 1 << 16)]
    ending = {_whole(place, 16) for place in _list(raw.get("ending", []), 1 << 16)}
    in_end = {_whole(place, 16) for place in _list(raw.get("in_end", []), 1 << 16)}
    for place, runs in _list(raw["history"], 1 << 16):
        calls = history.setdefault(_whole(place, 16), {})
        for first, numbers in _list(runs, HISTORY):
            left -= len(_list(numbers, left))
            calls.update({_whole(first) + at: shapes[_whole(number, 20)] for at, number in enumerate(numbers)})
    return Process(
        _text(raw["rank"], 20),
        _whole(raw["pid"], 32),
        _text(raw["host"], 64),
        _of(raw["state"], _STATES),
        tuple(replace(row, in_group_end=row.place in ending, in_end=row.place in in_end) for row in rows),
        history,
        gpus=raw["gpus"] is True,
        is_leaving=raw.get("leaving") is True,
        grouped={_whole(place, 16): _whole(length, 32) for place, length in _list(raw["grouped"], 1 << 16)},
        pulses=_pulses(raw.get("pulses", [])),
        messages=_messages(raw.get("messages"), shapes),
        busy=None if raw["busy"] is None else _whole(raw["busy"], 32) / 1000,
        turn_s=None if raw.get("turn_us") is None else _whole(raw["turn_us"]) / 1e6,
        links=tuple(_link(link) for link in _list(raw["links"], MAX_LINKS)),
        over=tuple(
            replace(each := _row(row, shapes), ended=ENDED[_whole(ended, 8)], in_end=each.place in in_end)
            for ended, row in _list(raw["over"], MOST_OVER)
        ),
        making=_making(raw["making"]),
        refused=_making(raw.get("refused")),
        start=_whole(raw["start"]),
        is_new_turn=raw.get("new_turn") is True,
        is_here=False,
    )


def _messages(raw: object, shapes: Sequence[Shape]) -> Messages:
    if raw is None:
        return NONE
    # A watcher of another release may not say which call is the newest.
    whole, sent, received, marks, *newest = _list(raw, 5)
    left = HISTORY

    def side(found: object) -> dict[tuple[int, int], tuple[Called, ...]]:
        nonlocal left
        read = {}
        for place, peer, calls in _list(found, HISTORY):
            left -= len(_list(calls, left))
            read[_whole(place, 16), _whole(peer, 20)] = tuple(
                (_whole(number), shapes[_whole(shape, 20)]) for number, shape in calls
            )
        return read

    sides = side(sent), side(received)
    known = {
        _whole(place, 16): {_whole(number, 32): _whole(call) for number, call in _list(found, MOST_MARKS + 1)}
        for place, found in _list(marks, HISTORY)
    }
    return Messages(whole is True, *sides, known, _whole(newest[0]) if newest else 0)


def _pulses(raw: object) -> dict[int, Pulse]:
    found = {}
    for place, stream, error, *numbers, entered in _list(raw, MOST_PULSES):
        begun, not_begun, ended, not_ended = (_whole(number, 32) for number in numbers)
        found[_whole(place, 16)] = Pulse(
            place, _whole(stream, 16), _signed(error), begun, not_begun, ended, not_ended, _whole(entered)
        )
    return found


def _making(raw: object) -> Making | None:
    if raw is None:
        return None
    how, identity, since_ns, rank, ranks = _list(raw, 5)
    return Making(MADE[_whole(how, 8)], _whole(identity), _whole(since_ns), _signed(rank), min(_signed(ranks), 1 << 20))


def _link(raw: object) -> Link:
    local, remote, queued, again, waited = _list(raw, 5)
    return Link(_text(local, 60), _text(remote, 60), _whole(queued), _whole(again), waited is True)


def _row(raw: object, shapes: Sequence[Shape]) -> Communicator:
    (
        place, identity, parent, rank, ranks, device, made, color, error, made_ns, entered, returned, collectives,
        entered_ns, returned_ns, last,
    ) = _list(raw, 16)  # fmt: skip
    if not 0 <= _signed(rank) < _signed(ranks) <= 1 << 20:
        raise ValueError("no such rank")
    return Communicator(
        _whole(place, 16), _whole(identity), _whole(parent), rank, ranks, _signed(device), MADE[_whole(made, 8)],
        _signed(color), _signed(error), _whole(made_ns), "alive", _whole(entered), _whole(returned),
        _whole(collectives), _whole(entered_ns), _whole(returned_ns), shapes[_whole(last, 20)],
    )  # fmt: skip


def shifted(process: Process, by_ns: int, silent_s: float) -> Process:
    """By the reader's clock: a host's monotonic clock means nothing on another one."""

    def moved(row: Communicator) -> Communicator:
        return replace(
            row,
            made_ns=row.made_ns + by_ns,
            entered_ns=row.entered_ns + by_ns if row.entered_ns else 0,
            returned_ns=row.returned_ns + by_ns if row.returned_ns else 0,
        )

    making = process.making and replace(process.making, since_ns=process.making.since_ns + by_ns)
    rows, over = (tuple(map(moved, each)) for each in (process.communicators, process.over))
    return replace(process, communicators=rows, over=over, making=making, silent_s=silent_s)


def merged(ours: Iterable[Process], theirs: Iterable[Process]) -> list[Process]:
    """Ours, and those of other hosts that share a communicator with one of ours, or with one that does."""
    ours, theirs = list(ours), list(theirs)
    # The root of a growth, which alone knows both names of the grown communicator, may be on either side.
    everyone = joined([*ours, *theirs])
    found = {process.key: process for process in everyone[: len(ours)]}
    left = []
    for process in everyone[len(ours) :]:
        if process.key in found and not found[process.key].is_here:
            # Its recording lies here too, but only its host knows its state.
            found[process.key] = process
        elif process.key not in found:
            left.append(process)
    known = {row.identity for process in found.values() for row in process.communicators}
    while True:
        sharing = [each for each in left if any(row.identity in known for row in each.communicators)]
        if not sharing:
            return list(found.values())
        for process in sharing:
            found.setdefault(process.key, process)
            known |= {row.identity for row in process.communicators}
        left = [each for each in left if each.key not in found]
