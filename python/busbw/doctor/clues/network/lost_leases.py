"""Clue of an interface that lost its address while ranks used it: a lease of DHCP that was not renewed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_LOST = re.compile(
    r"\bdevice \((?P<nm>[\w.-]{2,15})\): state change: activated -> failed \(reason 'ip-config-(?:expired|unavailable)'"
    r"|\b(?P<networkd>[A-Za-z][\w.-]{1,14}): (?:DHCP(?:v4)? (?:lease lost|connection timed out)|Lost DHCP lease)\b"
)


def lost_lease(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The service of networks says that an interface lost its address, and with it its entry of RoCE (GID)."""
    for text in texts:
        if found := _LOST.search(text.text):
            name = named(found["nm"] or found["networkd"], 20)
            return Sharper(
                f"{finding.title}; {name} lost its IP address, as its DHCP lease was not renewed, and with it the GID "
                "that RoCE connections used",
                f"give {name} a fixed address on all hosts (ranks' networks need no DHCP), or mend the DHCP server and "
                "its reservations (journalctl -u NetworkManager). Then start the job anew; cables, "
                "switches and NCCL's timeouts need nothing",
                (text.evidence(found.start()),),
            )
    return None
