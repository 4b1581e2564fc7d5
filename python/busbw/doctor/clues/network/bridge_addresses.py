"""A clue of MPI's ranks that are refused at an address of a bridge, which every host has for itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_ASKED = re.compile(rf"\bconnect\(\) to (?P<ip>{_IP})(?::\d{{1,5}})? failed")
"""How Open MPI's TCP transport says it, in its box and in the line of btl_tcp_endpoint.c."""
_ADDRESS = re.compile(
    rf"^\s{{0,4}}\d{{1,3}}: (?P<oneline>[a-z][\w.-]{{0,20}})(?:@\S{{1,20}})?\s{{1,20}}inet (?P<a>{_IP})/\d"
    rf"|^(?P<brief>[a-z][\w.-]{{0,20}})(?:@\S{{1,20}})?\s{{1,20}}(?:UP|UNKNOWN|DOWN)\s{{1,20}}(?P<b>{_IP})/\d"
    rf"|^\s{{1,12}}inet (?P<c>{_IP})/\d{{1,2}} [^\n]{{0,80}}\bscope global (?:\w{{2,14}} ){{0,3}}"
    r"(?P<long>[a-z][\w.-]{0,20})$",
    re.MULTILINE,
)
"""A row of `ip -o addr`, `ip -br addr` or `ip addr`."""
_BRIDGE = re.compile(r"(?:virbr|docker|lxcbr|lxdbr|podman|vmnet|vboxnet)\w{0,12}$|br-[0-9a-f]{12}$")
_OWN = re.compile(r"lo$|veth|tun|tap|wg|usb|enx|idrac")
"""Interfaces that no other host reaches."""
_BY_HABIT = (
    (re.compile(r"192\.168\.122\.1$"), "virbr0"),
    (re.compile(r"172\.17\.0\.1$"), "docker0"),
)
_WARNS = re.compile(r"no active ports detected|openib BTL will be")


def over_a_bridge(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The address that MPI calls is of a bridge within the host: list of addresses, or the one by habit, tells so."""
    asked = next(((text, found) for text in texts if (found := _ASKED.search(text.text))), None)
    if asked is None:
        return None
    text, found = asked
    rows = [row for each in texts for row in _rows(each)]
    own = next((row for row in rows if row[1] == found["ip"] and _BRIDGE.match(row[0])), None)
    name = own[0] if own else next((bridge for words, bridge in _BY_HABIT if words.match(found["ip"])), "")
    if not name:
        return None
    better = next((row[0] for row in rows if not _BRIDGE.match(row[0]) and not _OWN.match(row[0])), "")
    chosen = named(better, 30) or "10.0.0.0/8 (the network that the hosts share)"
    unused = next(((each, row) for each in texts if (row := _WARNS.search(each.text))), None)
    box = (
        " The box on OpenFabrics tells only that InfiniBand is not used, as no port of it is active." if unused else ""
    )
    removes = " Where no guests need it: virsh net-destroy default." if name.startswith("virbr") else ""
    seen = [text.evidence(found.start())]
    if own:
        seen.append(own[2].evidence(own[3]))
    return Sharper(
        f"MPI's ranks connect over {named(name, 30)} ({found['ip']}), a bridge with that address on every host: "
        "each calls its own host, not the peer",
        f"mpirun --mca btl_tcp_if_include {chosen}, and oob_tcp_if_include alike (PRRTE: prte_if_include). Or leave it "
        f"out: btl_tcp_if_exclude lo,{named(name, 30)}.{removes} NCCL_SOCKET_IFNAME serves NCCL alone.{box}",
        tuple(seen),
    )


def _rows(text: Text) -> Iterator[tuple[str, str, Text, int]]:
    """Interface and address of each row, and where it stands."""
    for row in _ADDRESS.finditer(text.text):
        name = row["oneline"] or row["brief"] or row["long"]
        yield name, row["a"] or row["b"] or row["c"], text, row.start()
