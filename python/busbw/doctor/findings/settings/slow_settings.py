"""Switches that slow every call: synchronous launches, checks, P2P through copy engines, CUMEM or NVLS off."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Finding, Severity
from busbw.doctor.multicast_loss import largest_loss
from busbw.doctor.remedy import evidence, removal, without

NAME = "slow-settings"
# (variable, value, severity, what it does)
_SWITCHES = (
    ("CUDA_LAUNCH_BLOCKING", 1, Severity.WARNING, "every launch waits for its kernel: nothing overlaps"),
    ("CUDA_DEVICE_MAX_CONNECTIONS", 1, Severity.NOTE, "streams share one queue; wanted by some training frameworks"),
    ("NCCL_CHECK_POINTERS", 1, Severity.WARNING, "NCCL asks the driver about every pointer of every call"),
    ("NCCL_P2P_USE_CUDA_MEMCPY", 1, Severity.WARNING, "copy engines instead of kernels between GPUs"),
    ("NCCL_P2P_DIRECT_DISABLE", 1, Severity.WARNING, "no direct pointers between GPUs of one process"),
    ("NCCL_LAUNCH_ORDER_IMPLICIT", 1, Severity.NOTE, "launches of several communicators wait for each other"),
    ("NCCL_NVLS_ENABLE", 0, Severity.NOTE, "the NVSwitch does not reduce: NVLS all-reduce is not used"),
    ("NCCL_CUMEM_ENABLE", 0, Severity.NOTE, "no cuMem buffers, which NVLS and user buffer registration need"),
    ("NCCL_RUNTIME_CONNECT", 0, Severity.NOTE, "every connection is made at the start: slower initialisation"),
    ("NCCL_PXN_DISABLE", 1, Severity.NOTE, "no way over a neighbour GPU's NIC for all-to-all between nodes"),
)  # fmt: skip


_NVSWITCH_REDUCES = re.compile(r"\b(?:H[128]00|H20|GH200|B[23]00|GB[23]00)\b(?! (?:NVL|PCIe))")
_LARGE_BYTES = 64 << 20


def _measured(facts: Facts, name: str) -> bool:
    """Whether a benchmark beside it ran just what the switch slows: then it is the first thing to look at."""
    for record in facts.records:
        hosts = {rank.host for rank in record.run.ranks}
        gpus = [rank.device.name or "" for rank in record.run.ranks if rank.device is not None]
        large = {each.collective for each in record.cases if each.bytes >= _LARGE_BYTES and each.busbw_GBps}
        if name == "NCCL_PXN_DISABLE" and len(hosts) > 1 and len(gpus) >= 4 * len(hosts) and "alltoall" in large:
            return True
        reduces = len(gpus) >= 4 and all(map(_NVSWITCH_REDUCES.search, gpus))
        if name == "NCCL_NVLS_ENABLE" and len(hosts) == 1 and reduces and "all_reduce" in large:
            return True
    return False


def examine(facts: Facts) -> Iterator[Finding]:
    for name, value, usual, effect in _SWITCHES:
        if facts.whole(name) == value:
            setting = facts.settings[name]
            severity = Severity.WARNING if _measured(facts, name) else usual
            lost = largest_loss(facts) if name == "NCCL_NVLS_ENABLE" else None
            seen = (evidence(setting), *([lost.evidence] if lost else []))
            yield Finding(
                NAME, severity, f"{name}={value}: {effect}", seen, lost.cost if lost else Cost(effect),
                removal(setting), without(setting),
            )  # fmt: skip
    level = facts.value("NCCL_DEBUG")
    if level is not None and level.upper() == "TRACE":
        setting = facts.settings["NCCL_DEBUG"]
        yield Finding(
            NAME, Severity.WARNING, "NCCL_DEBUG=TRACE prints on every call", (evidence(setting),),
            Cost("small messages take a multiple of their time"), "use NCCL_DEBUG=INFO or WARN", without(setting),
        )  # fmt: skip
