"""NCCL's graph file (NCCL_GRAPH_FILE): the channels that a search would have found, read and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.base.errors import UserError
from busbw.base.secrets import shortened
from busbw.machine.nccl.problem import Problem
from busbw.machine.nccl.safe_xml import Node, parse
from busbw.machine.nccl.values import Attributes, beyond_nccl
from busbw.machine.topology.model import Machine, PathType

MAX_CHANNELS = 64  # NCCL's MAXCHANNELS

# NCCL's path types, nearest first (src/graph/topo.cc), and what nvidia-smi calls the like.
PATH_TYPES: dict[str, PathType | None] = {
    "LOC": PathType.SELF,
    "NVL": PathType.NVLINK,
    "NVB": PathType.NVLINK,
    "C2C": PathType.NVLINK,
    "PIX": PathType.PIX,
    "PXB": PathType.PXB,
    "P2C": PathType.PHB,
    "PXN": PathType.PHB,
    "PHB": PathType.PHB,
    "SYS": PathType.SYS,
    "NET": None,
    "DIS": None,
}
GRAPH_NAMES = {0: "ring", 1: "tree", 2: "collnet chain", 3: "nvls", 4: "collnet direct"}
EMPTY = '<graphs version="1">\n</graphs>\n'
"""A graph file without channels: NCCL reads it and then searches by itself, so it undoes a configured one."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel: the GPUs in their order (NVML indices) and the NICs at its ends."""

    gpus: tuple[int, ...]
    nets: tuple[int, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Graph:
    """The channels of one algorithm. Speeds are GB/s per channel in one direction."""

    id: int
    pattern: int
    declared_channels: int
    speed_intra_GBps: float
    speed_inter_GBps: float
    type_intra: str
    type_inter: str
    channels: tuple[Channel, ...]
    line: int

    @property
    def name(self) -> str:
        """The algorithm that uses it."""
        return GRAPH_NAMES.get(self.id, f"graph {self.id}")

    @property
    def capacity_GBps(self) -> float:
        """What all channels together are meant to carry inside a node, GB/s in one direction."""
        return len(self.channels) * self.speed_intra_GBps


@dataclass(frozen=True, slots=True)
class GraphFile:
    """A graph file as read, with what is wrong in itself."""

    source: str
    graphs: tuple[Graph, ...]
    problems: tuple[Problem, ...]

    @property
    def ring(self) -> Graph | None:
        """The channels that rings run on; None where the file has none."""
        return next((graph for graph in self.graphs if graph.id == 0 and graph.channels), None)


def read_graph(data: bytes, source: str) -> GraphFile:
    """Read a graph file; UserError where it is no XML or has another root, problems for all else."""
    root = parse(data, source)
    if root.tag != "graphs":
        raise UserError(f"{source}:{root.line}: the root is <{root.tag[:40]}>, a graph file has <graphs>")
    problems = beyond_nccl(root)
    if Attributes(root, problems).whole("version", needed=True) not in {1, None}:
        problems.append(Problem(root.line, "version is not 1, NCCL refuses the file", fatal=True))
    graphs = tuple(_graph(node, problems) for node in root.all("graph"))
    if not graphs:
        problems.append(Problem(root.line, "no <graph>: NCCL searches as if there were no file"))
    return GraphFile(source, graphs, tuple(problems))


def check_against(file: GraphFile, machine: Machine) -> tuple[Problem, ...]:
    """What the graphs say about GPUs that the machine does not have, and rings that leave GPUs out."""
    known = {gpu.index for gpu in machine.gpus}
    problems: list[Problem] = []
    for graph in file.graphs:
        for channel in graph.channels:
            missing = sorted(set(channel.gpus) - known)
            if missing:
                text = f"channel of the {graph.name} names GPU {_list(missing)}, the machine has {_list(sorted(known))}"
                problems.append(Problem(channel.line, text, fatal=True))
                break
            if graph.id == 0 and set(channel.gpus) != known:
                left = _list(sorted(known - set(channel.gpus)))
                text = f"ring goes through {len(set(channel.gpus))} of {len(known)} GPUs and leaves out {left}"
                problems.append(Problem(channel.line, text, fatal=True))
                break
    return tuple(problems)


def _graph(node: Node, problems: list[Problem]) -> Graph:
    given = Attributes(node, problems)
    declared = given.whole("nchannels", needed=True, low=0) or 0
    channels = tuple(_channel(each, problems) for each in node.all("channel"))
    graph = Graph(
        id=_or(given.whole("id", needed=True, low=0), -1),
        pattern=_or(given.whole("pattern", needed=True, low=0), 0),
        declared_channels=declared,
        speed_intra_GBps=given.number("speedintra", needed=True) or 0.0,
        speed_inter_GBps=given.number("speedinter", needed=True) or 0.0,
        type_intra=_path_type(node, "typeintra", problems),
        type_inter=_path_type(node, "typeinter", problems),
        channels=channels,
        line=node.line,
    )
    _check_counts(graph, problems)
    return graph


def _check_counts(graph: Graph, problems: list[Problem]) -> None:
    count = len(graph.channels)
    if graph.declared_channels != count:
        text = f"nchannels says {graph.declared_channels} and there are {count}"
        problems.append(Problem(graph.line, f"{graph.name}: {text}", fatal=True))
    if count > MAX_CHANNELS:
        problems.append(Problem(graph.line, f"{graph.name}: {count} channels, NCCL takes {MAX_CHANNELS}", fatal=True))
    if count and graph.speed_intra_GBps == 0:
        problems.append(Problem(graph.line, f"{graph.name}: channels without speed (speedintra is 0)", fatal=True))
    first = graph.channels[0] if graph.channels else None
    for channel in graph.channels:
        if len(set(channel.gpus)) != len(channel.gpus):
            problems.append(Problem(channel.line, f"{graph.name}: a channel goes through a GPU twice", fatal=True))
        elif not channel.gpus:
            problems.append(Problem(channel.line, f"{graph.name}: a channel without GPUs", fatal=True))
        elif first is not None and set(channel.gpus) != set(first.gpus):
            text = f"{graph.name}: a channel goes through other GPUs than the first one"
            problems.append(Problem(channel.line, text, fatal=True))


def _channel(node: Node, problems: list[Problem]) -> Channel:
    # NCCL keeps the number of the system in the top byte of dev (src/graph/topo.h).
    def device(child: Node) -> int | None:
        value = Attributes(child, problems).whole("dev", needed=True, low=0)
        return value & ((1 << 56) - 1) if value is not None else None

    gpus = [device(child) for child in node.all("gpu")]
    nets = [device(child) for child in node.all("net")]
    return Channel(
        gpus=tuple(gpu for gpu in gpus if gpu is not None),
        nets=tuple(net for net in nets if net is not None),
        line=node.line,
    )


def _path_type(node: Node, name: str, problems: list[Problem]) -> str:
    text = node.attributes.get(name, "")
    if text not in PATH_TYPES:
        problems.append(
            Problem(node.line, f'{name}="{shortened(text, 20)}" is none of {", ".join(PATH_TYPES)}', fatal=True)
        )
    return text[:20]


def _or(value: int | None, instead: int) -> int:
    return instead if value is None else value


def _list(numbers: Sequence[int]) -> str:
    shown = ", ".join(str(each) for each in numbers[:16])
    return (shown or "none") + (f" and {len(numbers) - 16} more" if len(numbers) > 16 else "")
