"""Gloo's processes do not find each other."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="gloo-mesh",
    stage=Stage.NETWORK,
    title=(
        "Gloo cannot join the ranks: each host gives the address to which its own name resolves (often 127.0.1.1) or "
        "that of another interface, or a firewall drops the connection"
    ),
    patterns=(
        r"Gloo connectFullMesh failed",
        r"gloo.{0,80}(?:connectFullMesh|rendezvous/context)\b.{0,80}(?:fail|error|timed? ?out)",
        r"gloo.{0,80}address family mismatch",
    ),
    unless=("connection refused", "connection closed", "connection reset", "broken pipe"),
    explains=("gloo-error",),
    confirm="getent hosts $(hostname) on every host; ip -br addr; nc -zv between the hosts on a free port",
    cure=(
        "set GLOO_SOCKET_IFNAME (and NCCL_SOCKET_IFNAME) to the interface that all hosts share, on every host. Take "
        "the host's name off the 127.0.1.1 line of /etc/hosts; for vLLM give each node its own VLLM_HOST_IP"
    ),
    source="torch/csrc/distributed/c10d/ProcessGroupGloo.cpp; gloo/transport/tcp/pair.cc",
)
