"""Clues of clocks that differ between Slurm's nodes: what munge prints of a credential's times, and who says so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_TIME = r"[A-Z][a-z]{2} ([A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d) (\d{4})"
_PAIR = re.compile(rf"ENCODED: {_TIME}(?:[^\n]{{0,20}}\n[^\n]{{0,120}}?)DECODED: {_TIME}")
_UNMUNGE = re.compile(
    r"^ENCODE_TIME:\s{1,20}(?P<sent>[\d-]{10} [\d:]{8})[^\n]{0,40}\nDECODE_TIME:\s{1,20}(?P<read>[\d-]{10} [\d:]{8})",
    re.MULTILINE,
)
_AHEAD = re.compile(r"\bRewound credential")
_NOT_SYNCED = re.compile(
    r"^Leap status\s{1,12}: Not synchronised|\bSystem clock synchronized: no\b|\bNTP synchronized: no\b"
    r"|^[^\n]{0,30}\b506 Cannot talk to daemon",
    re.MULTILINE,
)
_SAME_KEY = re.compile(
    r"^(?P<sum>[0-9a-f]{32,128})  ?/etc/munge/munge\.key[^\n]{0,10}\n(?:[^\n]{0,120}\n){0,4}?"
    r"(?:\S{1,60}: )?(?P=sum)  ?/etc/munge/munge\.key",
    re.MULTILINE,
)
_LEAST_S = 60


def clocks_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Times of one credential at both nodes, by how much they differ, and the node whose clock has no source."""
    pairs = [(text, at, apart) for text in texts for at, apart in _differences(text)]
    loose = next(((text, found) for text in texts if (found := _NOT_SYNCED.search(text.text))), None)
    ahead = next(((text, found) for text in texts if (found := _AHEAD.search(text.text))), None)
    # A credential may also be old since a busy controller read it late: then no clock is behind.
    if not pairs or (loose is None and ahead is None):
        return None
    text, at, apart = max(pairs, key=lambda each: each[2])
    host = host_before(*_place(loose)) if loose else ""
    seen: list[Evidence] = [text.evidence(at)]
    if loose:
        seen.append(loose[0].evidence(loose[1].start()))
    same = next(((text, found) for text in texts if (found := _SAME_KEY.search(text.text))), None)
    if same:
        seen.append(same[0].evidence(same[1].start()))
    much = f"{apart / 60:.0f} minutes" if apart >= 120 else f"{apart:.0f} s"
    whose = f": that of {named(host, 40)} is not synchronised" if host else ": one is not synchronised" if loose else ""
    where = f"on {named(host, 40)}" if host else "on both nodes"
    key = "The key is the same on both nodes, and right" if same else "Compare the keys (md5sum) only after that"
    return Sharper(
        f"the clocks of two nodes are {much} apart, by which Slurm's authentication (munge) fails{whose}",
        f"{where} see chronyc sources -v (or timedatectl, ntpq -p): chronyd must reach its time server, UDP port 123. "
        f"Then chronyc makestep, restart munge and slurmd there, and submit again. {key}",
        tuple(seen),
    )


def _place(found: tuple[Text, re.Match[str]]) -> tuple[Text, int]:
    return found[0], found[1].start()


def _differences(text: Text) -> list[tuple[int, float]]:
    """Where a credential's two times stand, and how many seconds lie between them."""
    found = [(each.start(), abs(_of(each[1], each[2]) - _of(each[3], each[4]))) for each in _PAIR.finditer(text.text)]
    found += [(each.start(), abs(_iso(each["sent"]) - _iso(each["read"]))) for each in _UNMUNGE.finditer(text.text)]
    return [each for each in found if each[1] >= _LEAST_S]


def _of(day: str, year: str) -> float:
    try:
        return datetime.strptime(f"{' '.join(day.split())} {year}", "%b %d %H:%M:%S %Y").timestamp()
    except ValueError:
        return 0.0


def _iso(said: str) -> float:
    try:
        return datetime.fromisoformat(said).timestamp()
    except ValueError:
        return 0.0
