"""Clue of packets that a kernel drops since it would answer by another interface: martian sources."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_MARTIAN = re.compile(rf"\bmartian source (?P<to>{_IP}) from (?P<from>{_IP}), on dev (?P<dev>[\w.-]{{2,15}})")
_ANY = re.compile(rf"(?<![\d.]){_IP}(?![\d.])")


def martian_sources(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A host's kernel says that it drops packets of a peer, or to it: they come in by an interface of another net."""
    lost = {ip for seen in finding.evidence for ip in _ANY.findall(seen.fact)}
    for text in texts:
        for found in _MARTIAN.finditer(text.text):
            if lost and not lost & {found["from"], found["to"]}:
                continue
            dev = named(found["dev"], 20)
            return Sharper(
                f"{finding.title}; a kernel drops packets of {found['from']} that come in by {dev}, as it would answer "
                "by another interface (martian source)",
                f"on all hosts net.ipv4.conf.all.rp_filter=2 and the same of {dev}, arp_ignore=1, arp_announce=2. Each "
                "rail in a subnet of its own, the same on all hosts, or a rule for each address (ip rule add from "
                "ADDRESS table N). Cables and switches need nothing",
                (text.evidence(found.start()),),
            )
    return None
