"""A host that is asked for more connections at once than it lets wait."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="connection-backlog",
    stage=Stage.SYSTEM,
    title="a host drops connections since too many come at once: its queue of new ones (somaxconn) is too short",
    patterns=(
        r"[Pp]ossible SYN flooding on port",
        r"times the listen queue of a socket overflowed",
        r"SYNs to LISTEN sockets dropped",
        r"\b(?:TcpExt)?ListenOverflows\W{1,20}[1-9]",
    ),
    confirm="nstat -az TcpExtListenOverflows on rank 0's host while the job starts; sysctl net.core.somaxconn",
    cure=(
        "on rank 0's host: sysctl -w net.core.somaxconn=65535 net.ipv4.tcp_max_syn_backlog=65535 (in the pod, too); "
        "let ranks come one after the other: NCCL_UID_STAGGER_RATE, more unique ids (ncclCommInitRankScalable)"
    ),
    source="Linux net/ipv4/tcp_input.c, netstat -s",
    explains=("remote-error", "connection-timeout", "connection-refused", "master-unreachable", "socket-failed"),
    soft=True,
)
