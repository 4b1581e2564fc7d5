"""A connection between ranks failed, and NCCL tells only on which way its error came back."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="connection-returned",
    stage=Stage.FAILURE,
    title=(
        "a connection between ranks failed (ncclSystemError from {where}) and NCCL does not say why: a firewall, "
        "a wrong interface, or a peer that is gone"
    ),
    patterns=(r"NCCL INFO (?:\S{1,60}/)?(?P<where>(?:socket|net_socket|bootstrap)\.cc:\d{1,5}) -> 2\b",),
    explains=("proxy-failure", "nccl-error"),
    last=True,
    echo=True,
    soft=True,
    confirm=(
        "the log of the rank at the other end, with NCCL_DEBUG=INFO: did it end first? `ip -br addr` on both hosts: "
        "can the addresses of `Bootstrap : Using` reach each other?"
    ),
    cure=(
        "name the interface that all hosts share (NCCL_SOCKET_IFNAME) and open all TCP ports between them; "
        "where the other rank ended first, mend its error"
    ),
    source="NCCL src/include/checks.h: NCCLCHECK; src/misc/socket.cc, src/bootstrap.cc",
)
