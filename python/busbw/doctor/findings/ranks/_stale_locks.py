"""A file lock for which a rank waits and that nobody of the job holds: left by a process or client that is gone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.finding import Evidence
from busbw.doctor.reading.shown import Shown

CURE = (
    "see on all hosts that no process uses the lock file (lsof, fuser -v FILE), then delete it and start again. On NFS "
    "the server keeps the lock of a client that is gone: clear it there, or rename the file. Keep locks "
    "and caches on a local disk (HF_HOME, HF_DATASETS_CACHE, TORCH_EXTENSIONS_DIR), or let one rank prepare the data. "
    "Network and barrier are not it"
)
_GONE = re.compile(
    r"\bstale (?:\w{1,12} ){0,2}lock|\block\w{0,5}\b[^\n]{0,40}\b(?:owner|holder|held by|left by|owned by)\b[^\n]{0,80}"
    r"\b(?:gone|dead|down|crashed|killed|ended|unreachable|rebooted|no longer (?:exists|runs)|not running)\b",
    re.IGNORECASE,
)
_OPENED = re.compile(r"^\S{1,40} {1,12}(?P<pid>\d{1,9}) {1,12}\S{1,40} .{0,120} (?P<file>/\S{1,300}\.lock)\s*$")
_LSLOCKS = re.compile(r"^\S{1,40} {1,12}(?P<pid>\d{1,9}) {1,12}(?:FLOCK|POSIX|OFDLCK) .{0,200}\.lock\s*$")
"""A row of lsof or lslocks."""


def left_behind(shown: Shown, waiting: Sequence[str]) -> tuple[str, tuple[Evidence, ...]] | None:
    """What shows that the holder is gone: somebody's word of it, or that those who wait have the file open alone."""
    said = next(((number, line) for number, line in enumerate(shown.lines, 1) if _GONE.search(line)), None)
    rows = [
        (number, line, found["pid"])
        for number, line in enumerate(shown.lines, 1)
        if ".lock" in line and (found := _OPENED.match(line) or _LSLOCKS.match(line))
    ]
    pids = {each.removeprefix("process ") for each in waiting}
    alone = bool(rows) and {pid for _, _, pid in rows} <= pids
    if said is None and not alone:
        return None
    seen = tuple(
        Evidence(clean(shortened(line.strip(), 160)), shown.source, number)
        for number, line in ([said] if said else []) + [(number, line) for number, line, _ in rows[:1] if alone]
    )
    return ("its holder is gone" if said else "no other process has the file open"), seen
