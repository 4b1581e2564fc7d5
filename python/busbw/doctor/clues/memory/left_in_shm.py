"""A clue of /dev/shm that is large and full all the same: files of a job that has ended fill it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_MOST = 2000
_SIZE = r"\d{1,12}(?:\.\d{1,2})?[KMGTkmgt]?i?B?"
_DF = re.compile(
    rf"^(?:tmpfs|shm|none)\s{{1,40}}(?P<size>{_SIZE})\s{{1,20}}(?P<used>{_SIZE})\s{{1,20}}{_SIZE}\s{{1,12}}"
    r"(?P<part>9[5-9]|100)%\s{1,12}/dev/shm\s*$",
    re.MULTILINE,
)
"""The row of `df -h` of a /dev/shm that is full."""
_FILE = re.compile(
    rf"^-[rwxst-]{{9}}[.+@]?\s{{1,8}}\d{{1,4}}\s{{1,8}}(?P<user>[\w.-]{{1,40}})\s{{1,12}}[\w.-]{{1,40}}\s{{1,16}}(?P<size>{_SIZE})"
    r"\s{1,8}(?P<when>[A-Z][a-z]{2}\s{1,3}\d{1,2}|\d{4}-\d\d-\d\d)\s{1,4}[\d:.]{4,18}(?:\s[+-]\d{4})?\s{1,4}(?:/dev/shm/)?"
    r"(?P<name>(?:torch_|nccl-|psm_|sem\.|ray|plasma|__KMP|cuda\.shm|mp-|pym-|vader_|sm_|ucx_|ompi|mpich|Uc)\S{0,120})\s*$",
    re.MULTILINE,
)
"""A file there, as `ls -l` lists it, of a name that programs of jobs give."""
_KIND = re.compile(r"^(?:torch_\d{1,9}|[A-Za-z_.]{2,12}?(?=[-_]|\d))")
_DU = re.compile(rf"^(?P<size>{_SIZE})\s{{1,12}}/dev/shm/(?P<name>[\w.-]{{2,80}})\s*$", re.MULTILINE)
_UNITS = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0 * 1024}
_NOBODY = re.compile(
    r"^[^\n]{0,80}[#$>] ?ps (?:-\w{1,4} ){0,2}-?p ?\d[\d, ]{1,200}\n\s{1,12}PID [^\n]{0,80}(?:\n(?!\s{0,12}\d)|$)"
    r"|\bkill: \(\d{2,9}\)(?: -|:) No such process",
    re.MULTILINE,
)
"""Somebody looked for the processes whose numbers stand in the names, and there are none."""
_LARGE_MIB = 64 * 1024
_LEAST_MIB = 1024
"""Smaller ones are what a container has by default, and are too small without any left-over."""


def left_in_shm(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """What `df` says of a large /dev/shm, and which files fill it."""
    filled = next(
        ((text, found) for text in texts for found in _DF.finditer(text.text) if _mib(found["size"]) >= _LEAST_MIB),
        None,
    )
    if filled is None:
        return None
    text, row = filled
    host = host_before(text, row.start())
    on = f" of {named(host, 40)}" if host else ""
    files = [(each, found) for each in texts for found in islice(_FILE.finditer(each.text), _MOST)]
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for _, each in files:
        kind = _KIND.match(each["name"])
        sums[(kind[0] if kind else each["name"][:12], each["user"])] += _mib(each["size"])
    most = sorted(sums, key=lambda each: -sums[each])
    what = f"{row['used']} of {row['size']}"
    seen: tuple[Evidence, ...] = (text.evidence(row.start()),)
    if not most:
        return _unlisted(f"/dev/shm{on} is full ({what})", row, seen)
    first = files[0]
    who = list(dict.fromkeys(user for _, user in most))
    kinds = ", ".join(named(f"{kind}*", 30) for kind in list(dict.fromkeys(kind for kind, _ in most))[:3])
    gone = next(((each, found) for each in texts if (found := _NOBODY.search(each.text))), None)
    left = "that an ended job left there" if gone else "of jobs, left by one that ended unless it still runs"
    since = f"since {named(first[1]['when'], 12)}"
    look = "" if gone else "see that nobody has them open (fuser -v /dev/shm/*, lsof +D /dev/shm). Then "
    return Sharper(
        f"/dev/shm{on} is full ({what}) of files {left}: {kinds}, of {named(', '.join(who[:3]))}, {since}",
        f"{look}delete them, as {named(who[0], 40)} or root: find /dev/shm -user {named(who[0], 40)} -delete, where "
        "nothing of that user runs. A job that is killed leaves such files: clean up after each (an epilog, a service "
        "that removes old ones). More room in /dev/shm fills as well, unless running jobs need it",
        (*seen, first[0].evidence(first[1].start()), *((gone[0].evidence(gone[1].start()),) if gone else ())),
    )


def _unlisted(title: str, row: re.Match[str], seen: tuple[Evidence, ...]) -> Sharper | None:
    """Nobody listed the files: a large one is filled by more than one job."""
    if _mib(row["size"]) < _LARGE_MIB:
        return None
    return Sharper(
        f"{title}, though it is large: files of jobs that ended, or of others that run, fill it",
        "see what is there (ls -lhS /dev/shm), and whether somebody has it open (fuser -v /dev/shm/*, lsof "
        "+D /dev/shm). Delete what nobody has open, left by jobs that ended (torch_*, nccl-*, sem.*, psm_*). More room "
        "fills as well",
        seen,
    )


def _mib(size: str) -> float:
    number = re.match(r"[\d.]{1,16}", size)
    unit = size[number.end() : number.end() + 1].upper() if number else ""
    if number is None:
        return 0.0
    # Without a letter df counts in KiB, and ls in bytes: both are far below what counts here, or tell by their length.
    return float(number[0]) * _UNITS.get(unit, 1 / 1024)
