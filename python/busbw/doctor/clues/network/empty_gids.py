"""A clue of a GID that is empty: the index that all NICs take holds an address on the others, and none on this one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.network.gids import GIDS
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.prompts import host_before
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
_ZERO = re.compile(
    r"^\s{0,8}(?:GID\[\s{0,3}|\S{1,60}/gids/)?(?P<index>\d{1,3})\]?\s{0,3}:?\s{1,8}(?:0000:){7}0000\b|"
    r"^\S{0,40}/infiniband/[\w-]{2,30}/ports/\d{1,2}/gids/(?P<path>\d{1,3}):(?:0000:){7}0000\b",
    re.MULTILINE,
)
"""An entry of the GID table without any address, as the kernel lists it."""
_FULL = re.compile(
    r"^\s{0,8}(?:\S{1,60}/gids/)?(?P<index>\d{1,3})\s{0,3}:?\s{0,8}(?:0000:){5}ffff:"
    r"(?P<a>[0-9a-f]{2})(?P<b>[0-9a-f]{2}):(?P<c>[0-9a-f]{2})(?P<d>[0-9a-f]{2})\b",
    re.MULTILINE,
)
"""One with an IPv4 address."""
_TAKEN = re.compile(r"\bNCCL_IB_GID_INDEX(?:=| set by environment to )[\"']?(?P<index>\d{1,3})\b")
_DEVICE = re.compile(r"/sys/class/infiniband/(?P<dev>[\w-]{2,30})/ports/|\[0\](?P<used>[\w-]{2,30}):\d{1,2}/RoCE")
_HELD = re.compile(
    r"^(?P<name>[a-z][\w.-]{1,20})(?:@\S{1,20})?\s{1,20}UP\s{1,20}(?P<ip>\d{1,3}(?:\.\d{1,3}){3}/\d{1,2})", re.MULTILINE
)
_OF_INTERFACE = re.compile(r"\bv[12][ \t]{1,12}(?P<name>[a-z][\w.-]{1,20})[ \t]*$")


def gid_is_empty(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The GID at the index that NCCL takes is ::, so that the NIC's interface has no address for it."""
    empty = next(((text, found) for text in texts if (found := _EMPTY.search(text.text))), None)
    if empty is None:
        return _empty_on_one(texts)
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


def _empty_on_one(texts: Sequence[Text]) -> Sharper | None:
    """The entry at one index has an IPv4 address on one host, and none on another."""
    taken = {found["index"] for text in texts for found in _TAKEN.finditer(text.text)}
    full = {
        (found["index"], host_before(text, found.start())): found
        for text in texts
        for found in _FULL.finditer(text.text)
    }
    for text in texts:
        for found in _ZERO.finditer(text.text):
            index, host = found["index"] or found["path"], host_before(text, found.start())
            well = next((other for at, other in full if at == index and other != host), "")
            # Entries behind the last one of a table are empty everywhere.
            if not (host and well) or (taken and index not in taken) or (index, host) in full:
                continue
            row = next((row for each in texts if (row := _DEVICE.search(each.text))), None)
            device = named(row["dev"] or row["used"], 30) if row else ""
            return _without_address(text, found, (index, device), (host, well))
    return _missing_on_one(texts)


def _missing_on_one(texts: Sequence[Text]) -> Sharper | None:
    """`show_gids` lists an IPv4 address of a device on one host, and link-local ones alone on another."""
    rows: dict[str, dict[str, list[tuple[Text, re.Match[str]]]]] = {}
    for text in texts:
        for found in GIDS.finditer(text.text):
            host = host_before(text, found.start())
            rows.setdefault(found["dev"], {}).setdefault(host, []).append((text, found))
    for device, hosts in rows.items():
        well = next(
            (
                (row["index"], host)
                for host, each in hosts.items()
                for _, row in each
                if host and row["ip"] and row["kind"] == "v2"
            ),
            None,
        )
        bare = next((host for host, each in hosts.items() if host and not any(row["ip"] for _, row in each)), "")
        if well is None or not bare or not all(row["gid"].startswith("fe80") for _, row in hosts[bare]):
            continue
        text, found = hosts[bare][0]
        return _without_address(text, found, (well[0], named(device, 30)), (bare, well[1]))
    return None


def _without_address(text: Text, found: re.Match[str], at: tuple[str, str], hosts: tuple[str, str]) -> Sharper:
    (index, device), (host, well) = at, hosts
    bare = [row for row in _WITHOUT.finditer(text.text) if host_before(text, row.start()) == host]
    held = {row["name"]: row for row in _HELD.finditer(text.text) if host_before(text, row.start()) == well}
    # Which of several is the NIC's is told by the other host, where it has an address.
    row = next((each for each in bare if each["name"] in held), bare[0] if len(bare) == 1 else None)
    name = named(row["name"] if row else _interface(text, found), 30)
    there = f" ({named(well, 40)} has {held[row['name']]['ip']} there)" if row and row["name"] in held else ""
    why = f"its interface {name} has no IPv4 address" if name else "its interface has no IPv4 address"
    of = f" of {device}" if device else ""
    return Sharper(
        f"GID index {index}{of} on {named(host, 40)} is empty: {why}{there}",
        f"give {name or 'the interface of that NIC'} on {named(host, 40)} its IPv4 address again, and for good "
        "(netplan, NetworkManager, DHCP): the entries of RoCE v2 with an IPv4 address then come back by themselves "
        "(show_gids). The index is right: another one for all nodes only hides it. Driver, firmware and switch need no "
        "repair",
        (text.evidence(found.start()), *((text.evidence(row.start()),) if row else ())),
    )


def _interface(text: Text, row: re.Match[str]) -> str:
    """The interface that a row of show_gids names at its end."""
    end = text.text.find("\n", row.end())
    found = _OF_INTERFACE.search(text.text, row.start(), end if end >= 0 else len(text.text))
    return found["name"] if found else ""
