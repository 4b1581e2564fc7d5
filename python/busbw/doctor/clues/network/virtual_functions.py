"""Clues of virtual functions of InfiniBand NICs: without GUIDs, or with their link switched off, they stay Down."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_NO_GUID = re.compile(
    r"^\s{0,24}(?:Node GUID|node_guid):\s{1,12}(?:0x0{16}|0{4}(?::0{4}){3})\s*$"
    r"|^(?P<file>\S{0,80}node_guid\S{0,4}:\s{0,4})?0000:0000:0000:0000\s*$",
    re.MULTILINE,
)
_CA = re.compile(r"^(?:CA '|\s{0,8}hca_id:\s{1,8})(?P<dev>\w{3,20})", re.MULTILINE)
_VF = re.compile(
    r"^\s{1,12}vf (?P<vf>\d{1,3}) [^\n]{0,400}?NODE_GUID (?P<guid>[0-9a-f:]{23})[^\n]{0,80}?"
    r"link-state (?P<state>disable|auto|enable)\b",
    re.MULTILINE,
)
_INTERFACE = re.compile(r"^\d{1,4}: (?P<name>[a-z][\w.-]{1,20}?)(?:@\S{1,20})?: <", re.MULTILINE)
_ZERO = "00:00:00:00:00:00:00:00"


def function_without_guid(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The port that is down is a virtual function's, which has no GUID or whose link the host keeps off."""
    bare = next(((text, found) for text in texts if (found := _NO_GUID.search(text.text))), None)
    rows = [(text, row) for text in texts for row in _VF.finditer(text.text)]
    ill = [(text, row) for text, row in rows if row["guid"] == _ZERO or row["state"] == "disable"]
    if bare is None and not ill:
        return None
    if bare is not None and rows and not ill:
        return None  # the host's list has GUIDs: they came later
    device = ""
    if bare is not None:
        known = [each["dev"] for each in _CA.finditer(bare[0].text, 0, bare[1].start())]
        device = f" ({named(known[-1])})" if known else ""
    pf, why = "PF", ["has no GUID"] if bare or any(row["guid"] == _ZERO for _, row in ill) else []
    if ill:
        text, row = ill[0]
        above = list(_INTERFACE.finditer(text.text, 0, row.start()))
        pf = above[-1]["name"] if above else pf
        if row["state"] == "disable":
            why.append(f"the host keeps its link off (link-state disable, vf {row['vf']} of {named(pf)})")
    seen = [each[0].evidence(each[1].start()) for each in ([bare] if bare else []) + ill[:1]]
    return Sharper(
        f"the virtual function{device} of the InfiniBand NIC {' and '.join(why)}, so that its port stays Down",
        f"on the host, for each of its functions: ip link set {named(pf)} vf N node_guid G, port_guid G and state auto "
        "(G other for each). Then unbind and bind the function. In Kubernetes: linkState auto or enable in the "
        "SriovIBNetwork, and ib-kubernetes, which gives the GUIDs. Cable, port and subnet manager are not at fault",
        tuple(seen),
    )
