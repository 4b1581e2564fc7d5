"""What links carry and what collectives make of it: shares of a rate, each with its range and its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from busbw.expect.span import Span


class LinkKind(Enum):
    """What carries traffic between the GPUs of a node."""

    NVLINK = "NVLink"
    PCIE = "PCIe"
    HOST = "host memory"


class NetKind(Enum):
    """What carries traffic between nodes."""

    INFINIBAND = "InfiniBand"
    ROCE = "RoCE"
    ETHERNET = "Ethernet"
    EFA = "EFA"
    SLINGSHOT = "Slingshot"
    TCPXO = "TCPXO"
    TCPX = "TCPX"


@dataclass(frozen=True)
class Fact:
    """A share and where it comes from."""

    share: Span
    source: str


# Of what NCCL counts on per NVLink (busbw.machine.topology.rates.NCCL_NVLINK_GBPS): the wire less packet headers.
NVLINK_SHARE: Mapping[str, Fact] = {
    "all_reduce": Fact(
        Span(0.97, 0.90, 1.00),
        "234 of 240 GB/s on 8 A100 (catalogue:ndv4-1node), 231 (ndmv4-1x8-nccl), 363 of 371 on 4 H200 (measured)",
    ),
    "all_gather": Fact(Span(0.98, 0.90, 1.06), "254 of 240 on 8 A100 (ndmv4-1x8-nccl), 348 of 371 on 4 H200"),
    "reduce_scatter": Fact(Span(0.93, 0.86, 1.02), "329 of 371 on 4 H200 (one source, hence the wide range)"),
    "alltoall": Fact(Span(0.99, 0.90, 1.07), "255 of 240 on 8 A100 (ndmv4-1x8-nccl), 352 of 371 on 4 H200"),
    "broadcast": Fact(Span(0.94, 0.86, 1.00), "348 of 371 on 4 H200"),
    "reduce": Fact(Span(0.92, 0.80, 1.00), "as broadcast, with a reduction at every hop; no measurement of its own"),
    "sendrecv": Fact(Span(0.84, 0.75, 0.98), "195 of 240 between A100s (github.com/li-plus/playground, cuda/nccl.md)"),
}
OTHER_SHARE = Fact(Span(0.90, 0.70, 1.05), "no measurement of its own: the range of all others")

# With two GPUs every byte goes over the same pair of links in both phases.
PAIR = Fact(
    Span(0.94, 0.90, 0.98), "225 of 240 GB/s on 2 A100 (nc48v4-no-graph-file), 325 to 332 of 371 on 2 H200 (measured)"
)

# Eight GPUs of a hybrid cube mesh (V100-SXM2, P100-SXM2): four peers have NVLinks, three are reached through a GPU
# between or through the host. Of 16 messages from one half to the other four go over each of the four double links that
# join the halves, so that all-to-all gets at most 7/4 of a double link: 7/12 of all six. NCCL before 2.9 knew no way
# through another GPU. What a message through the host gets is the lower end.
CUBE_GPUS = 8
CUBE_ALLTOALL = Fact(
    Span(0.60, 0.19, 1.05), "the mesh of DGX-1V and the rate through its host; no measurement of its own"
)
# The slowest of the pairs of neighbours, of a single link: one or none of them joins it.
CUBE_PAIR = Fact(Span(0.60, 0.28, 1.05), "the mesh of DGX-1V and the rate through its host; no measurement of its own")

# NVLink SHARP: bytes of the message per second (not bus bandwidth) over what NCCL counts on from the NVLinks, by
# compute capability. On Blackwell it hardly changes with the number of GPUs: 457 GB/s with 4 GB300, 481 with 8, 473
# with 64. On Hopper it does: 274 GB/s with 8 H100, 243 with 4 of them and 242 with 4 H200 (measured).
MULTICAST_SHARE: Mapping[int, Fact] = {
    90: Fact(Span(0.75, 0.68, 0.78), "480 GB/s of bus bandwidth on 8 H100, 274 of the message (nccl-tests#212, #290)"),
    100: Fact(Span(0.68, 0.60, 0.71), "843 GB/s of bus bandwidth on 8 B200; 681 on 4 GB300, 846 on 72 GB200"),
}

# GPUs of the nodes whose share this is, of Hopper.
MULTICAST_GPUS = 8

# NVLink SHARP inside nodes with trees between them, of what it reaches in one node.
MULTICAST_ACROSS = Fact(
    Span(0.92, 0.86, 1.00), "466 to 487 GB/s on 2 x 8 H100, where 521 would be the share of one node"
)

# Several NVLink domains (racks of NVL72), of what one reaches.
ACROSS_DOMAINS = Fact(
    Span(0.87, 0.72, 0.96), "660 to 793 GB/s on two racks, 835 to 897 on one (GB200, GB300); half on 20 racks, 405"
)

# Of PCIe's line rate. NCCL counts on 12 of 15.75 GB/s for generation 3 x16 (src/graph/topo.h, PCI_BW).
PCIE_SHARE = Fact(Span(0.76, 0.60, 0.86), "NCCL src/graph/topo.h, PCI_BW 12 GB/s for generation 3 x16")

# Through host memory (SHM, or P2P over the processor): every byte goes in and out again.
HOST_SHARE = Fact(
    Span(0.45, 0.36, 0.50),
    "6.9 of 15.75 GB/s (v100-2gpu), 30.8 of 2 x 31.5 (nc96v4), 23.7 of 63 (4 H200 with NCCL_P2P_DISABLE=1)",
)

# Of a NIC's line rate.
NET_SHARE: Mapping[NetKind, Fact] = {
    NetKind.INFINIBAND: Fact(Span(0.95, 0.90, 0.98), "24 GB/s per 200G (nccl-tests#119), 46 to 48 per 400G (#290)"),
    NetKind.ROCE: Fact(Span(0.92, 0.80, 0.97), "180 of 200 Gbit/s by ib_write_bw (nccl-tests#112), 330 of 400 (#367)"),
    NetKind.EFA: Fact(Span(0.95, 0.86, 1.00), "479 of 2 x 400 GB/s with 2 x p5.48xlarge, where NVLink SHARP bounds it"),
    NetKind.SLINGSHOT: Fact(
        Span(0.83, 0.55, 0.97),
        "24 of 25 GB/s for each GPU and 150 GB/s as all-reduce on 2 x 4 GH200 (CSCS), 36 of 50 on 2 x 4 A100 (Polaris)",
    ),
    NetKind.TCPXO: Fact(Span(0.90, 0.80, 0.95), "181 of 200 GB/s of the message with 2 x a3-megagpu-8g"),
    NetKind.TCPX: Fact(Span(0.76, 0.68, 0.80), "71 of 100 GB/s as bus bandwidth with 2 x a3-highgpu-8g"),
    NetKind.ETHERNET: Fact(Span(0.70, 0.35, 0.95), "TCP through the kernel; depends on processors and sockets"),
}

# All-to-all over the network: many small flows at once.
NET_ALLTOALL = Fact(Span(0.87, 0.75, 1.00), "37.8 to 44.6 GB/s on 2 x 8 A100 (catalogue:ndmv4-2x8-*), 45 at line rate")

# One GPU per node sends and receives through the same NIC and the same few channels.
SINGLE_GPU = Fact(
    Span(0.77, 0.62, 1.00),
    "15.5 to 23.3 of 25 GB/s on 2 x 1 A100 (catalogue:ndmv4-2x1-*), 31.7 and 41.4 of 50 on 2 x 1 H200 and H100",
)

# Few GPUs a node, of Hopper and later, over RoCE: what each of the two channels of a NIC carries, GB/s.
FEW_GPUS = 3
CHANNELS_PER_NIC = 2
NET_CHANNEL = Fact(Span(16.3, 14.5, 18.5), "31.9 GB/s all-reduce, 32.8 GB/s all-gather on 2 x 1 H200, 400 Gbit/s each")

# What one channel (one thread block at each end) moves over NVLink, GB/s, by compute capability.
CHANNEL_GBPS: Mapping[int, Fact] = {
    80: Fact(Span(14.4, 13.0, 16.0), "57.5 GB/s with 4 channels on 2 A100 (catalogue:nc48v4-graph-file)"),
    90: Fact(Span(22.5, 20.0, 25.0), "82 GB/s with 4 channels on 2 H200, 98 with 4 on 4 H200 (measured)"),
}

# Trees between two nodes, of what rings get from the NICs: every byte crosses once in each direction.
TREE_ACROSS = Fact(Span(1.03, 0.90, 1.05), "98.6 of 100 GB/s on 2 x 2 H100, 381 of 400 on 2 x 8 B200")

# Bandwidth of NCCL's trees over that of its rings: inside a node a chain of up and down, capped between nodes.
TREE_SHARE = Fact(
    Span(0.60, 0.40, 0.92), "NCCL src/graph/tuning.cc: 0.9 of the ring, capped on A100 at 105 to 130 GB/s"
)


def nvlink_share(collective: str, ranks: int) -> Span:
    """The share of the NVLinks' rate that this collective reaches as bus bandwidth."""
    share = NVLINK_SHARE.get(collective, OTHER_SHARE).share
    return share * PAIR.share if ranks == 2 else share
