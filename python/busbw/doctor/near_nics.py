"""Which NICs a list of NCCL_IB_HCA takes, and how near they lie to the GPUs in use."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.doctor.facts import Facts
from busbw.machine.topology.audit import NEAR
from busbw.machine.topology.model import Machine, Nic, PathType


def matches(pattern: str, name: str) -> bool:
    """Whether NCCL's list (`eth,ib`, `=eth0`, `^docker`, `mlx5_0:1`) takes that name."""
    pattern = pattern.strip()
    negated = pattern.startswith("^")
    exact = pattern.lstrip("^").startswith("=")
    words = [word.strip().partition(":")[0] for word in pattern.lstrip("^=").split(",") if word.strip()]
    found = any(name == word if exact else name.startswith(word) for word in words)
    return found != negated


def takes_the_nearest(machine: Machine, devices: list[Nic], chosen: list[Nic]) -> bool:
    """Whether each NIC beside a GPU in use was chosen: others are of other GPUs, or for storage."""
    near = [
        nic for nic in devices
        if any((pair := machine.between(gpu.key, nic.key)) is not None and pair.path in NEAR for gpu in machine.gpus)
    ]  # fmt: skip
    return bool(near) and all(nic in chosen for nic in near)


@dataclass(frozen=True, slots=True)
class FarChoice:
    """NICs that a list of NCCL_IB_HCA takes, all beyond the socket of the job's GPUs, and those near them."""

    gpus: tuple[str, ...]
    far: tuple[str, ...]
    near: tuple[str, ...]


def chosen_far(facts: Facts) -> FarChoice | None:
    """Whether NCCL_IB_HCA leaves the job's GPUs no NIC of their own socket, though there are nearer ones."""
    value, machine = facts.value("NCCL_IB_HCA"), facts.visible
    if value is None or machine is None or not machine.gpus:
        return None
    nics = [nic for nic in machine.nics if nic.rdma]
    chosen = [nic for nic in nics if matches(value, nic.name)]
    paths = {(gpu.key, nic.name): pair.path for gpu in machine.gpus for nic in nics
             if (pair := machine.between(gpu.key, nic.key)) is not None}  # fmt: skip
    far = all(paths.get((gpu.key, nic.name)) is PathType.SYS for gpu in machine.gpus for nic in chosen)
    near = _reached(machine, nics, paths, NEAR) or _reached(machine, nics, paths, _OF_ONE_SOCKET)
    if not chosen or not far or not near:
        return None
    return FarChoice(tuple(gpu.key for gpu in machine.gpus), tuple(nic.name for nic in chosen), near)


_OF_ONE_SOCKET = frozenset({PathType.PHB, PathType.NODE})


def _reached(
    machine: Machine, nics: list[Nic], paths: dict[tuple[str, str], PathType], ways: frozenset[PathType]
) -> tuple[str, ...]:
    """The NICs that some GPU reaches by one of these ways."""
    return tuple(nic.name for nic in nics if any(paths.get((gpu.key, nic.name)) in ways for gpu in machine.gpus))
