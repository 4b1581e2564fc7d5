"""Clues of buffers of GPUs that a NIC cannot take: the card, the NIC's driver, or the RDMA core that runs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_CONSUMER = re.compile(r"\b(?:NVIDIA )?GeForce (?:RTX|GTX) ?\d{3,4}(?: ?Ti| SUPER| D\b)?")
_WITH_RDMA = re.compile(
    r"\b(?:Tesla|Quadro|A100|A800|A[3-6]0(?:00)?\b|H[128]00|H20\b|B[23]00|V100|P100|L40S?|GB[23]00|RTX A\d{4}|RTX 6000)"
)
"""Cards of which NICs may read the memory: where one of them is there too, the other need not be the one that fails."""
_REFUSED = re.compile(
    r"ibv_reg_mr[^\n]{0,120}(?:Bad address|errno:? ?14\b)|nvidia_p2p_get_pages[^\n]{0,80}(?:-22|-14|fail|error)"
    r"|GPUDirect RDMA is not (?:available|supported)|Couldn't enable GPUDirect RDMA|DMA.?BUF[^\n]{0,60}not supported"
    r"|use_cuda[^\n]{0,60}\n(?:[^\n]{0,160}\n){0,24}?(?:Couldn't allocate MR|[Ff]ailed to create (?:mr|MR))"
)
_NO_MEMORY = re.compile(r"(?:regist|reg_mr|\bMR\b|create_(?:qp|cq))[^\n]{0,120}Cannot allocate memory")
_MODULE = re.compile(r"^(?:nvidia_peermem|nv_peer_mem)\s{1,40}\d{3,12}\s{1,12}\d{1,4}\b", re.MULTILINE)


def refused_by_driver(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The GPU's driver lets no NIC at the memory of that card, whatever is loaded and however much may be locked."""
    said = "\n".join(seen.fact for seen in finding.evidence)
    hit = next(((text, found) for text in texts if (found := _REFUSED.search(text.text))), None)
    if hit is None or _NO_MEMORY.search(said):
        return None
    module = next(((text, found) for text in texts if (found := _MODULE.search(text.text))), None)
    card = next(((text, found) for text in texts if (found := _CONSUMER.search(text.text))), None)
    shown = [hit, *([card] if card else []), *([module] if module else [])]
    seen = tuple(text.evidence(found.end() if found is hit[1] else found.start()) for text, found in shown)
    if card is not None and not any(_WITH_RDMA.search(text.text) for text in texts):
        return Sharper(
            f"{named(card[1][0], 40)} has no GPU Direct RDMA: the driver lets no NIC at the memory of GeForce cards"
            f"{', though nvidia_peermem is loaded' if module else ''}",
            "switch it off: UCX_IB_GPU_DIRECT_RDMA=no (UCX then copies through host memory by cuda_copy), "
            "NCCL_NET_GDR_LEVEL=LOC for NCCL; or take a data-centre or professional GPU. Locked memory, nvidia_peermem "
            "and the network are not what is missing",
            seen,
            fails=finding.name != "gdr-unavailable",
        )
    if finding.name != "memlock":
        return None
    why = "nvidia_peermem is loaded, and the driver refuses all the same" if module else "nvidia_peermem may be missing"
    return Sharper(
        f"memory of a GPU cannot be registered with the NIC (the address is refused, no limit is met): {why}",
        "look in dmesg for nvidia_p2p and peermem. Build the module for the OFED that runs (its driver first, then "
        "NVIDIA's), iommu=pt, or DMA-BUF with the open kernel modules. Until then UCX_IB_GPU_DIRECT_RDMA=no or "
        "NCCL_NET_GDR_LEVEL=LOC. The limit on locked memory needs no change",
        seen,
    )


_DMABUF = re.compile(
    r"reg_dmabuf_mr[^\n]{0,80}(?:Operation not supported|Protocol not supported|Function not implemented"
    r"|Inappropriate ioctl|EOPNOTSUPP|errno:? ?(?:95|38|93)\b)",
)
_OFED = re.compile(r"^(?:MLNX_OFED_LINUX|OFED-internal)-(?P<version>\d{1,2}\.\d{1,2}(?:-[\d.]{1,12})?)", re.MULTILINE)
_RETURNED = re.compile(r"NCCL INFO (?:\S{1,60}/)?(?:net|net_ib|proxy|init)\.cc:\d{1,6} -> [1-6]\b|NCCL failure")


def dmabuf_refused(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """DMA-BUF is there on the GPU's side, NCCL calls it, and the driver of the NIC does not know it."""
    hit = next(((text, found) for text in texts if (found := _DMABUF.search(text.text))), None)
    if hit is None:
        return None
    ofed = next(((text, found) for text in texts if (found := _OFED.search(text.text))), None)
    module = next(((text, found) for text in texts if (found := _MODULE.search(text.text))), None)
    old = f" (MLNX_OFED {ofed[1]['version']})" if ofed else ""
    # What is loaded serves at once; where nothing is known of it, it has to be looked at first.
    other = "which is loaded" if module else "modprobe nvidia_peermem where lsmod lacks it"
    shown = [hit, *([ofed] if ofed else []), *([module] if module else [])]
    # Newer releases of NCCL go on with nvidia_peermem after it.
    fails = any(_RETURNED.search(text.text) for text in texts)
    return Sharper(
        f"the NIC's driver{old} cannot register memory by DMA-BUF, which NCCL calls as the GPU's driver offers it"
        f"{', and the job fails by it' if fails else ''}",
        f"NCCL_DMABUF_ENABLE=0 on all ranks: NCCL then takes nvidia_peermem ({other}). Or a newer RDMA driver on the "
        "host (MLNX_OFED from about 5.5, DOCA, or a kernel from 5.12 with a rdma-core to match). Or a newer NCCL, "
        "which falls back by itself. In a container the host's driver counts",
        tuple(text.evidence(found.start()) for text, found in shown),
        fails=fails,
    )


_SYMBOL = re.compile(
    r"\b(?P<module>nv_peer_mem|nvidia_peermem): (?:Unknown symbol|disagrees about version of symbol) "
    r"(?P<symbol>ib_(?:un)?register_peer_memory_client)"
)
_IN_KERNEL = re.compile(
    r"^filename:\s{1,16}(?P<path>/lib/modules/(?P<kernel>[\w.+-]{4,80})/kernel/drivers/infiniband/core/ib_core\.ko\S{0,4})",
    re.MULTILINE,
)
_OF_OFED = re.compile(
    r"/lib/modules/(?P<kernel>[\w.+-]{4,80})/(?:extra|updates|weak-updates)/[^\s\n]{0,80}\bib_core\.ko", re.MULTILINE
)


def core_without_peers(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The module for GPUs finds no peer memory in the RDMA core: it is the distribution's, and not OFED's."""
    hit = next(((text, found) for text in texts if (found := _SYMBOL.search(text.text))), None)
    if hit is None or hit[1][0].count("disagrees"):
        return None
    own = next(((text, found) for text in texts if (found := _IN_KERNEL.search(text.text))), None)
    built = [(text, found) for text in texts for found in _OF_OFED.finditer(text.text)]
    elsewhere = next((each for each in built if own and each[1]["kernel"] != own[1]["kernel"]), None)
    if own is not None and any(found["kernel"] == own[1]["kernel"] for _, found in built):
        elsewhere = None
    which = f" ({named(own[1]['path'], 120)})" if own else ""
    other = f"; OFED's was built for {named(elsewhere[1]['kernel'], 60)} alone" if elsewhere else ""
    kernel = f" {named(own[1]['kernel'], 60)}" if own else ""
    back = f" Or boot {named(elsewhere[1]['kernel'], 60)} again." if elsewhere else ""
    shown = [hit, *([own] if own else []), *([elsewhere] if elsewhere else [])]
    return Sharper(
        f"{hit[1]['module']} cannot be loaded: the RDMA core that runs{which} is the distribution's and has no peer "
        f"memory (Unknown symbol {hit[1]['symbol']}){other}",
        f"install MLNX_OFED (DOCA) for the kernel that runs{kernel}: mlnxofedinstall --add-kernel-support, or its dkms "
        f"packages. Then /etc/init.d/openibd restart, and build and load {hit[1]['module']} again.{back} modinfo "
        "ib_core must name extra or updates then. UCX, the GPU and the link are not at fault",
        tuple(text.evidence(found.start()) for text, found in shown),
    )
