"""A fabric: what joins the GPUs of a node and the nodes, as rates that collectives can count on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from busbw.base.errors import UserError
from busbw.expect.links import HOST_SHARE, NET_SHARE, PCIE_SHARE, LinkKind, NetKind
from busbw.expect.span import Span
from busbw.machine.topology.audit import misled
from busbw.machine.topology.model import SWITCH, Machine, Nic, PathType
from busbw.machine.topology.names import other_maker, product
from busbw.machine.topology.rails import Rails, rails
from busbw.machine.topology.rates import nccl_nvlink_GBps, pcie_GBps

_PCIE_OF_SM = {60: 3, 70: 3, 75: 3, 80: 4, 86: 4, 89: 4, 90: 5, 100: 6, 103: 6, 120: 5, 121: 5}
"""PCIe generation of GPUs of a compute capability. Source: NVIDIA's data sheets."""

_EFA = re.compile(r"rdmap\d+s\d+$|efa_")

HOST_PATHS_PER_ISLAND = 2
"""Two NVLink-joined pairs have two ways to each other, one from each GPU of the pair."""


@dataclass(frozen=True)
class Fabric:
    """`nvlink_GBps` and `host_GBps` are what one GPU can send inside its node; `nics` of `nic_Gbps` serve each node.

    `island` GPUs are joined by NVLink; where a node has more of them, rings cross PCIe and the host between islands.
    """

    name: str
    gpus: int
    sm: int | None = None
    nvlink_GBps: float = 0.0
    island: int = 1
    switched: bool = False
    pcie_GBps: float = 0.0
    peer_to_peer: bool = False
    nics: int = 0
    nic_Gbps: float = 0.0
    net: NetKind = NetKind.INFINIBAND
    channels: int | None = None
    domain: int = 0
    """GPUs of an NVLink domain that spans hosts (NVL72), 0 where NVLink ends with the host."""
    hosts: int = 1
    """Hosts over which the GPUs of one `node` lie, where an NVLink domain spans them."""
    counted_channel_GBps: float = 0.0
    """What a graph file says that one channel carries (speedintra): NCCL believes it when it chooses a protocol."""
    notes: tuple[str, ...] = ()
    """What the machine's file shows that the figures do not hold: sentences to be said beside them."""
    net_notes: tuple[str, ...] = ()
    """The same of its network, for several nodes."""

    def link(self, ranks: int) -> LinkKind:
        """What the slowest step of a ring over so many GPUs of one node goes through."""
        if self.nvlink_GBps and ranks <= self.island:
            return LinkKind.NVLINK
        return LinkKind.PCIE if self.peer_to_peer else LinkKind.HOST

    def rate(self, ranks: int) -> Span:
        """What a ring over so many GPUs of one node can count on, GB/s, before what the collective makes of it."""
        link = self.link(ranks)
        if link is LinkKind.NVLINK:
            return Span.exactly(self.nvlink_GBps)
        if not self.pcie_GBps:
            raise UserError(f"nobody said what joins {ranks} GPUs of {self.name}: neither NVLinks nor PCIe are known")
        paths = HOST_PATHS_PER_ISLAND if self.island > 1 else 1
        share = PCIE_SHARE.share if link is LinkKind.PCIE else HOST_SHARE.share
        return share * (self.pcie_GBps * paths)

    def counted_GBps(self) -> float:
        """What NCCL counts on over NVLink when it chooses between protocols."""
        if self.channels and self.counted_channel_GBps:
            return min(self.nvlink_GBps, self.channels * self.counted_channel_GBps)
        return self.nvlink_GBps

    def network(self, gpus: int) -> Span:
        """What the NICs that serve so many GPUs of a node carry in one direction, GB/s."""
        return NET_SHARE[self.net].share * self.line_GBps(gpus)

    def line_GBps(self, gpus: int) -> float:
        """The line rate of the NICs that serve so many GPUs of a node, in one direction."""
        if not self.nics or not self.nic_Gbps:
            raise UserError(f"{self.name} has no network that is known; say it with --nics and --nic-gbps")
        return max(1.0, self.nics * min(1.0, gpus / self.gpus)) * self.nic_Gbps / 8

    @property
    def multicast(self) -> bool:
        """Whether the switch can reduce (NVLink SHARP, from NVLink 4 on)."""
        return self.switched and self.sm is not None and self.sm >= 90


def of_machine(machine: Machine, *, whole: bool = False) -> Fabric:
    """The fabric of a machine that was read from a live system or a file; UserError where too little is known of it.

    A ring is as slow as the GPU with the fewest NVLinks; `whole` says what it would be with none of them down.
    """
    gpus = machine.gpus
    if not gpus:
        raise UserError(f"{machine.source} shows no GPU, so nothing can be expected of it")
    refuse_others(gpu.name for gpu in gpus)
    known = [gpu.sm or (found.sm if (found := product(gpu.name)) else None) for gpu in gpus]
    sm = min((each for each in known if each is not None), default=None)
    switched = all(any(link.target == SWITCH for link in gpu.nvlinks) for gpu in gpus)
    links = (max if whole else min)(gpu.nvlink_count for gpu in gpus)
    if sm is None:
        seen = f"NV{links} between them, but" if links else "no NVLinks, and"
        raise UserError(
            f"{machine.source} shows {len(gpus)} GPUs, {seen} not which GPUs they are, and nothing is guessed; say it "
            "with --gpu (such as --gpu H100), or name the machine type with --machine",
            exit_code=2,
        )
    pcie = min((gpu.pcie.max_GBps or gpu.pcie.GBps or 0.0 for gpu in gpus), default=0.0)
    carrying = rails(machine, whole=whole)
    ports = carrying.ports
    inside, between = misled(replace(machine, nics=ports))
    ethernet = any((nic.link_layer or "").lower() == "ethernet" for nic in ports)
    return Fabric(
        name=_name(machine), gpus=len(gpus), sm=sm, nvlink_GBps=(nccl_nvlink_GBps(sm) or 0.0) * links,
        island=len(gpus) if switched else _island(machine), switched=switched,
        pcie_GBps=pcie or pcie_of_sm(sm), peer_to_peer=_peer_to_peer(machine),
        nics=len(ports), nic_Gbps=carrying.Gbps,
        net=NetKind.EFA if any(_EFA.match(nic.name) for nic in ports) else
            NetKind.ROCE if ethernet else NetKind.INFINIBAND,
        notes=() if whole else inside, net_notes=() if whole else (*_of_ports(carrying), *between),
    )  # fmt: skip


def _of_ports(found: Rails) -> Iterator[str]:
    """What is to be said of ports of several rates."""
    if found.slow:
        yield (
            f"{_names(found.slow)}, slower than the other ports beside GPUs: channels carry equal parts, so all "
            f"{len(found.ports)} are counted at that rate."
        )
    elif fast := [nic for nic in found.ports if (nic.speed_Gbps or 0.0) > found.Gbps]:
        yield f"{_names(fast)} counts as {found.Gbps:g} Gbit/s, as the other ports: channels carry equal parts."
    if found.idle:
        yield f"Left out: {_names(found.idle)}, as GPUs have other ports beside them or faster ones."


def _names(nics: Sequence[Nic]) -> str:
    more = f" and {len(nics) - 4} others" if len(nics) > 4 else ""
    return ", ".join(f"{nic.name} ({nic.speed_Gbps:g} Gbit/s)" for nic in nics[:4]) + more


def refuse_others(names: Iterable[str | None]) -> None:
    """UserError where NVIDIA did not make a GPU: links, algorithms and latencies here are of its GPUs and NCCL."""
    maker = next((found for name in names if (found := other_maker(name))), None)
    if maker:
        joined = " (Infinity Fabric and RCCL), which busbw reads and measures" if maker == "AMD" else ""
        raise UserError(
            f"these are GPUs of {maker}{joined}. busbw has no model of what they should reach, and does not predict "
            "them as if they were NVIDIA's",
            exit_code=2,
        )


def pcie_of_sm(sm: int | None) -> float:
    """Line rate of x16 in the generation that GPUs of this compute capability have; 0 where unknown."""
    return pcie_GBps(_PCIE_OF_SM.get(sm or 0), 16) or 0.0


def _island(machine: Machine) -> int:
    """How many GPUs are joined by NVLinks, directly: the smallest group, as a ring is as slow as its slowest step."""
    joined: dict[str, set[str]] = {gpu.key: {gpu.key} for gpu in machine.gpus}
    for connection in machine.connections:
        if connection.path is PathType.NVLINK and connection.a in joined and connection.b in joined:
            both = joined[connection.a] | joined[connection.b]
            for key in both:
                joined[key] = both
    return min(len(group) for group in joined.values())


def _peer_to_peer(machine: Machine) -> bool:
    """Whether every pair of GPUs meets below one PCIe host bridge."""
    near = {PathType.NVLINK, PathType.PIX, PathType.PXB}
    pairs = [machine.between(a.key, b.key) for i, a in enumerate(machine.gpus) for b in machine.gpus[i + 1 :]]
    return bool(pairs) and all(pair is not None and pair.path in near for pair in pairs)


def _name(machine: Machine) -> str:
    names = {gpu.name for gpu in machine.gpus if gpu.name}
    return f"{len(machine.gpus)} x {names.pop()}" if len(names) == 1 else machine.source
