"""What NCCL said in its log, as values; every statement keeps the line it was read from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Said:
    """A text and the first line that said it."""

    text: str
    line: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that NCCL said it had read; from nccl.conf or the environment, NCCL calls both "environment"."""

    name: str
    value: str
    line: int
    before: str = ""
    """Another value that the process which said this had said before: the program itself changed it."""


@dataclass(frozen=True, slots=True)
class Message:
    """A warning of NCCL and how often it was printed."""

    text: str
    where: str
    line: int
    count: int


@dataclass(frozen=True, slots=True)
class RankPlace:
    """One rank of a communicator and its GPU; `complete` once its initialisation ended well, in line `end`."""

    rank: int
    host: str
    pid: int
    cuda_device: int | None
    nvml_device: int | None
    bus_id: str | None
    complete: bool
    line: int
    end: int = 0


@dataclass(frozen=True, slots=True)
class Ring:
    """One ring channel: the ranks in their order."""

    channel: int
    ranks: tuple[int, ...]
    line: int


@dataclass(frozen=True, slots=True)
class TreeNode:
    """The place of one rank in the tree of one channel; no parent is None."""

    channel: int
    rank: int
    parent: int | None
    children: tuple[int, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Transport:
    """How one rank sends to another: over how many channels, by what.

    `kind` is P2P, SHM, NET, COLLNET or NVLS; `detail` what follows it (CUMEM, IPC, direct pointer, IB, Socket).
    """

    sender: int
    receiver: int
    kind: str
    detail: str
    gdr: bool
    channels: int
    devices: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Channels of a communicator by use."""

    coll: int
    p2p: int
    nvls: int | None
    collnet: int | None
    p2p_per_peer: int | None
    line: int


@dataclass(frozen=True, slots=True)
class Choice:
    """What the tuner chose for one collective of that size."""

    collective: str
    bytes: int
    algorithm: str
    protocol: str
    channels: tuple[int, int] | None
    line: int


@dataclass(frozen=True, slots=True)
class Communicator:
    """One communicator: `id` is its commId where the version prints one."""

    id: str
    nranks: int | None
    nnodes: int | None
    local_ranks: int | None
    ranks: tuple[RankPlace, ...]
    rings: tuple[Ring, ...]
    trees: tuple[TreeNode, ...]
    transports: tuple[Transport, ...]
    counts: Counts | None
    all_direct_p2p: bool | None

    @property
    def says_anything(self) -> bool:
        """Whether more is known of it than that somebody named it."""
        return bool(self.ranks or self.rings or self.transports or self.counts or (self.nnodes or 1) > 1)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of its ranks, each once, in order."""
        return tuple(dict.fromkeys(place.host for place in self.ranks))


@dataclass(frozen=True, slots=True)
class Clique:
    """GPUs of a communicator that one NVLink domain joins, whether NCCL uses it over hosts, and the line."""

    gpus: int
    used: bool
    line: int


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a log says of the machine: its type as a plugin names it, and GB/s by NIC as the first process counts them.

    `no_multicast` is what NCCL says where it may not have NVLink switches reduce.
    """

    platform: Said | None = None
    ports: Mapping[str, float] = field(default_factory=dict)
    ports_line: int = 0
    no_multicast: Said | None = None
    clique: Clique | None = None
    provider: Said | None = None
    """What libfabric goes by: efa, cxi (Slingshot) or others."""


@dataclass(frozen=True, slots=True)
class NcclLog:
    """Everything that was read of one log. `unread` counts messages of NCCL that say nothing known here."""

    source: str
    versions: Mapping[str, Said] = field(default_factory=dict)
    header_version: int | None = None
    library_version: int | None = None
    network: Said | None = None
    networks: Mapping[str, Said] = field(default_factory=dict)
    """By host, the network that its ranks named first."""
    plugins: tuple[Said, ...] = ()
    net_devices: tuple[str, ...] = ()
    net_devices_line: int | None = None
    bootstrap: Said | None = None
    gdr: Mapping[str, Said] = field(default_factory=dict)
    tuner: Said | None = None
    thresholds: str | None = None
    tuning: tuple[Said, ...] = ()
    choices: tuple[Choice, ...] = ()
    choices_of: Mapping[tuple[str, str], tuple[Choice, ...]] = field(default_factory=dict)
    """By process ("host:pid") and communicator, what it chose, each choice once."""
    sayers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By variable the hosts that said it."""
    variables: tuple[Variable, ...] = ()
    warnings: tuple[Message, ...] = ()
    affinities: tuple[Said, ...] = ()
    gpu_names: Mapping[str, str] = field(default_factory=dict)
    hardware: Hardware = field(default_factory=Hardware)
    communicators: tuple[Communicator, ...] = ()
    messages: int = 0
    unread: int = 0
    lines: int = 0
    notes: tuple[str, ...] = ()

    def variable(self, name: str) -> Variable | None:
        """The first time NCCL said that variable."""
        return next((each for each in self.variables if each.name == name), None)

    @property
    def largest(self) -> Communicator | None:
        """The communicator with the most ranks: the one a benchmark measures."""
        return max(self.communicators, key=lambda each: each.nranks or len(each.ranks), default=None)
