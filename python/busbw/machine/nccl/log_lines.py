"""Lines of a log of NCCL: who said what. Prefixes of launchers, times and anything between are skipped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MAX_LINE = 65536
MAX_LINES = 20_000_000

_HEAD = re.compile(
    r"(?:(?P<host>[A-Za-z0-9][\w.-]{0,254})?:?(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) +)?\[(?P<dev>-?\d{1,4})\] +"
    r"(?:(?P<place>[\w./+-]{1,200}:\d{1,6}) (?:\([^)]{0,80}\) )?)?$"
)
"""What stands before `NCCL INFO` or `NCCL WARN`, behind any prefix of a launcher."""
_TRACED = re.compile(
    r"(?P<host>[A-Za-z0-9][\w.-]{0,254})?:?(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) (?:\[(?P<dev>-?\d{1,4})\] )?(?P<place>)"
    r"[\w.:/+ -]{0,200}$"
)
"""The same before `NCCL TRACE`, where a time stands too."""
MAX_HEADS = 20_000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Line(NamedTuple):
    """One message: the process and thread that printed it, and the CUDA device it was about."""

    number: int
    host: str
    pid: int
    tid: int
    device: int
    warning: bool
    place: str
    text: str


def messages(numbered: Iterable[tuple[int, str]]) -> Iterator[Line | tuple[int, str]]:
    """Messages of NCCL; any other line that starts with # as (number, line), since benchmarks head their tables so."""
    # A thread's messages begin alike, so that each beginning is taken apart once.
    heads: dict[str, tuple[str, int, int, int, str] | None] = {}
    for number, raw in numbered:
        if number > MAX_LINES:
            return
        at = raw.find("NCCL ")
        if at < 0:
            if raw.lstrip().startswith("#"):
                yield number, raw[:4096]
            continue
        level = raw[at + 5 : at + 10]
        if level not in {"INFO ", "WARN "} and not (level == "TRACE" and " Bytes -> Algo " in raw):
            continue
        head = raw[:at]
        if head in heads:
            known = heads[head]
        else:
            known = _taken_apart(head, _HEAD if level != "TRACE" else _TRACED)
            if len(heads) < MAX_HEADS:
                heads[head] = known
        if known is None:
            continue
        text = raw[at + 10 : at + MAX_LINE].strip()
        host, pid, tid, device, place = known
        yield Line(
            number, host, pid, tid, device, level == "WARN ", place,
            text if text.isprintable() else _CONTROL.sub("\ufffd", text),
        )  # fmt: skip


def _taken_apart(head: str, pattern: re.Pattern[str]) -> tuple[str, int, int, int, str] | None:
    """Host, process, thread, device and place of a message; None where it is no message's beginning."""
    found = pattern.search(head[-1024:])
    if found is None:
        return None
    pid, tid, device = int(found["pid"] or 0), int(found["tid"] or 0), int(found["dev"] or 0)
    return found["host"] or "", pid, tid, device, found["place"] or ""
