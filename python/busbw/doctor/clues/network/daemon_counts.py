"""A clue of Google's receive daemon, which ends where /sys and CUDA show it different numbers of GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_COUNTS = re.compile(
    r"GPUs (?:detected|found) in (?:the )?PCI tree \(?(?P<pci>\d{1,3})\)?[^\n]{0,40}"
    r"(?:CUDA GPUs|GPUs (?:in|of|seen by) CUDA) \(?(?P<cuda>\d{1,3})"
)
_APART = re.compile(r"^[^\n]{0,120}\bhostNetwork\b[\"']?\s{0,3}[:=]\s{0,3}false", re.MULTILINE)
_WELL = re.compile(
    r"^[^\n]{0,120}\bhostNetwork\b[\"']?\s{0,3}[:=]\s{0,3}true[^\n]{0,100}\b(?:ok|works|fine)\b", re.MULTILINE
)


def counts_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The daemon compares the GPUs of /sys/bus/pci with those of CUDA, and ends where they differ."""
    said = (Text("", "\n".join(seen.fact for seen in finding.evidence)), *texts)
    hit = next(((text, found) for text in said if (found := _COUNTS.search(text.text))), None)
    if hit is None or hit[1]["pci"] == hit[1]["cuda"]:
        return None
    pci, cuda = int(hit[1]["pci"]), int(hit[1]["cuda"])
    title = f"Google's receive daemon finds {pci} GPUs in /sys/bus/pci and {cuda} by CUDA, and ends by it"
    if pci > cuda:
        return Sharper(
            f"{title}: its container was given too few of them, or a GPU does not answer",
            "give the daemon's container all GPUs of the node (nvidia.com/gpu, all /dev/nvidia*, no "
            "CUDA_VISIBLE_DEVICES). nvidia-smi -L on the node itself must list them all; else look in dmesg for Xids",
        )
    shown = [row for words in (_APART, _WELL) for text in texts if (row := _shown(words, text))]
    why = (
        ": its pod is not in the host's network, where /sys does not show all of them"
        if shown
        else (": its container does not see all of /sys")
    )
    return Sharper(
        f"{title}{why}",
        "give the daemon's pod hostNetwork: true (dnsPolicy: ClusterFirstWithHostNet). Its capabilities NET_ADMIN and "
        "NET_BIND_SERVICE stay, and privileged is not needed for it. Where it has that, mount the host's /sys and "
        "compare ls /sys/bus/pci/devices with the host. GPUs and the device plugin are right, and NCCL has no part",
        tuple(shown[:2]),
    )


def _shown(words: re.Pattern[str], text: Text) -> Evidence | None:
    found = words.search(text.text)
    return text.evidence(found.start()) if found else None
