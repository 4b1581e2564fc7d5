"""Direct transfers between GPUs switched off or held back by NCCL_P2P_DISABLE or NCCL_P2P_LEVEL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.doctor.capacity import loss, through_host_GBps
from busbw.doctor.comparisons import light_where_compared
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Severity
from busbw.doctor.remedy import evidence, removal, without
from busbw.machine.nccl.conf import Setting
from busbw.machine.topology.model import Machine, PathType

NAME = "p2p-disabled"
_LEVELS = {"LOC": 0, "NVL": 1, "PIX": 2, "PXB": 3, "PHB": 4, "SYS": 6, "0": 0, "1": 2, "2": 3, "3": 4, "4": 6, "5": 6}


def examine(facts: Facts) -> Iterator[Finding]:
    off = facts.settings.get("NCCL_P2P_DISABLE")
    if off is not None and facts.whole("NCCL_P2P_DISABLE") == 1:
        if (board := _without_p2p(facts)) is not None:
            yield Finding(
                NAME,
                Severity.NOTE,
                f"{off.name}={off.value} changes nothing: these cards have no transfers between GPUs by their make",
                (evidence(off), board),
                Cost("nothing"),
                removal(off),
                without(off),
            )
            return
        found = _finding(off, facts.machine, "all transfers between GPUs go through host memory")
        yield light_where_compared(found, facts, off.name)
        return
    level = facts.settings.get("NCCL_P2P_LEVEL")
    allowed = _LEVELS.get(level.value.strip()) if level is not None else None
    if level is None or allowed is None:
        return
    if allowed < PathType.NVLINK.distance:
        yield _finding(level, facts.machine, "all transfers between GPUs go through host memory")
    elif facts.machine is not None:
        barred = _barred(facts.machine, allowed)
        if barred:
            yield _finding(level, facts.machine, f"{barred} go through host memory although PCIe could join them")


_NO_P2P = re.compile(r"\bRTX ?[45]0(?:\d0\b|00 series)")
"""GeForce cards from the RTX 40 series on: their driver offers no P2P, so that accelerate switches it off."""


def _without_p2p(facts: Facts) -> Evidence | None:
    """Where it is told that the GPUs are such cards, and none are of another make."""
    if facts.snapshot.gpus:
        named = [gpu for gpu in facts.snapshot.gpus if _NO_P2P.search(gpu.name or "")]
        return (
            Evidence(named[0].name or "", facts.who_says(named[0])) if len(named) == len(facts.snapshot.gpus) else None
        )
    if facts.machine is not None and facts.machine.nvlinks_per_gpu:
        return None
    for log in facts.shown:
        for number, line in enumerate(log.lines, 1):
            if _NO_P2P.search(line):
                return Evidence(shortened(line.strip(), 160), log.source, number)
    return None


def _finding(setting: Setting, machine: Machine | None, what: str) -> Finding:
    factor = loss(machine, through_host_GBps(machine))
    proofs = [evidence(setting)]
    if machine is not None and machine.nvlinks_per_gpu:
        proofs.append(Evidence(f"{machine.nvlinks_per_gpu} NVLinks per GPU are left unused", machine.source))
    return Finding(
        NAME,
        Severity.WARNING,
        f"{setting.name}={setting.value}: {what}",
        tuple(proofs),
        Cost(
            f"about {factor:.0f} times less bus bandwidth" if factor else "most of the bandwidth between GPUs", factor,
            "host memory gives about 0.45 of the PCIe rate (23.7 GB/s on 4 H200)",
        ),
        removal(setting),
        without(setting),
    )  # fmt: skip


def _barred(machine: Machine, allowed: int) -> str:
    """Pairs nearer than PHB that the level leaves out: NCCL would use them by default."""
    pairs = [
        f"{pair.a}-{pair.b} ({pair.text})"
        for pair in machine.connections
        if pair.a.startswith("GPU") and pair.b.startswith("GPU")
        and allowed < pair.path.distance <= PathType.PXB.distance
    ]  # fmt: skip
    more = f" and {len(pairs) - 4} more" if len(pairs) > 4 else ""
    return ", ".join(pairs[:4]) + more
