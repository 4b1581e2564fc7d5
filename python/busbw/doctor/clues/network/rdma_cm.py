"""A clue of connections by rdma_cm: the address that was given belongs to no RDMA interface."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_UNRESOLVED = re.compile(r"Received \d{1,4} times ADDR_ERROR|RDMA_CM_EVENT_ADDR_ERROR|rdma_resolve_addr\b[^\n]{0,60}")
_ROUTE = re.compile(r"Received \d{1,4} times ROUTE_ERROR|RDMA_CM_EVENT_ROUTE_ERROR")
_BARE = re.compile(
    r"^(?P<brief>ib\w{1,12})(?:@\S{1,12})?[ \t]{1,20}(?:UP|DOWN|UNKNOWN)[ \t]{0,20}"
    r"(?:fe80:\S{4,60}[ \t]{0,8})?$"
    r"|^\d{1,3}: (?P<long>ib\w{1,12}): <(?![^\n]*\n\s{1,12}(?:link|altname)[^\n]*\n\s{1,12}inet )[^\n]{0,200}$",
    re.MULTILINE,
)
"""An interface of IPoIB in `ip -br addr` or `ip addr` that has no IPv4 address."""
_TARGET = re.compile(
    rf"\$? ?\bib_\w{{3,20}} (?:[^\n]{{0,100}} )?-R\b"
    rf"(?:[^\n]{{0,100}} )?(?P<host>[A-Za-z][\w.-]{{1,60}}|{_IP})\s{{0,4}}$",
    re.MULTILINE,
)


def without_rdma_address(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """rdma_cm (perftest -R, rping, NVMe and NFS over RDMA) looks for the device by the IP address, and finds none."""
    said = (Text("", "\n".join(seen.fact for seen in finding.evidence)), *texts)
    hit = next(((text, found) for text in said if (found := _UNRESOLVED.search(text.text))), None)
    if hit is None or any(_ROUTE.search(text.text) for text in said):
        return None
    bare = next(((text, found) for text in texts if (found := _BARE.search(text.text))), None)
    target = next((found for text in texts if (found := _TARGET.search(text.text))), None)
    host = named(target["host"], 40) if target else ""
    ip = _address_of(host, texts)
    of_host = f" ({host}{f' is {ip}' if ip else ''})" if host else ""
    device = named(bare[1]["brief"] or bare[1]["long"], 20) if bare else ""
    lacks = f": {device} has no IPv4 address" if bare else ": no address of an RDMA interface leads there"
    give = f"give {device} an address (IPoIB) on both nodes" if bare else "give the RDMA interfaces addresses (IPoIB)"
    return Sharper(
        f"rdma_cm finds no RDMA device for the address that it was given{of_host}{lacks}",
        f"{give}: ip addr add 10.1.0.2/24 dev {device or 'ib0'}, each node its own. Then name the server by that "
        "address, not by its Ethernet name (ib_write_bw -R 10.1.0.1). Without -R perftest only exchanges data over "
        "Ethernet, so that it works. RoCE needs an address on the NIC's own interface. Port and cable are right",
        ((bare[0].evidence(bare[1].start()),) if bare else ()),
    )


def _address_of(host: str, texts: Sequence[Text]) -> str:
    """The address of a host, as getent or /etc/hosts tells it."""
    if not host or re.fullmatch(_IP, host):
        return ""
    words = re.compile(
        rf"^\s{{0,4}}(?P<ip>{_IP})\s{{1,20}}(?:\S{{1,60}}\s{{1,8}}){{0,3}}{re.escape(host)}\b", re.MULTILINE
    )
    return next((found["ip"] for text in texts if (found := words.search(text.text))), "")
