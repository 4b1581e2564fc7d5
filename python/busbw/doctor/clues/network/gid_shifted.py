"""Clues of one GID index for all hosts: on one port another interface has taken its place in the table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.doctor.clues.network.gids import GIDS, program_of
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.prompts import host_before
from busbw.doctor.shown_texts import Text, named

_GIVEN = re.compile(r"\bNCCL_IB_GID_INDEX['\"]?(?:=|: ?|, ?| set by environment to )['\"]?(?P<index>\d{1,3})\b")
_INTERFACE = re.compile(r"[ \t]{1,8}(?P<name>[A-Za-z][\w.@-]{1,20})[ \t]{0,4}(?:\n|$)")
_MOST = 2000
"""Rows that are looked at: a host with many virtual functions lists thousands."""


@dataclass(frozen=True, slots=True)
class _Row:
    """An entry of a port's table: `net` is the network of its address, "" where it is of IPv6."""

    index: str
    ip: str
    net: str
    v2: bool
    interface: str
    gid: str
    seen: Evidence


_Ports = dict[tuple[str, str], dict[str, _Row]]


def gid_shifted(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The index that is set leads to the peers on most ports, and on one it is of no network that they share."""
    given = {found["index"] for text in texts for found in _GIVEN.finditer(text.text)}
    if program_of(finding) or len(given) != 1:
        return None
    taken = given.pop()
    ports = _ports(texts)
    nets = {port: rows[taken].net for port, rows in ports.items() if taken in rows and rows[taken].v2}
    for (host, device), rows in ports.items():
        mine = rows.get(taken)
        shared = {net for (other, _), net in nets.items() if other != host and net}
        right = next((row for row in rows.values() if row.v2 and row.net in shared), None)
        if right is None or (mine is not None and mine.v2 and mine.net in shared):
            continue
        peer = next(ports[port][taken] for port, net in nets.items() if net == right.net and port[0] != host)
        what = _kind(mine) if mine is not None else "missing"
        where = f" on {named(host, 40)}" if host else ""
        return Sharper(
            f"NCCL_IB_GID_INDEX={taken} is the wrong entry of {named(device)}{where}: {what} there. Its address in the "
            f"peers' network, {named(right.ip)}, has index {right.index}",
            _cure(taken, right, mine),
            tuple(each.seen for each in (mine, right, peer) if each is not None),
        )
    return None


def _kind(row: _Row) -> str:
    of = f" of {named(row.interface)}" if row.interface else ""
    if not row.net:
        kind = "link-local" if row.gid.startswith("fe80") else f"an address of IPv6 ({named(row.gid)})"
        return f"{kind}{of}"
    return f"RoCE v1{of}" if not row.v2 else f"{named(row.ip)}{of}, of another network"


def _cure(taken: str, right: _Row, mine: _Row | None) -> str:
    extra = mine.interface if mine is not None and mine.interface != right.interface else ""
    remove = (
        f"Or remove the extra interface ({named(extra)}) that moved the table, if nothing needs it. " if extra else ""
    )
    return (
        "take NCCL 2.21 or newer and unset NCCL_IB_GID_INDEX, so that NCCL looks for the entry of RoCE v2 on each "
        f"port. Or set it by host in /etc/nccl.conf, where all ports of the host agree ({right.index} here, {taken} "
        f"elsewhere). {remove}show_gids on all hosts shows when the tables agree. Cables and switches need no repair"
    )


def _ports(texts: Sequence[Text]) -> _Ports:
    """The tables of all ports, by host and device."""
    ports: _Ports = {}
    for count, (text, found) in enumerate(_rows(texts)):
        if count >= _MOST:
            break
        name = _INTERFACE.match(text.text, found.end())
        ip = found["ip"] or ""
        row = _Row(
            found["index"], ip, ip.rpartition(".")[0], found["kind"] == "v2", name["name"] if name else "",
            found["gid"], text.evidence(found.start()),
        )  # fmt: skip
        ports.setdefault((host_before(text, found.start()), found["dev"]), {}).setdefault(row.index, row)
    return ports


def _rows(texts: Sequence[Text]) -> Iterator[tuple[Text, re.Match[str]]]:
    for text in texts:
        for found in GIDS.finditer(text.text):
            yield text, found
