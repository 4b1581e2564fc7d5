"""Clues of a driver that is too old: hosts of one job that have different ones, so that the program suits some."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.reading.heads import host_of
from busbw.doctor.shown_texts import Text, named

_VERSION = re.compile(
    r"(?:^|^(?P<before>[A-Za-z][\w.-]{1,80}): {1,4}[^\n]{0,40}?)"
    r"(?:\|[^\n]{0,60}Driver Version: (?P<smi>\d{3}\.\d{1,3}(?:\.\d{1,3})?)"
    r"|NVRM version: [^\n]{0,80}Kernel Module[\w ]{0,20}? {1,4}(?P<kernel>\d{3}\.\d{1,3}(?:\.\d{1,3})?)"
    r"|(?:[Dd]river[\w ]{0,12}[:=] {0,4})?(?P<bare>\d{3}\.\d{1,3}\.\d{2})\s{0,4}$)"
)
_NAME = re.compile(r"(?:#{1,3} |host(?:name)?[:=] ?)?(?P<host>[A-Za-z][\w.-]{1,80})\s{0,4}:?$")
_FAILS = re.compile(
    r"^(?P<host>[A-Za-z][\w.-]{1,80}?)(?::\d{1,10}:\d{1,10} \[\d{1,3}\]|:) [^\n]{0,160}"
    r"(?:driver version is insufficient|InsufficientDriver|forward compatib|driver[^\n]{0,40} too old)",
    re.MULTILINE | re.IGNORECASE,
)
_NEAR = 8
"""Lines below a host's name in which its driver stands."""

Versions = dict[str, tuple[tuple[int, ...], str, Evidence]]


def older_on_a_host(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """One host has an older driver than another one of the job, and the program failed there."""
    fails = {found["host"] for text in texts for found in _FAILS.finditer(text.text)}
    have: Versions = {}
    for text in texts:
        for host, version, seen in _versions(text, fails):
            have.setdefault(host, (tuple(int(each) for each in version.split(".")), version, seen))
    if len({number for number, _, _ in have.values()}) < 2:
        return None
    newest = max(have, key=lambda host: have[host][0])
    old = [host for host in have if have[host][0] < have[newest][0] and (not fails or host in fails)]
    if not old or newest in fails:
        return None
    which = ", ".join(f"{named(host, 40)} ({have[host][1]})" for host in old[:3])
    return Sharper(
        f"the NVIDIA driver of {which} is too old for the CUDA of this program; {named(newest, 40)} has "
        f"{have[newest][1]}",
        f"bring the driver of {named(old[0], 40)} to that of {named(newest, 40)} ({have[newest][1]}) and reboot it. "
        "Until then leave that host out. On data centre GPUs the package cuda-compat helps, too. Image, CUDA and NCCL "
        "are not what differs",
        tuple(have[host][2] for host in (*old[:3], newest)),
    )


def _versions(text: Text, fails: set[str]) -> Iterator[tuple[str, str, Evidence]]:
    """Host, driver and line of each place that tells a driver, where a host's name stands before or above it."""
    host, since, at = "", 0, 0
    for number, line in enumerate(text.text.split("\n")):
        here, at = at, at + len(line) + 1
        if (found := _VERSION.search(line)) is not None:
            who = found["before"] or (host if number - since <= _NEAR else "")
            if who:
                yield who, found["smi"] or found["kernel"] or found["bare"], text.evidence(here)
        elif named_above := host_of(line):
            host, since = named_above, number
        elif (name := _NAME.fullmatch(line)) and (name["host"] in fails or re.search(r"\d|-", name["host"])):
            host, since = name["host"], number
