"""Clues of GPU Direct RDMA that is off by distance: a guest shows its devices without the switches above them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_DEVICE = re.compile(
    r"NCCL INFO(?P<deep>\s{1,40})\+ PCI\[[\d.]{1,8}\] - (?P<kind>GPU|NIC|PCI)/(?P<bus>[0-9a-f-]{1,20})"
)
_WAYS = re.compile(r"NCCL INFO GPU/[0-9a-f-]{1,20} ?:(?P<ways>[^\n]{40,4000})")
_RING = re.compile(r"NCCL INFO {1,4}\d{1,2} : NET/[\d-]{1,8}(?P<gpus>(?: GPU/[0-9a-f-]{1,20}){2,72}) NET/")
_GPU, _NET = re.compile(r"GPU/([0-9a-f-]{1,20})"), re.compile(r"NET/([\d-]{1,8}) \(\d{1,2}/[\d.]{1,9}/(\w{3,4})\)")
"""How NCCL names GPUs and NICs in a table of ways, the NICs with how far they are."""
_GUEST = re.compile(
    r"systemd-detect-virt[^\n]{0,20}\n(?P<virt>kvm|qemu|vmware|microsoft|xen|oracle|amazon|google)\b"
    r"|Hypervisor vendor:\s{1,20}(?P<vendor>\w{2,20})|Virtualization type:\s{1,20}(?P<type>full)\b"
    r"|\b(?P<said>[Ii]n(?:side)? (?:the|a|our) (?:VM|guest|virtual machine))\b"
)
_CHANNELS = re.compile(r"Pattern \d{1,2}, crossNic \d, nChannels (?P<n>\d{1,3}), (?:bw|speed) (?P<bw>\d{1,4}\.\d)")
_FEWEST = 4
_AS_FAR = frozenset({"PHB"})
_USED = re.compile(r" via NET/\w{2,8}/(?P<nic>\d{1,3})\b")


def flat_in_guest(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL's topology has all GPUs and NICs below one processor, with no switch: a board of so many has some."""
    if facts.value("NCCL_TOPO_FILE"):
        return None
    for text in texts:
        seen = list(_DEVICE.finditer(text.text))
        gpus = {each["bus"] for each in seen if each["kind"] == "GPU"}
        nics = {each["bus"] for each in seen if each["kind"] == "NIC"}
        flat = bool(seen) and all(each["kind"] != "PCI" and each["deep"] == " " for each in seen)
        # A paste may leave rows of the tree out, and hold all devices in a table of ways.
        more, ways = _by_ways(text.text)
        gpus, nics = max(gpus, more, key=len), max(nics, set(ways), key=len)
        flat = flat and set(ways.values()) <= _AS_FAR
        if not flat or len(gpus) < _FEWEST or len(nics) < _FEWEST:
            continue
        guest = _GUEST.search(text.text)
        who = next((each for each in guest.groups()[:2] if each), "") if guest else ""
        channels = _CHANNELS.search(text.text)
        many = "s" if channels and channels["n"] != "1" else ""
        rings = f" and finds {channels['n']} channel{many} of {channels['bw']} GB/s" if channels else ""
        used = {each["nic"] for each in _USED.finditer(text.text)}
        # A paste may leave channels out: their number tells that there are no more.
        few = channels is not None and 0 < len(used) <= int(channels["n"]) < len(nics)
        rings += f", so that {len(used)} of {len(nics)} NICs carry anything" if few else ""
        return Sharper(
            f"the virtual machine{f' ({named(who, 20)})' if who else ''} hides the PCIe switches: {len(gpus)} GPUs and "
            f"{len(nics)} NICs lie flat below the processor. NCCL leaves GPU Direct RDMA off by distance{rings}",
            "give NCCL the real topology on every node: NCCL_TOPO_FILE with the provider's file of this VM size, or "
            "one that `busbw topo --audit` writes. Or have the hypervisor show PCIe switches and NUMA nodes. "
            "NCCL_NET_GDR_LEVEL=SYS helps until then. Slots, NICs and nvidia_peermem are not it",
            tuple(text.evidence(each.start()) for each in (guest, seen[0], channels) if each is not None),
        )
    return None


def _by_ways(text: str) -> tuple[set[str], dict[str, str]]:
    """The GPUs that tables of ways and rings name, and the NICs with how far they are from each of them."""
    gpus, nics = set[str](), dict[str, str]()
    for line in _WAYS.finditer(text):
        gpus |= set(_GPU.findall(line["ways"]))
        for nic, far in _NET.findall(line["ways"]):
            nics[nic] = far if nics.get(nic, "PHB") in _AS_FAR else nics[nic]
    for ring in _RING.finditer(text):
        gpus |= set(_GPU.findall(ring["gpus"]))
    return gpus, nics
