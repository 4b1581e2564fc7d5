"""A clue of NCCL's InfiniBand whose side channel has no address: NET/IB's line ends in an empty OOB."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_EMPTY = re.compile(r"NCCL INFO NET/IB : Using (?P<list>[^\n]{0,3000}?);? ?OOB :?(?:<\d{1,5}>)?[ \t]*$", re.MULTILINE)
_FAMILY = re.compile(r"Address family not supported by protocol")
_SOCKETS = re.compile(r"NET/Socket ?: ?Using \[0\](?P<name>[\w.@-]{1,40}):")
_DEVICE = re.compile(r"\[(?P<n>\d{1,3})\](?P<name>[\w.-]{2,30}:\d{1,2})/")
_ROOM = 16
"""Devices for which NCCL had room until 2.12."""


def side_channel_without_address(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Over RDMA ranks exchange their queue pairs by a socket, and its address is empty."""
    if not any(_FAMILY.search(seen.fact) for seen in finding.evidence):
        return None
    empty = next(((text, found) for text in texts if (found := _EMPTY.search(text.text))), None)
    if empty is None:
        return None
    text, found = empty
    devices = {each["name"] for each in _DEVICE.finditer(found["list"])}
    many = len(devices) > _ROOM
    lists = f"; it lists {len(devices)} devices, and old releases have room for {_ROOM}" if many else ""
    sockets = next((row["name"] for each in texts if (row := _SOCKETS.search(each.text))), "")
    name = named(sockets, 30) or "eth0"
    few = (
        "name the few real ports in NCCL_IB_HCA (mlx5_0,mlx5_1: not the virtual functions), and "
        if many
        else "name the real ports in NCCL_IB_HCA, and "
    )
    return Sharper(
        f"NCCL's InfiniBand has no address for its side channel (`OOB :` is empty), so ranks cannot open the socket by "
        f"which RDMA connections are made{lists}",
        f"{few}NCCL_SOCKET_IFNAME={name}, alike on all nodes. Or take a newer NCCL. NCCL_IB_DISABLE=1 shows in one run "
        "that all else works. GPUs, P2P and the interfaces for sockets are not at fault",
        (text.evidence(found.start()),),
    )
