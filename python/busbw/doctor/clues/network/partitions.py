"""Clues of InfiniBand's partitions: limited members of one reach its full members, and not each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_KEY = re.compile(r"/pkeys/\d{1,3}(?: <==)?(?:\s{0,4}\n|: ?)(?P<key>0x[0-9a-fA-F]{4})\b")
"""What cat, head and grep show of the files of a port's keys."""
_FULL = 0x8000
"""The bit of a full member."""
_DEFAULT = 0x7FFF
_PAIR = 2


def limited_members(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Two hosts at least have no key but limited ones, and share one."""
    keys: dict[str, dict[int, Evidence]] = {}
    for text in texts:
        for found in _KEY.finditer(text.text):
            if (key := int(found["key"], 16)) and (host := host_before(text, found.start())):
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
