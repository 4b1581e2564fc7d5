"""A clue of a GPU that the driver cannot reach, on a machine whose NVSwitches report fatal errors."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_LOST = re.compile(
    r"(?:device handle for (?:GPU|gpu) ?|\bXid \(PCI:)(?:[0-9a-fA-F]{4,8}:)?"
    r"(?P<bus>[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"
)
_FATAL = re.compile(
    r"SXid \(PCI:[0-9a-fA-F:.]{7,16}\): (?P<sxid>\d{4,6}), (?:Severity \d )?Fatal, Link (?P<link>\d{1,3})\b"
)
_MOST = 4


def lost_with_switches(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Links of the switches failed for good, and a GPU is gone: one fault, of which either may be the origin."""
    bus = next((found["bus"] for seen in finding.evidence if (found := _LOST.search(seen.fact))), None)
    fatal = [(text, found) for text in texts for found in _FATAL.finditer(text.text)]
    if bus is None or not fatal:
        return None
    links = sorted({int(found["link"]) for _, found in fatal})
    sxids = sorted({found["sxid"] for _, found in fatal})
    many = " and others" if len(links) > _MOST else ""
    gpus = facts.machine.gpus if facts.machine else ()
    there = " (lspci still lists it)" if any(bus.lower() in (each.bus_id or "").lower() for each in gpus) else ""
    return Sharper(
        f"the driver no longer reaches GPU {named(bus)}{there}, and NVSwitches report fatal errors of links (SXid "
        f"{', '.join(sxids[:3])}, links {', '.join(map(str, links[:_MOST]))}{many}): hardware of the NVLink fabric, or "
        "that GPU",
        "drain the node and power-cycle it, so that GPUs and NVSwitches start together (the administrator's work: a "
        "reset of one GPU is not enough). Then look at the fabric manager's log, nvidia-smi nvlink -s and dcgmi diag "
        "-r 3. Where it returns, the vendor replaces GPU or baseboard. Device files, rights and driver are in order",
        (fatal[0][0].evidence(fatal[0][1].start()),),
    )
