"""GPUs whose driver offers no direct access to each other, by the make of the cards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_CARD = re.compile(r"\bGeForce (?P<name>RTX ?[2345]0\d0(?: ?Ti| SUPER| D\b)?)")
"""From the 20 series on the driver joins GeForce cards by NVLink bridges alone."""
_OTHER = re.compile(r"\b(?:Tesla|Quadro|TITAN|NVIDIA (?:RTX (?:A\d{4}|\d{4} Ada|PRO)|[ABHLTV]\d{2,3}\b|GTX))")
_CANNOT = re.compile(
    r"CANNOT Access Peer Device|^\W{0,4}GPU\d{1,3}\s(?:[^\n]{0,200}\s)?(?:CNS|GNS|TNS)(?:\s|$)", re.MULTILINE
)
_CAN = re.compile(r"\bCAN Access Peer Device|Could not enable P2P|\bNV\d{1,2}\b(?=[ \t])|P2P is disabled between")
_PATCHED = re.compile(r"\bp2p[- ](?:fork|patch|driver)|\bpatched\b|open-gpu-kernel-modules", re.IGNORECASE)
_MOST = 200


def none_by_make(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """All GPUs are GeForce cards, and none of them reaches another one."""
    cards = [(text, found) for text in texts for found in islice(_CARD.finditer(text.text), _MOST)]
    odd = any(words.search(text.text) for text in texts for words in (_OTHER, _CAN, _PATCHED))
    if not cards or odd or not any(_CANNOT.search(seen.fact) for seen in finding.evidence):
        return None
    names = sorted({" ".join(found["name"].split()) for _, found in cards})
    which = named(", ".join(names[:3]), 60)
    bridges = "An NVLink bridge joins a pair of RTX 3090, else: " if any("3090" in each for each in names) else "Else: "
    return Sharper(
        f"GeForce cards ({which}) have no P2P over PCIe: NVIDIA's driver does not offer it for them. That is a limit "
        "of the product, and no fault of this machine: NCCL goes through host memory",
        f"no setting, BIOS or driver option gives it: leave IOMMU, ACS and NCCL's variables as they are. {bridges}let "
        "ranks talk less (larger batches, gradient accumulation, gradients in bf16), or take workstation or "
        "data-centre cards, which have P2P. PCIe at full width to each card, and all on one socket, is what helps here",
        (cards[0][0].evidence(cards[0][1].start()),),
    )
