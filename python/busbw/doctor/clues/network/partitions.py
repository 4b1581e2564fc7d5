"""Clues of InfiniBand's partitions: limited members of one reach its full members, and not each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_KEY = re.compile(
    r"(?:/infiniband/(?P<dev>[\w.-]{2,30})/ports/\d{1,2})?/pkeys/(?P<at>\d{1,3})(?: <==)?"
    r"(?:\s{0,4}\n|: ?)(?P<key>0x[0-9a-fA-F]{4})\b"
)
"""What cat, head and grep show of the files of a port's keys."""
_GIVEN = re.compile(r"\bNCCL_IB_PKEY(?:['\"]?(?:=|: ?)['\"]?| set by environment to )(?P<at>\d{1,3})\b")
_BEFORE = re.compile(r"\s{0,8}\[?(?P<host>[A-Za-z][\w.-]{0,60})(?:\]:?|:) ?(?:==> )?/sys/")
_FULL = 0x8000
"""The bit of a full member."""
_DEFAULT = 0x7FFF
_PAIR = 2


def _host_of(text: Text, found: re.Match[str]) -> str:
    """The host that the line begins with, as pdsh and others put it there, or whose prompt stands above."""
    begin = text.text.rfind("\n", 0, found.start()) + 1
    own = _BEFORE.match(text.text, begin, found.end())
    return own["host"] if own else host_before(text, found.start())


def limited_members(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Two hosts at least have no key but limited ones, and share one."""
    keys: dict[str, dict[int, Evidence]] = {}
    for text in texts:
        for found in _KEY.finditer(text.text):
            if (key := int(found["key"], 16)) and (host := _host_of(text, found)):
                keys.setdefault(host, {}).setdefault(key, text.evidence(found.start("key")))
    limited = {host: mine for host, mine in keys.items() if not any(key & _FULL for key in mine)}
    shared = {
        key for mine in limited.values() for key in mine if sum(key in each for each in limited.values()) >= _PAIR
    }
    if not shared:
        return None
    key = max(shared)
    hosts = [host for host, mine in limited.items() if key in mine]
    full = [host for host, mine in keys.items() if key | _FULL in mine]
    beside = f". Only {named(', '.join(full[:3]))} is a full member (0x{key | _FULL:04x})" if full else ""
    rule = "Default=0x7fff, ipoib : ALL=full, SELF=full ;" if key == _DEFAULT else f"NAME=0x{key:04x} : ALL=full ;"
    return Sharper(
        f"{named(', '.join(hosts[:4]))} are only limited members of InfiniBand's partition 0x{key:04x} (P_Key), and "
        f"such ports cannot reach each other{beside}",
        f"make all ports of compute nodes full members in the subnet manager's partitions.conf ({rule}) and restart "
        f"opensm, or send it SIGHUP. Then pkeys/0 must show 0x{key | _FULL:04x} on the nodes. A partitions.conf "
        "without a rule for Default leaves them limited. Cables, switches and NCCL_IB_TIMEOUT are not it",
        tuple(limited[host][key] for host in hosts[:3]),
    )


def keys_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The index that NCCL takes stands for another partition on each of two hosts."""
    given = next((found for text in texts if (found := _GIVEN.search(text.text))), None)
    at = int(given["at"]) if given else 0
    tables: dict[str, dict[str, dict[int, tuple[int, Evidence]]]] = {}
    for text in texts:
        for found in _KEY.finditer(text.text):
            device = tables.setdefault(found["dev"] or "", {})
            mine = device.setdefault(_host_of(text, found), {})
            mine.setdefault(int(found["at"]), (int(found["key"], 16), text.evidence(found.start("key"))))
    for hosts in tables.values():
        taken = {host: mine[at] for host, mine in hosts.items() if host and at in mine}
        if len({key & ~_FULL for key, _ in taken.values()}) < _PAIR:
            continue
        of = f"NCCL_IB_PKEY={at} is an index, and" if given else "P_Key index 0, which NCCL takes,"
        shows = ", ".join(
            f"{f'0x{key:04x}' if key else 'no partition'} on {named(host, 40)}"
            for host, (key, _) in list(taken.items())[:3]
        )
        return Sharper(
            f"{of} stands for another partition of InfiniBand on each host: {shows}; they cannot reach each other",
            _same_key(
                {host: {at: key for at, (key, _) in mine.items()} for host, mine in hosts.items() if host in taken}
            ),
            tuple(seen for _, seen in list(taken.values())[:3]),
        )
    return None


def _same_key(hosts: Mapping[str, Mapping[int, int]]) -> str:
    """Where the key that all have as full members stands on each."""
    shared = set.intersection(*({key for key in mine.values() if key & _FULL} for mine in hosts.values()))
    alike = (
        "let the subnet manager write the tables alike (partitions.conf, then restart the ports), so that one index "
        "does. Cables, GIDs and NCCL_IB_TIMEOUT are not it"
    )
    if not shared:
        return f"make all hosts full members of one partition in the subnet manager (partitions.conf); {alike}"
    key = min(shared)
    where = ", ".join(
        f"{next(at for at, each in mine.items() if each == key)} on {named(host, 40)}"
        for host, mine in list(hosts.items())[:4]
    )
    return f"set NCCL_IB_PKEY by host (/etc/nccl.conf) to the index of 0x{key:04x}: {where}. Or {alike}"
