"""What a machine of saved files shows, what such files never show, and which of them cannot be judged at all."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.machine.topology.names import is_amd

MOST_NVLINKS = 40
"""More than twice the 18 of Hopper and Blackwell."""


def shown_by_files(facts: Facts) -> Iterator[str]:
    """What the machine and the settings of saved files show, as read."""
    machine = facts.snapshot.machine
    if not facts.snapshot.live:
        yield from (f"{each.path}: {len(each.entries)} settings" for each in facts.confs if each.entries)
        if facts.snapshot.graph is not None:
            yield f"{facts.snapshot.graph.path}: a graph of channels"
    if machine is None or facts.snapshot.live or not (machine.gpus or machine.nics):
        return
    parts = [f"{len(machine.gpus)} GPUs"]
    if machine.nvlinks_per_gpu:
        parts.append("their NVLinks")
    if machine.connections:
        parts.append("the ways between devices")
    if machine.nics:
        parts.append(f"{len(machine.nics)} NICs")
    if facts.snapshot.gpus:
        parts.append("the state of its GPUs")
    yield f"{machine.source}: {', '.join(parts)}"


def hidden_by_files(facts: Facts) -> str:
    """What the machine's files do not show; empty where they show the state of its GPUs, or it is this machine."""
    snapshot, machine = facts.snapshot, facts.snapshot.machine
    if machine is None or snapshot.live or snapshot.gpus or not machine.gpus:
        return ""
    hidden = ["clocks"]
    if not any(gpu.pcie.generation for gpu in machine.gpus):
        hidden.append("PCIe links")
    if not any(nic.speed_Gbps for nic in machine.nics):
        hidden.append("rates of NICs")
    return (
        f"{machine.source}: {', '.join(hidden)} and errors of memory and links, which it does not hold (busbw doctor "
        "on the machine itself, or nvidia-smi -q -x)"
    )


def unjudged_machine(facts: Facts) -> str:
    """Why nothing of a saved machine could be judged; empty where something could."""
    machine = facts.snapshot.machine
    if machine is None or facts.snapshot.live:
        return ""
    if not machine.gpus:
        return f"{machine.source}: no GPU is in it, so nothing of links, clocks and memory could be judged"
    if all(is_amd(gpu.name) for gpu in machine.gpus):
        return f"{machine.source}: these are GPUs of AMD, whose links (xGMI) nothing here judges"
    most = max(gpu.nvlink_count for gpu in machine.gpus)
    if most > MOST_NVLINKS:
        return f"{machine.source}: it shows {most} NVLinks of one GPU, which no GPU has"
    return ""
