"""Shared memory switched off by NCCL_SHM_DISABLE: pairs without P2P then talk over the network stack."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Severity
from busbw.doctor.remedy import evidence, removal, without

NAME = "shm-disabled"


def examine(facts: Facts) -> Iterator[Finding]:
    setting = facts.settings.get("NCCL_SHM_DISABLE")
    if setting is None or facts.whole("NCCL_SHM_DISABLE") != 1:
        return
    direct = bool(facts.machine and facts.machine.all_nvlink and facts.whole("NCCL_P2P_DISABLE") != 1)
    proofs = [evidence(setting)]
    if direct and facts.machine is not None:
        proofs.append(Evidence("every pair of GPUs has NVLinks, which do not need it", facts.machine.source))
    yield Finding(
        NAME,
        Severity.NOTE if direct else Severity.WARNING,
        "shared memory is switched off"
        + (", and nothing here needs it" if direct else ": pairs without P2P use sockets"),
        tuple(proofs),
        Cost("none while every pair has P2P" if direct else "pairs without P2P fall to the rate of the network"),
        removal(setting),
        without(setting),
    )
