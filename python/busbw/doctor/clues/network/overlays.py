"""Clues of networks of pods: packets that carry them from node to node (VXLAN, Geneve) leave one and never arrive."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_SENT = re.compile(
    r"\bIP (?P<from>\d{1,3}(?:\.\d{1,3}){3})\.\d{1,5} > (?P<to>\d{1,3}(?:\.\d{1,3}){3})\.(?P<port>4789|8472|6081)\b: "
    r"[^\n]{0,40}?(?P<kind>VXLAN|OTV|Geneve|UDP)"
)
"""A packet as tcpdump prints it; port 8472, which flannel and Cilium take, it knows as OTV."""
_SILENT = re.compile(
    r"\btcpdump\b[^\n]{0,200}\bport (?P<port>4789|8472|6081|vxlan|geneve)\b[^\n]{0,200}\n"
    r"(?:(?![^\n]{0,200}[$#>] ?\S|IP |[\d:.]{8,15} )[^\n]{0,200}\n){0,6}?(?P<none>0 packets captured)"
)
_RULE = re.compile(r"^(?P<proto>tcp|udp|icmp|-1|all)[ \t]{1,20}-?\d{1,5}[ \t]{1,20}-?\d{1,5}[ \t]", re.MULTILINE)
"""A rule of a security group, as `aws --output text` prints protocol and ports."""
_KINDS = {"4789": "VXLAN", "8472": "VXLAN", "6081": "Geneve"}


def overlay_dropped(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """One tcpdump shows such packets going out, and another one none."""
    sent = next(((text, found) for text in texts for found in _SENT.finditer(text.text)), None)
    if sent is None:
        return None
    port = sent[1]["port"]
    silent = next(
        ((text, found) for text in texts for found in _SILENT.finditer(text.text)
         if found["port"] in (port, _KINDS[port].lower())), None,
    )  # fmt: skip
    if silent is None:
        return None
    back = any(
        (found["from"], found["to"]) == (sent[1]["to"], sent[1]["from"])
        for text in texts
        for found in _SENT.finditer(text.text)
    )
    if back:
        return None  # the other node sends as well, so that the silence is of another place
    rules = [(text, found) for text in texts for found in _RULE.finditer(text.text)]
    closed = bool(rules) and not any(found["proto"] in ("udp", "-1", "all") for _, found in rules)
    why = ". The security group lets TCP through, and no UDP" if closed and _has_tcp(rules) else ""
    kind = f"{_KINDS[port]} (UDP {port})"
    return Sharper(
        f"pods of different nodes cannot reach each other: packets of the overlay network, {kind}, leave "
        f"{sent[1]['from']} and never arrive at {sent[1]['to']}{why}",
        f"let UDP {port} through between the nodes: in the cloud's security group from the group itself (or all its "
        "traffic), and in the hosts' firewalls. Open TCP ports do not help, as pods' packets travel inside of UDP. "
        "Addresses, DNS and settings of the job need no change",
        (
            sent[0].evidence(sent[1].start()),
            silent[0].evidence(silent[1].start("none")),
            *([rules[0][0].evidence(rules[0][1].start())] if why else []),
        ),
    )


def _has_tcp(rules: Sequence[tuple[Text, re.Match[str]]]) -> bool:
    return any(found["proto"] == "tcp" for _, found in rules)
