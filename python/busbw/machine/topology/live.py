"""Reads this machine: NVML where nvidia-ml-py is installed, else nvidia-smi, else what /sys lists."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.programs import ask
from busbw.machine.topology.assemble import assemble
from busbw.machine.topology.gpu_state import Driver, GpuState
from busbw.machine.topology.model import Machine
from busbw.machine.topology.nvml import read_nvml
from busbw.machine.topology.smi_matrix import read_matrix
from busbw.machine.topology.smi_nvlink import read_nvlink_status
from busbw.machine.topology.smi_query import read_query
from busbw.machine.topology.sysfs import read_sysfs

PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Reading:
    """This machine and the state of its GPUs."""

    machine: Machine
    gpus: tuple[GpuState, ...]
    driver: Driver


def read_live(root: Path = Path("/")) -> Reading:
    """Read this machine; never fails, a machine without GPUs has none."""
    states, driver = read_nvml() or _ask_nvidia_smi() or ((), Driver())
    host = socket.gethostname()
    machine = assemble(read_sysfs(root), states, source="this machine", host=host)
    return Reading(machine, states, driver)


def _ask_nvidia_smi() -> tuple[tuple[GpuState, ...], Driver] | None:
    query = command_output(("nvidia-smi", "-q", "-x"))
    if not query:
        return None
    try:
        states, driver = read_query(query, "nvidia-smi -q -x")
        matrix = (command_output(("nvidia-smi", "topo", "-m")) or b"").decode("utf-8", "replace")
        links = (command_output(("nvidia-smi", "nvlink", "-s")) or b"").decode("utf-8", "replace")
        return with_links(states, matrix, links), driver
    except UserError:
        return None


def with_links(states: Sequence[GpuState], matrix: str, links: str) -> tuple[GpuState, ...]:
    """The states with NVLinks: where they lead from `topo -m`, which are down from `nvlink -s`."""
    try:
        drawn = {gpu.index: gpu for gpu in read_matrix(matrix, "nvidia-smi topo -m").gpus}
    except UserError:
        drawn = {}
    try:
        listed = {each.index: each for each in read_nvlink_status(links, "nvidia-smi nvlink -s")}
    except UserError:
        listed = {}
    buses = {f"GPU{state.index}": state.bus_id for state in states}
    found = []
    for state in states:
        gpu, link = drawn.get(state.index), listed.get(state.index)
        nvlinks = (
            tuple(replace(each, target=buses.get(each.target) or each.target) for each in gpu.nvlinks) if gpu else ()
        )
        found.append(
            replace(
                state,
                nvlinks=nvlinks,
                nvlinks_inactive=link.inactive if link else 0,
                numa=gpu.numa if gpu else None,
                cpus=gpu.cpus if gpu else (),
            )
        )
    return tuple(found)


def command_output(argv: Sequence[str]) -> bytes | None:
    """What a command prints; None where it is absent, fails or takes longer than PATIENCE_S."""
    if shutil.which(argv[0]) is None:
        return None
    done = ask(argv, PATIENCE_S)
    return done.stdout.encode() if done.returncode == 0 else None
