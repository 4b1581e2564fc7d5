"""A connection of UCX that fails on one device: which, and a name in UCX_NET_DEVICES that no device has."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_FAILED = re.compile(
    r"UCX +ERROR [^\n]{0,100}?(?:dgid=(?:::ffff:)?(?P<peer>[\da-fA-F.:]{3,45})[^\n]{0,160})?"
    r"(?:QP connect )?on (?P<device>[a-z][\w-]{1,30})(?::\d{1,2})? failed: (?P<why>[A-Za-z ]{4,60})"
)
_SET = re.compile(r"\bUCX_NET_DEVICES=[\"']?(?P<names>[\w:,.-]{1,200})")
_ODD = re.compile(r"mlx_?\d{0,3}(?:_\d{1,2})?|mlx[45]\d{1,2}|mlx[45]-\w{1,10}|mlnx\w{0,10}")
"""Names that come near those of NVIDIA's devices (mlx5_0) and are of none."""


def device_of_connection(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The device on which UCX could not connect, and whether the setting that should choose it can."""
    failed = next((found for seen in finding.evidence if (found := _FAILED.search(seen.fact))), None)
    if failed is None:
        return None
    device, peer = named(failed["device"], 30), failed["peer"]
    to = f" to {named(peer, 45)}" if peer else ""
    asked = next(((text, found) for text in texts if (found := _SET.search(text.text))), None)
    names = [each.partition(":")[0] for each in asked[1]["names"].split(",")] if asked else []
    odd = [each for each in names if _ODD.fullmatch(each)]
    elsewhere = asked is not None and device not in names and bool(odd)
    said = f". UCX_NET_DEVICES={named(odd[0], 30)} names no device: NVIDIA's are mlx5_0 and so on" if elsewhere else ""
    right = (
        "set UCX_NET_DEVICES to a device that reaches the peer, by its whole name (mlx5_0:1; ibv_devices lists them). "
        "Or to the Ethernet interface with UCX_TLS=tcp: MPI is needed for the start only. "
        if elsewhere
        else f"keep UCX off {device} (UCX_NET_DEVICES=mlx5_0:1 or the interface between the nodes with UCX_TLS=tcp), "
        "or mend its way. "
    )
    return Sharper(
        f"UCX, MPI's transport, connects over {device}, and that NIC finds no way{to} ({named(failed['why'], 40)}). "
        f"NCCL has not begun{said}",
        f"{right}On RoCE look at address, VLAN, route and ARP of {device} on both hosts (ip neigh, ping -I), and at "
        "UCX_IB_GID_INDEX. NCCL's own variables do nothing for UCX",
        ((asked[0].evidence(asked[1].start()),) if asked is not None and (elsewhere or device in names) else ()),
    )
