"""Clues of buffers that NICs cannot take: sizes that were set by hand, and calls that show which way was tried."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_FULL = re.compile(
    r"(?:\b|_)reg\w{0,24}[^\n]{0,80}(?:Cannot allocate memory|ENOMEM|errno:? ?12\b|error 12\b|-12\b)"
    r"|Cannot allocate memory[^\n]{0,60}\bregist",
    re.IGNORECASE,
)
_DMABUF = re.compile(r"reg_dmabuf_mr[^\n]{0,60}(?:Cannot allocate memory|ENOMEM|errno:? ?12\b)", re.IGNORECASE)
_NUMBER = r"(?:0x[0-9a-f]{7,12}|\d{8,13})"
_SIZE = re.compile(
    r"\b(?P<name>NCCL_BUFFSIZE|NCCL_P2P_NET_CHUNKSIZE|NCCL_LL128_BUFFSIZE|NCCL_LL_BUFFSIZE)\b"
    rf"(?:[^\w\n]{{0,6}}\n?[^\n]{{0,60}}?\bvalue\"?)?(?: set by environment to |\W{{1,6}})\"?(?P<value>{_NUMBER})\b",
    re.IGNORECASE,
)
"""The variable with its value, as shells, lists, manifests and NCCL write it."""
_HUGE = 256 << 20
"""Sixty-four times NCCL's default. Several such buffers for each channel and peer come to many GiB."""


def size_by_hand(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Memory ran out where buffers are registered: by a size that was set, or on the way that was taken."""
    if not any(_FULL.search(seen.fact) for seen in finding.evidence):
        return None
    for text in texts:
        for found in _SIZE.finditer(text.text):
            value = int(found["value"], 0) if found["value"].startswith("0x") else int(found["value"])
            if value < _HUGE:
                continue
            name = found["name"]
            return Sharper(
                f"{name}={value} makes buffers of {value / 2**20:.0f} MiB, several for each channel and peer, and "
                "the NIC cannot register so much memory (Cannot allocate memory)",
                f"unset {name} on all nodes (NCCL's own buffers have 4 MiB), where the script, the container or "
                "/etc/nccl.conf sets it. A tuned value is a few times larger, and never GiB. The limit on locked "
                "memory, peermem, DMA-BUF and the network need no repair for it",
                (text.evidence(found.start()),),
                fails=True,
            )
    if finding.name == "gdr-unavailable" and any(_DMABUF.search(seen.fact) for seen in finding.evidence):
        return Sharper(
            "the NIC cannot register a buffer of a GPU: DMA-BUF is there and was called, and no memory is left for it",
            "look for sizes that were set by hand (NCCL_BUFFSIZE: unset it) and for very many channels or peers. Then "
            "look at the window of the GPU (BAR1 in nvidia-smi -q), the IOMMU (iommu=pt) and ulimit -l in the job. "
            "To be sure: NCCL_NET_GDR_LEVEL=LOC, or NCCL_DMABUF_ENABLE=0 with nvidia_peermem",
        )
    return None
