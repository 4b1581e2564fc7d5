"""A clue of a GID that is empty: the index that all NICs take holds an address on the others, and none on this one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.network.gids import GIDS
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_EMPTY = re.compile(
    r"\b(?P<host>[A-Za-z][\w.-]{0,60}):\d{1,8}:\d{1,8} \[\d{1,3}\][^\n]{0,160}\bon dev (?P<dev>[\w-]{2,30}):\d{1,2},"
    r"[^\n]{0,60}local GID index (?P<index>\d{1,3}), local GID ::, remote GID ::ffff:"
)
"""NCCL's own words of a queue pair whose own end has no address."""
_WITHOUT = re.compile(
    r"^(?P<name>(?!lo\b|docker|veth|br-|cni|virbr)[a-z][\w.-]{1,20})(?:@\S{1,20})?\s{1,20}UP"
    r"(?:[ \t]{1,20}fe80:[0-9a-f:]{2,40}/\d{1,3})?[ \t]*$",
    re.MULTILINE,
)
"""A row of `ip -br addr` of an interface that is up, and has a link-local address or none."""
_OF_INTERFACE = re.compile(r"\bv[12][ \t]{1,12}(?P<name>[a-z][\w.-]{1,20})[ \t]*$")


def gid_is_empty(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The GID at the index that NCCL takes is ::, so that the NIC's interface has no address for it."""
    empty = next(((text, found) for text in texts if (found := _EMPTY.search(text.text))), None)
    if empty is None:
        return None
    text, found = empty
    device, host = named(found["dev"], 30), named(found["host"], 40)
    told = {_interface(each, row) for each in texts for row in GIDS.finditer(each.text) if row["dev"] != found["dev"]}
    bare = [(each, row) for each in texts for row in _WITHOUT.finditer(each.text) if row["name"] not in told]
    names = {row["name"] for _, row in bare}
    name = named(bare[0][1]["name"], 30) if len(names) == 1 else ""
    why = f"its interface {name} has no IPv4 address" if name else "its interface has no IPv4 address there"
    seen = [text.evidence(found.start()), *(each.evidence(row.start()) for each, row in bare[:1] if name)]
    return Sharper(
        f"GID index {found['index']} of {device} on {host} is empty (local GID ::): {why}",
        f"give {name or 'the interface of that NIC'} its IPv4 address on {host} (in Kubernetes by its "
        "NetworkAttachmentDefinition), and start the job anew. Then show_gids lists "
        f"{device} with index {found['index']} as RoCE v2 with an IPv4 address. Until then leave it out on all nodes: "
        f"NCCL_IB_HCA=^{device}. The device and its port are right",
        tuple(seen),
    )


def _interface(text: Text, row: re.Match[str]) -> str:
    """The interface that a row of show_gids names at its end."""
    end = text.text.find("\n", row.end())
    found = _OF_INTERFACE.search(text.text, row.start(), end if end >= 0 else len(text.text))
    return found["name"] if found else ""
