"""GPUs that the bus shows and the driver does not."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage
from busbw.machine.topology.model import SWITCH, Machine

NAME = "gpu-missing"
BOARD = 8
"""GPUs of a board with NVSwitches; clouds and containers give away 1, 2, 4 or all of them."""


def examine(facts: Facts) -> Iterator[Finding]:
    machine, listed = facts.snapshot.machine, facts.snapshot.listed_gpus
    if machine is None or any("gpu-off-bus" in scan.hits for scan in facts.scans):
        return
    shown = len(machine.gpus)
    # A container is given a part of the GPUs, and sees all of them on the bus: mostly the half or fewer.
    if listed is not None and listed // 2 < shown < listed:
        yield _missing(
            machine, f"{listed - shown} of {listed} GPUs are missing", f"lspci lists {listed} GPUs, nvidia-smi {shown}"
        )
    elif listed is None and shown == BOARD - 1 and _is_board(machine):
        yield _missing(
            machine,
            f"a GPU of a board of {BOARD} is missing",
            f"{shown} GPUs, all joined by NVSwitches",
        )


def _is_board(machine: Machine) -> bool:
    return all(any(link.target == SWITCH for link in gpu.nvlinks) for gpu in machine.gpus)


def _missing(machine: Machine, title: str, seen: str) -> Finding:
    return Finding(
        NAME, Severity.ERROR, title, (Evidence(seen, machine.source),),
        Cost("jobs that ask for all GPUs of the node do not start"),
        "look in dmesg for Xid 79, RmInitAdapter and `fallen off the bus`. Drain the node and power-cycle "
        "it; where the GPU stays away, reseat or replace it",
        Proof(instruction="compare `lspci -d 10de:` with `nvidia-smi -L` after a power cycle"), stage=Stage.HARDWARE,
    )  # fmt: skip
