"""No local port or address is left."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="ports-exhausted",
    stage=Stage.NETWORK,
    title="no local port is left for connections (or the address is not this host's)",
    patterns=(
        r"Cannot assign requested address",
        r"EADDRNOTAVAIL",
    ),
    confirm="ss -s; sysctl net.ipv4.ip_local_port_range; ip -br addr",
    cure=(
        "widen net.ipv4.ip_local_port_range and set net.ipv4.tcp_tw_reuse=1; check that MASTER_ADDR "
        "and NCCL_SOCKET_IFNAME are of this host"
    ),
    source="errno EADDRNOTAVAIL",
)
