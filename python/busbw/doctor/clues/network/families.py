"""A clue of NCCL_SOCKET_FAMILY: it leaves no interface where addresses of that family are missing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_SET = re.compile(r"\bNCCL_SOCKET_FAMILY(?:['\"]?(?:=|: ?| set by environment to )['\"]?)(?P<family>AF_INET6?)\b")
_UP = re.compile(
    r"^(?P<name>(?!lo\b)[a-zA-Z][\w.-]{0,20}(?:@\S{1,20})?)\s{1,20}UP"
    r"(?P<rest>(?:[ \t]{1,20}[0-9a-f.:]{3,45}/\d{1,3}){1,8})[ \t]*$",
    re.MULTILINE,
)
"""A row of `ip -br addr`."""
_NONE_OF_6 = re.compile(r"\bdisable_ipv6\s{0,3}(?:=\s{0,3})?1\b")
_OF_NCCL = re.compile(r"NCCL WARN Bootstrap ?: no socket interface found|no socket interface found")


def family_without_address(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The family that is asked for has no address on any interface that is up."""
    asked = next(((text, found) for text in texts if (found := _SET.search(text.text))), None)
    if asked is None or not any(_OF_NCCL.search(seen.fact) for seen in finding.evidence):
        return None
    text, found = asked
    six = found["family"] == "AF_INET6"
    rows = [(each, row) for each in texts for row in _UP.finditer(each.text)]
    if any(_has(row["rest"], six=six) for _, row in rows):
        return None
    off = next(((each, row) for each in texts if (row := _NONE_OF_6.search(each.text))), None) if six else None
    # A name that no interface has says the same: then that may be the cause.
    if not rows and off is None and facts.value("NCCL_SOCKET_IFNAME"):
        return None
    mine, other = ("IPv6", "IPv4") if six else ("IPv4", "IPv6")
    what = f": {named(rows[0][1]['name'].partition('@')[0], 30)} has an {other} address alone" if rows else ""
    shown = [each.evidence(row.start()) for each, row in (*rows[:1], *([off] if off else []))]
    return Sharper(
        f"NCCL_SOCKET_FAMILY={found['family']} takes {mine} addresses alone, and no interface has one{what}",
        f"unset NCCL_SOCKET_FAMILY where the job gets it (pod, script, /etc/nccl.conf), or give the interfaces {mine} "
        "addresses. NCCL_SOCKET_IFNAME does not help",
        (text.evidence(found.start()), *shown),
    )


def _has(addresses: str, *, six: bool) -> bool:
    """Whether one of the addresses is of that family; link-local ones of IPv6 are skipped by NCCL where others are."""
    return any((":" in each) is six for each in addresses.split())
