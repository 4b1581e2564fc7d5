"""What a warning of NCCL is about, by the part of its source that says it, where no signature knows the sentence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One part of NCCL: beginnings of its files, what it does, and what mends it."""

    places: tuple[str, ...]
    what: str
    cure: str


PARTS = (
    Part(
        ("misc/rocm", "misc/alt_rsmi", "misc/archinfo", "include/rocmwrap", "clique/"),
        "calls of ROCm, or what it knows of GPUs and their links (RCCL)",
        "check rocm-smi, rocminfo and dmesg for amdgpu; one release of ROCm on host and in the container; the process "
        "needs /dev/kfd, /dev/dri and the groups video and render",
    ),
    Part(
        ("misc/msccl", "msccl", "misc/npkit"),
        "algorithms from outside (MSCCL, MSCCL++), or tracing (NPKit), in RCCL",
        "switch them off: RCCL_MSCCL_ENABLE=0, RCCL_MSCCLPP_ENABLE=0, and unset MSCCL_ALGO_DIR and NPKIT_DUMP_DIR",
    ),
    Part(
        ("ucx_", "ucx_rma", "ucx_uct", "uct_"),
        "its plugin for UCX",
        "leave the plugin: NCCL_PLUGIN_P2P=ib (or NCCL_NET_PLUGIN=none); else name devices and transports alike on all "
        "hosts (NCCL_UCX_TLS, UCX_NET_DEVICES)",
    ),
    Part(
        ("sharp_plugin",),
        "in-network reduction (SHARP)",
        "set NCCL_COLLNET_ENABLE=0, or look at sharp_am on the subnet manager's host, sharpd and the types that it "
        "reduces",
    ),
    Part(
        ("net_fastsocket", "net_tcpx", "tcpx"),
        "its plugin for sockets of Google's machines",
        "use plugin and daemon of one release as the machine type asks; the settings of the plugin's profile; "
        "NCCL_NET=Socket to be sure",
    ),
    Part(
        ("graph/tuning", "tuner", "plugin/tuner"),
        "its choice of algorithms",
        "correct or unset NCCL_ALGO, NCCL_PROTO and NCCL_TUNER_PLUGIN",
    ),
    Part(
        ("graph/",),
        "its picture of GPUs, NICs and links",
        "compare NCCL_TOPO_DUMP_FILE of a good and a bad host; unset NCCL_TOPO_FILE and NCCL_GRAPH_FILE or give files "
        "of this machine; the same GPUs and NICs in all containers",
    ),
    Part(
        (
            "transport/net_ib",
            "misc/ibv",
            "misc/mlx5",
            "transport/gdaki",
            "ibvwrap",
            "ibvsymbols",
            "ib_plugin",
            "p2p_plugin",
        ),
        "RDMA",
        "test the pair of hosts with ib_write_bw; check ports, GID index and rdma-core of both; to be sure that "
        "RDMA is at fault run once with NCCL_IB_DISABLE=1",
    ),
    Part(
        ("misc/socket", "transport/net_socket", "bootstrap", "os/", "ras/", "include/socket"),
        "sockets between its processes",
        "set NCCL_SOCKET_IFNAME to the interface that all hosts share; open the firewall for all ports between them; "
        "look at the rank of the address that is named",
    ),
    Part(
        ("misc/shmutils", "transport/shm", "include/shm", "allocator"),
        "memory that ranks of a host share",
        "give /dev/shm at least 1 GiB and the containers of a host one IPC namespace; to be sure: NCCL_SHM_DISABLE=1",
    ),
    Part(
        ("transport/p2p", "misc/ipcsocket", "register/", "mem_manager"),
        "memory of a GPU that others reach directly (P2P, IPC)",
        "run once with NCCL_P2P_DISABLE=1, then NCCL_CUMEM_ENABLE=0: which one runs; switch ACS and IOMMU off, let "
        "ranks of a host share pid and IPC namespaces",
    ),
    Part(
        ("transport/nvls", "mnnvl"),
        "multicast over NVLink (NVLS) or the NVLink domain",
        "check nvidia-fabricmanager and IMEX, reset the GPUs; until then NCCL_NVLS_ENABLE=0 (and NCCL_MNNVL_ENABLE=0)",
    ),
    Part(
        ("transport/coll_net", "coll_net"),
        "in-network reduction (CollNet, SHARP)",
        "set NCCL_COLLNET_ENABLE=0, or repair SHARP and its plugin on all hosts",
    ),
    Part(
        ("net.cc", "plugin/", "transport/net.cc", "transport/net", "gin/", "rma/"),
        "the network or its plugin",
        "use the network plugin of the release that fits this NCCL on all hosts, or unset NCCL_NET_PLUGIN and NCCL_NET",
    ),
    Part(
        ("misc/cudawrap", "misc/nvmlwrap", "misc/strongstream", "include/alloc", "include/checks", "misc/gdrwrap"),
        "calls of CUDA or the driver",
        "check the driver (nvidia-smi, dmesg for Xid), and that it is as new as NCCL's CUDA; then NCCL_CUMEM_ENABLE=0",
    ),
    Part(
        ("misc/param", "include/param", "misc/utils", "param"),
        "a setting",
        "correct or unset the variable that is named (environment, /etc/nccl.conf)",
    ),
    Part(
        ("proxy",),
        "its proxy thread, which serves the network",
        "look for the first error of any rank: the proxy mostly reports what failed elsewhere",
    ),
    Part(
        (
            "misc/argcheck",
            "enqueue",
            "group",
            "collectives",
            "dev_runtime",
            "symmetric",
            "sym_",
            "ce_coll",
            "scheduler/",
        ),
        "how the program calls it",
        "compare the calls of the ranks (NCCL_DEBUG_SUBSYS=COLL): arguments, buffers, streams, groups",
    ),
    Part(
        ("init",),
        "the making of a communicator",
        "look at the lines of every rank before it (NCCL_DEBUG=INFO): which rank's first error it is; the same NCCL, "
        "settings and devices on all hosts",
    ),
)


def part_of(place: str) -> Part | None:
    """The part of NCCL that a file and line of its source belongs to; None where the place is empty or unknown."""
    path = place.rpartition("src/")[2].lower()
    return next((part for part in PARTS if path.startswith(part.places)), None)
