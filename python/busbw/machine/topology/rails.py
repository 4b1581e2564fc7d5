"""The ports that collectives use, and the rate at which all of them go: one answer for predictions and the doctor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.machine.topology.model import Gpu, Machine, Nic, PathType

BELOW_ONE_SWITCH = frozenset({PathType.PIX, PathType.PXB})


@dataclass(frozen=True, slots=True)
class Rails:
    """`ports` carry `Gbps` each; `slow` of them, beside GPUs, are slower than most there; `idle` ones are left out."""

    ports: tuple[Nic, ...] = ()
    Gbps: float = 0.0
    slow: tuple[Nic, ...] = ()
    idle: tuple[Nic, ...] = ()


def own_port(machine: Machine, gpu: Gpu, ports: Sequence[Nic] | None = None) -> Nic | None:
    """The fastest RDMA port below one switch with that GPU; None where none is, or nobody knows its rate."""
    near = [nic for nic in (_working(machine) if ports is None else ports) if _is_near(machine, gpu, nic)]
    return max(near, key=_rate, default=None)


def rails(machine: Machine, *, whole: bool = False) -> Rails:
    """NCCL gives each GPU the port beside it, and channels carry equal parts: all go at the rate of the slowest.

    Ports beside no GPU (storage) count where each GPU has its own only if nothing else is there. Where GPUs have none
    of their own, the ports are those that carry most at one rate: slower ones serve management. `whole` says what the
    ports would carry with none of them fallen back.
    """
    up = _working(machine)
    if not up:
        return Rails()
    own = [port for gpu in machine.gpus if (port := own_port(machine, gpu, up)) is not None]
    if machine.gpus and len(own) == len(machine.gpus):
        least = min(map(_rate, own))
        near = [nic for nic in up if any(_is_near(machine, gpu, nic) for gpu in machine.gpus)]
        used = [nic for nic in near if _rate(nic) >= least]
        usual = max(Counter(map(_rate, own)).items(), key=lambda each: (each[1], each[0]))[0]
        slow = [nic for nic in dict.fromkeys(own) if _rate(nic) < usual]
        rate = usual if whole else least
    else:
        rate = max({_rate(nic) for nic in up}, key=lambda each: (each * sum(_rate(nic) >= each for nic in up), each))
        used, slow = [nic for nic in up if _rate(nic) >= rate], []
    return Rails(tuple(used), rate, tuple(slow), tuple(nic for nic in _up(machine) if nic not in used))


def _working(machine: Machine) -> list[Nic]:
    """RDMA ports that are up and have a rate; without GPU Direct only where none has it, as it serves storage."""
    up = _up(machine)
    return [nic for nic in up if nic.gdr is not False] or up


def _up(machine: Machine) -> list[Nic]:
    return [nic for nic in machine.nics if nic.rdma and nic.speed_Gbps and nic.up is not False]


def _rate(nic: Nic) -> float:
    return nic.speed_Gbps or 0.0


def _is_near(machine: Machine, gpu: Gpu, nic: Nic) -> bool:
    pair = machine.between(gpu.key, nic.key)
    return pair is not None and pair.path in BELOW_ONE_SWITCH
