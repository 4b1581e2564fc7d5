"""A clue of torchrun: the first agent tells the others its host's own name, which they cannot resolve."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_RESULT = re.compile(
    r"^\s{0,8}(?:\[\w{1,20}\]:)?\s{0,4}master_addr ?= ?(?P<name>[A-Za-z][\w.-]{1,100})\s*$", re.MULTILINE
)
"""What each agent prints of the rendezvous that is complete."""
_ENDPOINT = re.compile(
    rf"\brdzv_endpoint\s{{0,12}}[:=] ?(?P<a>{_IP}):\d|--rdzv[_-]endpoint[= ][\"']?(?P<b>{_IP})(?::\d|\b)"
)


def told_by_agent(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The rendezvous is complete by an address, and ranks are sent to a name that the first host has for itself."""
    said = "\n".join((finding.title, *(seen.fact for seen in finding.evidence)))
    results = [(text, found) for text in texts for found in islice(_RESULT.finditer(text.text), 64)]
    told = next(((text, found) for text, found in results if found["name"] in said), None)
    at = next(((text, found) for text in texts if (found := _ENDPOINT.search(text.text))), None)
    if told is None or at is None:
        return None
    name, address = named(told[1]["name"], 80), at[1]["a"] or at[1]["b"]
    return Sharper(
        f"torchrun's first agent tells the others its host's own name, {name}, as rank 0's address, and they cannot "
        f"resolve it. The rendezvous itself went by {address}",
        f"start each node with torchrun --local-addr=ITS_OWN_ADDRESS ({address} on the first). Or write "
        f"{address} {name} in /etc/hosts of all hosts, or start statically (--master-addr, --node-rank). With "
        "--rdzv-backend=c10d MASTER_ADDR has no effect. Firewall, IPv6 and interfaces need no change",
        (told[0].evidence(told[1].end() - 1), at[0].evidence(at[1].start())),
    )
