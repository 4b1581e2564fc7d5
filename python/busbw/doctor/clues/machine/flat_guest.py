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
_GUEST = re.compile(
    r"systemd-detect-virt[^\n]{0,20}\n(?P<virt>kvm|qemu|vmware|microsoft|xen|oracle|amazon|google)\b"
    r"|Hypervisor vendor:\s{1,20}(?P<vendor>\w{2,20})|Virtualization type:\s{1,20}(?P<type>full)\b"
    r"|\b(?P<said>[Ii]n(?:side)? (?:the|a|our) (?:VM|guest|virtual machine))\b"
)
_CHANNELS = re.compile(r"Pattern \d{1,2}, crossNic \d, nChannels (?P<n>\d{1,3}), (?:bw|speed) (?P<bw>\d{1,4}\.\d)")
_FEWEST = 4


def flat_in_guest(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """NCCL's topology has all GPUs and NICs below one processor, with no switch: a board of so many has some."""
    if facts.value("NCCL_TOPO_FILE"):
        return None
    for text in texts:
        seen = list(_DEVICE.finditer(text.text))
        gpus = {each["bus"] for each in seen if each["kind"] == "GPU"}
        nics = {each["bus"] for each in seen if each["kind"] == "NIC"}
        flat = all(each["kind"] != "PCI" and each["deep"] == " " for each in seen)
        if not flat or len(gpus) < _FEWEST or len(nics) < _FEWEST:
            continue
        guest = _GUEST.search(text.text)
        who = next((each for each in guest.groups()[:2] if each), "") if guest else ""
        channels = _CHANNELS.search(text.text)
        many = "s" if channels and channels["n"] != "1" else ""
        rings = f" and finds {channels['n']} channel{many} of {channels['bw']} GB/s" if channels else ""
        return Sharper(
            f"the virtual machine{f' ({named(who, 20)})' if who else ''} hides the PCIe switches: {len(gpus)} GPUs and "
            f"{len(nics)} NICs lie flat below the processor. NCCL leaves GPU Direct RDMA off by distance{rings}",
            "give NCCL the real topology on every node: NCCL_TOPO_FILE with the provider's file of this VM size, or "
            "one that `busbw topo --audit` writes. Or have the hypervisor show PCIe switches and NUMA nodes. "
            "NCCL_NET_GDR_LEVEL=SYS helps until then. Slots, NICs and nvidia_peermem are not it",
            tuple(text.evidence(each.start()) for each in (guest, seen[0], channels) if each is not None),
        )
    return None
