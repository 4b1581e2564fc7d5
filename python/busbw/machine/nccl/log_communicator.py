"""Gathers what a log says about one communicator."""

from __future__ import annotations

import re
from functools import lru_cache

from busbw.machine.nccl.log_lines import Line
from busbw.machine.nccl.log_model import Communicator, Counts, RankPlace, Ring, Transport, TreeNode

MAX_RANKS = 200_000
MAX_PAIRS = 200_000
MAX_DEVICES = 64
MAX_CHANNELS = 1024
MAX_TREE_NODES = 500_000

_TREE = re.compile(
    r"\[(?P<channel>\d{1,4})\] (?P<down>-?\d{1,7}(?:/-?\d{1,7}){0,2})"
    r"->(?P<rank>\d{1,7})->(?P<up>-?\d{1,7}(?:/-?\d{1,7}){0,2})"
)
CONNECTION = re.compile(
    r"Channel (\d{1,7})(?:/\d{1,7})? : (\d{1,7})\[\w{1,16}\] -> "
    r"(\d{1,7})\[\w{1,16}\](?: \[\w{1,16}\])? via (\S{1,200})",
    re.ASCII,
)
"""The usual spelling of a channel's connection, which is most of a log."""


class _Pair:
    """What is known of one pair's connections while lines go by: most lines of a log add a channel to one."""

    __slots__ = ("channels", "devices", "gdr", "line")

    def __init__(self, line: int) -> None:
        self.line = line
        self.gdr = False
        self.channels: set[int] = set()
        self.devices: list[str] = []


class Builder:
    """One communicator while its log is read."""

    def __init__(self, name: str) -> None:
        self.all_direct: bool | None = None
        self.name = name
        self._nranks: int | None = None
        self._nnodes: int | None = None
        self._local_ranks: int | None = None
        self._ranks: dict[int, RankPlace] = {}
        self._addresses: dict[int, str] = {}
        self._rings: dict[int, Ring] = {}
        self._trees: dict[tuple[int, int], TreeNode] = {}
        self._pairs: dict[tuple[int, int, str, str], _Pair] = {}
        self._counts: Counts | None = None

    def has_rank(self, rank: int) -> bool:
        return rank in self._ranks

    def has_address(self, rank: int, address: str) -> bool:
        return self._addresses.get(rank) == address

    def rank(self, line: Line, found: re.Match[str]) -> None:
        """`comm 0x... rank R nranks N cudaDev D ... Init START` or `COMPLETE`."""
        rank = int(found["rank"])
        self._nranks = int(found["nranks"])
        known = self._ranks.get(rank)
        if known is None and len(self._ranks) >= MAX_RANKS:
            return
        self._addresses[rank] = found["comm"]
        self._ranks[rank] = RankPlace(
            rank=rank,
            host=line.host,
            pid=line.pid,
            cuda_device=int(found["cuda"]),
            nvml_device=int(found["nvml"]) if found["nvml"] else None,
            bus_id=bus_id_of(found["bus"]) if found["bus"] else None,
            complete=found["state"] == "COMPLETE" or (known is not None and known.complete),
            line=known.line if known else line.number,
            end=line.number if found["state"] == "COMPLETE" else known.end if known else 0,
        )

    def sizes(self, found: re.Match[str]) -> None:
        """`comm ... nRanks N nNodes M localRanks L`."""
        self._nranks, self._nnodes = int(found["nranks"]), int(found["nnodes"])
        self._local_ranks = int(found["local"])

    def ring(self, line: Line, found: re.Match[str]) -> None:
        """`Channel 00/24 : 0 1 2 3`."""
        channel = int(found["channel"])
        if channel < MAX_CHANNELS and channel not in self._rings:
            ranks = tuple(int(each) for each in found["ranks"].split() if len(each) < 8)
            self._rings[channel] = Ring(channel, ranks, line.number)

    def tree_line(self, line: Line, text: str) -> None:
        """`Trees [0] 1/-1/-1->0->-1 [1] ...`: children, rank, parent; older versions `up->rank->down`."""
        for found in _TREE.finditer(text):
            if len(self._trees) >= MAX_TREE_NODES:
                return
            ups, downs = _numbers(found["up"]), _numbers(found["down"])
            rank, channel = int(found["rank"]), int(found["channel"])
            parents = ups[:1] if len(found["up"].split("/")) == 1 else downs[:1]
            children = downs if len(found["up"].split("/")) == 1 else ups
            parent = parents[0] if parents else None
            self._trees.setdefault((channel, rank), TreeNode(channel, rank, parent, tuple(children), line.number))

    def transport(self, line: Line, found: re.Match[str]) -> None:
        """`Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM`."""
        self.connection(int(found["channel"]), int(found["sender"]), int(found["receiver"]), found["by"], line.number)

    def connection(self, channel: int, sender: int, receiver: int, by: str, number: int) -> None:
        """One channel of one pair, and by what."""
        kind, detail, device, gdr = _kind_of(by)
        key = (sender, receiver, kind, detail)
        pair = self._pairs.get(key)
        if pair is None:
            if len(self._pairs) >= MAX_PAIRS:
                return
            pair = self._pairs[key] = _Pair(number)
        pair.channels.add(channel)
        pair.gdr |= gdr
        if device and device not in pair.devices and len(pair.devices) < MAX_DEVICES:
            pair.devices.append(device)

    def channel_counts(self, line: Line, found: re.Match[str]) -> None:
        """`24 coll channels, ...`."""
        if self._counts is None:
            optional = {name: int(found[name]) if found[name] else None for name in ("nvls", "collnet", "peer")}
            self._counts = Counts(
                coll=int(found["coll"]), p2p=int(found["p2p"]), nvls=optional["nvls"], collnet=optional["collnet"],
                p2p_per_peer=optional["peer"], line=line.number,
            )  # fmt: skip

    def _nodes_seen(self) -> int | None:
        """Hosts of the ranks; None where only one was seen and some ranks were not: the log may be of one node."""
        seen = len({each.host for each in self._ranks.values()})
        return seen if seen > 1 or (seen and len(self._ranks) >= (self._nranks or 0)) else None

    def finished(self) -> Communicator:
        return Communicator(
            id=self.name,
            nranks=self._nranks,
            nnodes=self._nnodes or self._nodes_seen(),
            local_ranks=self._local_ranks,
            ranks=tuple(self._ranks[rank] for rank in sorted(self._ranks)),
            rings=tuple(self._rings[channel] for channel in sorted(self._rings)),
            trees=tuple(self._trees[key] for key in sorted(self._trees)),
            transports=tuple(
                Transport(*key, pair.gdr, len(pair.channels), tuple(pair.devices), pair.line)
                for key, pair in self._pairs.items()
            ),
            counts=self._counts,
            all_direct_p2p=self.all_direct,
        )


def bus_id_of(text: str) -> str:
    """NCCL's busId, hexadecimal without separators (100000, 60), as a PCI address."""
    value = int(text, 16)
    return f"{value >> 20:04x}:{value >> 12 & 0xFF:02x}:{value >> 4 & 0xFF:02x}.{value & 0xF:x}"


def _numbers(text: str) -> list[int]:
    return [value for each in text.split("/") if (value := int(each)) >= 0]


@lru_cache(maxsize=4096)
def _kind_of(by: str) -> tuple[str, str, str, bool]:
    """(kind, detail, device, GPU Direct RDMA) of what follows `via`."""
    if by.startswith("direct shared memory"):
        return "SHM", "direct", "", False
    parts = by.split("/")
    kind = parts[0].strip().upper()
    gdr = "GDRDMA" in by
    if kind in {"NET", "COLLNET"}:
        device = re.sub(r"\(.*", "", parts[2]) if len(parts) > 2 else ""
        return kind, parts[1][:60] if len(parts) > 1 else "", device[:60], gdr
    return kind[:20], "/".join(parts[1:])[:60], "", gdr
