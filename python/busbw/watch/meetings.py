"""Collectives with all their ranks from recordings that are not written any more: as arrivals.py has them, but quicker.

Windows of calls are read as columns and matched at once. What lacks ranks by then waits for the next window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from busbw.watch.arrivals import Arrival, Arrivals, Meeting, who_of
from busbw.watch.columns import Columns, collectives, groups_of, read, rows_of
from busbw.watch.late import LATE_S, Late, Stragglers
from busbw.watch.recording import Recording, shape_of

WINDOW = 1 << 15
"""Calls of each process that are matched at once."""
MOST_TOGETHER = 1 << 20
"""And of all processes."""
MAX_PENDING = 1 << 20
"""Calls that wait for further ranks; older ones are given up."""
MAX_LATES = 1000


def who_came_late(recordings: Sequence[Recording], late_s: float = LATE_S) -> tuple[Stragglers, list[Late]]:
    """Of everything that recordings hold: for whom the others waited, and the newest verdicts on ranks."""
    stragglers, lates = Stragglers(late_s), []
    for meeting in meetings(recordings):
        lates += stragglers.take(meeting)
    return stragglers, lates[-MAX_LATES:]


def meetings(recordings: Sequence[Recording]) -> Iterator[Meeting]:
    """Each collective once; those of one communicator in the order of their numbers."""
    if len({each.header().boot_id for each in recordings}) > 1:
        # Their clocks are learned from one call after the other.
        arrivals = Arrivals()
        while new := list(arrivals.look(recordings)):
            yield from (each for each in new if isinstance(each, Meeting))
        return
    names: list[int] = []
    rows = rows_of(recordings, names)
    whose = [who_of(each.header()) for each in recordings]
    window = max(1, min(WINDOW, MOST_TOGETHER // max(len(recordings), 1)))
    first = [1] * len(recordings)
    ended: list[int | None] = [None] * len(recordings)
    pending: tuple[Any, ...] | None = None
    while True:
        parts = [pending] if pending else []
        for at, recording in enumerate(recordings):
            one = read(recording, window, first[at])
            if one.next > first[at]:
                parts.append((*collectives(one, rows[at], at), *_own(one, ended[at], rows[at])))
                ended[at], first[at] = _last_end(one, ended[at]), one.next
        if len(parts) == bool(pending):
            return
        found, pending = _matched(parts)
        yield from _told(found, names, whose)


def _ends(one: Columns) -> Any:
    """When each call had ended, as far as its host knows."""
    return one.begun_ns + one.host_ns


def _last_end(one: Columns, before: int | None) -> int | None:
    return int(_ends(one)[-1]) if len(one.place) else before


def _own(one: Columns, before: int | None, rows: Any) -> tuple[Any, ...]:
    """Of each collective the time since the end of the process's last call, and more that is told of it."""
    import numpy as np

    since = np.empty(len(one.place), np.int64)
    if len(since):
        since[1:] = _ends(one)[:-1]
        since[0] = one.begun_ns[0] if before is None else before
    index = collectives(one, rows, 0)[1]
    own = (one.begun_ns - since)[index]
    if before is None and len(index) and index[0] == 0:
        own[0] = _UNKNOWN
    return own, _ends(one)[index], one.place[index], one.count[index], one.how[index]


_UNKNOWN = -(1 << 62)
"""In place of a time that is not known."""


def _matched(parts: Sequence[tuple[Any, ...]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Those whose ranks are all there, by the moment at which the last rank came; and all others."""
    import numpy as np

    every = tuple(np.concatenate(each) for each in zip(*parts, strict=True))
    order, starts, group, members = groups_of(every)
    every = tuple(each[order] for each in every)
    ranks, begun = every[5], every[6]
    if not len(order):
        return every, every
    is_whole = members == ranks[starts]
    last = np.maximum.reduceat(begun, starts)
    whole = np.flatnonzero(is_whole[group])
    whole = whole[np.lexsort((every[4][whole], group[whole], last[group[whole]]))]
    rest = np.flatnonzero(~is_whole[group])[-MAX_PENDING:]
    return tuple(each[whole] for each in every), tuple(each[rest] for each in every)


_OF_ARRIVAL = (0, 4, 6, 7, 8, 9, 10)
"""Columns: whose, rank, when it began, whether it is known when it was done, own time, end, place."""


def _told(found: tuple[Any, ...], names: Sequence[int], whose: Sequence[str]) -> Iterator[Meeting]:
    columns = [each.tolist() for each in found]
    at, many = 0, len(columns[0])
    while at < many:
        end = at + columns[5][at]
        is_done = all(columns[7][at:end])
        arrivals = [
            Arrival(rank, whose[who], begun, ends if done else None, None if own == _UNKNOWN else own, place, begun)
            for who, rank, begun, done, own, ends, place in zip(
                *(columns[each][at:end] for each in _OF_ARRIVAL), strict=True
            )
        ]
        shape = shape_of(columns[11][at], columns[12][at])
        yield Meeting(names[columns[2][at]], columns[3][at], shape, tuple(arrivals), 0, is_done)
        at = end
