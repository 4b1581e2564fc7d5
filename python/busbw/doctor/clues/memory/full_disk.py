"""A clue of a full file system: the row of df that is full, its host, and whose ranks never started by it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_SIZE, _GAP = r"[\d.]{1,14}[KMGTP]?i?", r"[ \t]{1,24}"
_ROW = re.compile(
    rf"^(?:(?P<host>[A-Za-z][\w.-]{{0,60}}): {{0,8}})?(?P<device>[\w./:@-]{{1,99}}){_GAP}(?P<size>{_SIZE}){_GAP}{_SIZE}"
    rf"{_GAP}{_SIZE}{_GAP}(?P<part>\d{{1,3}})%{_GAP}(?P<mount>/[\w./-]{{0,80}})[ \t]*$",
    re.MULTILINE,
)
"""A row of df, behind the host of clush or pdsh."""
_NEVER = re.compile(r"^/(?:snap|boot|sys|proc|dev|run/snapd|cdrom|media)\b")
_NO_DISK = re.compile(r"^(?:/dev/loop|squashfs|udev|devtmpfs|tmpfs|shm|efivarfs)")
_PROMPT = re.compile(r"^(?:\[?\w{1,32}@)(?P<host>[A-Za-z][\w.-]{0,60}?)[: ][^\n]{0,80}[$#] ?(?:df|ssh)\b", re.MULTILINE)
_ENROOT = re.compile(r"pyxis|enroot")
_JOINED = re.compile(r"\b(?P<some>\d{1,6})/(?P<all>\d{1,6}) clients joined")
_INODES = re.compile(r"\bInodes\s{1,12}IUsed\b(?![\s\S]{0,400}?\b(?:Used|Size)\s{1,12})")
_FULL, _MOST = 99, 400


def full_mount(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """One row of df is full."""
    rows = [(text, found) for text in texts for found in _rows(text)]
    full = [(text, found) for text, found in rows if int(found["part"]) >= _FULL]
    if not full:
        return None
    said = "\n".join(seen.fact for seen in finding.evidence)
    # Of several full ones that which the error names.
    text, found = next((each for each in full if each[1]["mount"] != "/" and f"{each[1]['mount']}/" in said), full[0])
    before = [each["host"] for each in _PROMPT.finditer(text.text, 0, found.start())]
    host = found["host"] or (before[-1] if before else "")
    mount, at = named(found["mount"], 60), f" on {named(host, 40)}" if host else ""
    of_enroot = _ENROOT.search(said) is not None
    what = ": enroot unpacks the container's image there" if of_enroot else ""
    joined = next((each for other in texts if (each := _JOINED.search(other.text))), None) if host else None
    lost = f", and the ranks of that host never joined ({joined['some']} of {joined['all']} did)" if joined else ""
    room = [each for _, each in rows if each["mount"] == found["mount"] and int(each["part"]) < _FULL]
    elsewhere = f"; on {len(room)} other hosts it has room" if len(room) > 1 else ""
    images = "enroot list and enroot remove; " if of_enroot else ""
    other = (
        "Else point ENROOT_CACHE_PATH, ENROOT_DATA_PATH and ENROOT_TEMP_PATH at another local disk with room"
        if of_enroot
        else f"{finding.fix[:1].upper()}{finding.fix[1:]}"
    )
    if _INODES.search(text.text, max(0, found.start() - 400), found.start()):
        return Sharper(
            f"{mount}{at} can hold no more files ({found['part']}% of {found['size']} inodes), whatever room it has",
            f"delete or pack small files on {mount}{at}: caches, shards, checkpoints in many parts (find -xdev | cut "
            "-d/ -f1-4 | sort | uniq -c shows where). Or write elsewhere. Deleting a few large files does not help",
            (text.evidence(found.start("device")),),
        )
    return Sharper(
        f"{mount}{at} is full ({found['part']}% of {found['size']}{elsewhere}){what}{lost}",
        f"free space on {mount}{at}: {images}du -xh -d2 {mount} | sort -h shows what lies there, and lsof +L1 what "
        f"programs still hold. Or leave that host out until then. {other}",
        (text.evidence(found.start("device")),),
    )


def _rows(text: Text) -> Iterator[re.Match[str]]:
    for found in islice(_ROW.finditer(text.text), _MOST):
        if not _NEVER.match(found["mount"]) and not _NO_DISK.match(found["device"]):
            yield found
