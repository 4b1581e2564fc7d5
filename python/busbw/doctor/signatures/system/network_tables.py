"""A table or budget of the kernel's network is full."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """Which of them is full."""
    if any("neighbours" in each for each in groups):
        return "the kernel's table of neighbours (ARP) is full: hosts beyond its limit cannot be reached"
    return "the kernel's budget of memory for TCP (tcp_mem) is used up: sockets wait and fail"


SIGNATURE = Signature(
    name="network-tables",
    stage=Stage.SYSTEM,
    title="a table or budget of the kernel's network is full",
    tell=tell,
    patterns=(
        r"(?P<tcp>\bTCP: out of memory -- consider tuning tcp_mem)",
        r"(?P<neighbours>\bneighbou?r(?:: \w{2,12}:)?.{0,20} table overflow)",
    ),
    explains=("socket-failed", "remote-error", "connection-timeout", "no-route", "master-unreachable", "store-lost"),
    confirm="cat /proc/net/sockstat (mem) and sysctl net.ipv4.tcp_mem; ip neigh | wc -l and net.ipv4.neigh.default",
    cure=(
        "larger limits on that host and in pods: net.ipv4.tcp_mem with more pages, smaller tcp_rmem and tcp_wmem; "
        "net.ipv4.neigh.default.gc_thresh1=8192, gc_thresh2=32768, gc_thresh3=65536 for many neighbours. Fewer sockets "
        "per rank (NCCL_NSOCKS_PERTHREAD) need less"
    ),
    source="the Linux kernel: net/ipv4/tcp.c, net/core/neighbour.c",
    soft=True,
)
