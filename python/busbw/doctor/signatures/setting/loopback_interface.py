"""The loopback interface is used by a job of several nodes."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="loopback-interface",
    stage=Stage.SETTING,
    title=(
        "ranks talk over the loopback interface, which other nodes cannot reach "
        "(NCCL_SOCKET_IFNAME=lo, or a host name that is 127.0.0.1 in /etc/hosts)"
    ),
    patterns=(
        r"Using the loopback address as fallback",
        r"unique IP address.{0,120}\{'(?:127\.|0\.0\.0\.0)",
        r"connect(?:ion)? to (?:\S{1,40} )?127\.0\.[01]\.1<\d+> (?:failed|returned)",
        r"Connect to 127\.0\.[01]\.1<\d+>",
        r"failed to connect to any network address of \((?:localhost|127\.0\.0\.1), \d+\)",
    ),
    explains=(
        "gloo-mesh",
        "connection-refused",
        "master-unreachable",
    ),
    confirm="getent hosts $(hostname) on every node; env | grep NCCL_SOCKET_IFNAME",
    cure=(
        "set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME to the interface between the nodes, MASTER_ADDR to the first "
        "node's address; take the host's name off the 127.0.1.1 line of /etc/hosts"
    ),
    source="NCCL src/misc/socket.cc",
)
