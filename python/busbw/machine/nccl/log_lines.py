"""Lines of a log of NCCL: who said what. Prefixes of launchers, times and anything between are skipped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_LINE = 65536
MAX_LINES = 20_000_000

_MESSAGE = re.compile(
    r"(?:(?P<host>[A-Za-z0-9][\w.-]{0,254})?:?(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) +)?\[(?P<dev>-?\d{1,4})\] +"
    r"(?:(?P<place>[\w./+-]{1,200}:\d{1,6}) (?:\([^)]{0,80}\) )?)?NCCL (?P<level>INFO|WARN) (?P<text>.*)"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Line:
    """One message: the process and thread that printed it, and the CUDA device it was about."""

    number: int
    host: str
    pid: int
    tid: int
    device: int
    warning: bool
    place: str
    text: str


def messages(lines: Iterable[str]) -> Iterator[Line | tuple[int, str]]:
    """Messages of NCCL; any other line that starts with # as (number, line), since benchmarks head their tables so."""
    for number, raw in enumerate(lines, 1):
        if number > MAX_LINES:
            return
        if "NCCL " not in raw:
            if raw.lstrip().startswith("#"):
                yield number, raw[:4096]
            continue
        found = _MESSAGE.search(raw, 0, MAX_LINE)
        if found is None:
            continue
        yield Line(
            number=number,
            host=found["host"] or "",
            pid=int(found["pid"] or 0),
            tid=int(found["tid"] or 0),
            device=int(found["dev"]),
            warning=found["level"] == "WARN",
            place=found["place"] or "",
            text=(text if (text := found["text"].strip()).isprintable() else _CONTROL.sub("\ufffd", text)),
        )
