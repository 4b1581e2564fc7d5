"""NCCL says that the NVLink switches cannot reduce (NVLS), on GPUs whose switches can."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.multicast_loss import largest_loss
from busbw.doctor.signature import Stage
from busbw.expect.expectation import multicast

NAME = "no-multicast"


def examine(facts: Facts) -> Iterator[Finding]:
    log = next((each for each in facts.logs if each.hardware.no_multicast is not None), None)
    # On GPUs before Hopper NCCL says the same of a machine that is whole.
    able = any(each.fabric is not None and each.fabric.multicast for each in facts.expected)
    chosen = (
        multicast({name: facts.value(name) or "" for name in ("NCCL_ALGO",)}) and facts.whole("NCCL_NVLS_ENABLE") != 0
    )
    if log is None or log.hardware.no_multicast is None or not able or not chosen:
        return
    said, lost = log.hardware.no_multicast, largest_loss(facts)
    yield Finding(
        NAME,
        Severity.WARNING if lost else Severity.NOTE,
        "NCCL may not use the NVLink switches to reduce (NVLS), which switches of these GPUs can",
        (Evidence(said.text, log.source, said.line), *([lost.evidence] if lost else [])),
        lost.cost if lost else Cost("all-reduce inside a node reaches about three quarters of what it could"),
        "see that the fabric manager runs and is of the driver's version (systemctl status nvidia-fabricmanager, "
        "nvidia-smi -q: Fabric). Reset the GPUs after its start. A virtual machine needs all GPUs of the board, a "
        "container cuMem (no NCCL_CUMEM_ENABLE=0) and a driver of CUDA 12.1 or later",
        Proof(
            instruction="run again with NCCL_DEBUG=INFO: it says 'NVLS multicast support is available', and rates rise"
        ),
        stage=Stage.DRIVER,
    )
