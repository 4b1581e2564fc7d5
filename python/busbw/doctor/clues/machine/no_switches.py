"""A fabric manager on a machine without NVSwitches has nothing to do and ends: nothing is broken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Severity
from busbw.doctor.shown_texts import Text, named

_NOTHING = re.compile(r"NV_WARN_NOTHING_TO_DO|WARNING Nothing to do")
_OF_SERVICE = re.compile(r"Pre-NVL5|NV_WARN_NOTHING_TO_DO|NVSwitch device information|fabric-?manager", re.IGNORECASE)
_CARD = re.compile(
    r"^(?:\s{0,8}GPU \d{1,3}: (?P<listed>[^(\n]{3,60}) \(UUID"
    r"|\|\s{1,6}\d{1,3}\s{1,4}(?P<row>[^|\n]{3,40}?)\s{2,20}O(?:n|ff) )",
    re.MULTILINE,
)
_NO_SWITCH = re.compile(
    r"\bGeForce|\bTITAN|\bQuadro|\bRTX\b|\bTesla (?:T4|P\d|M\d|K\d)|\bT4\b|\bL(?:4|20|40S?)\b|\bA(?:2|10G?|16|30|40)\b"
    r"|\bPCI(?:e|-)|\bNVL\b"
)
"""Cards of which no machine has NVSwitches. A100, H100 and newer on SXM boards mostly have them."""


def without_switches(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Finding:
    """The finding; a note where all cards that are listed are of kinds without NVSwitches."""
    said = [seen.fact for seen in finding.evidence if seen.line]
    if finding.name != "fabric-manager" or finding.severity is Severity.NOTE:
        return finding
    if not any(_NOTHING.search(each) for each in said) or not all(_OF_SERVICE.search(each) for each in said):
        return finding
    cards: dict[str, Evidence] = {}
    for text in texts:
        for found in _CARD.finditer(text.text):
            cards.setdefault((found["listed"] or found["row"]).strip(), text.evidence(found.start()))
    # Outputs of known commands are read as the machine's.
    for gpu in facts.machine.gpus if facts.machine else ():
        if gpu.name:
            cards.setdefault(gpu.name, Evidence(gpu.name, facts.machine.source if facts.machine else ""))
    if not cards or not all(_NO_SWITCH.search(each) for each in cards):
        return finding
    name = named(next(iter(cards)), 40)
    return replace(
        finding,
        severity=Severity.NOTE,
        title=f"the fabric manager ends as it has nothing to do: this machine ({name}) has no NVSwitch and needs none",
        fix="systemctl disable --now nvidia-fabricmanager, or remove its package: only machines with NVSwitches need "
        "it. Driver, GPUs and NCCL work without it",
        cost=Cost("nothing"),
        evidence=(*finding.evidence, next(iter(cards.values()))),
    )
