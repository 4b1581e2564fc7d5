"""Nobody listens at the peer's address."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="connection-refused",
    stage=Stage.NETWORK,
    title=(
        "a peer's address refuses connections: its process is gone or not started, or the address "
        "is of another interface"
    ),
    patterns=(
        r"Software caused connection abort",
        r"exceeded retries",
        r"refused.{0,40}exceeded error retry",
        r"Connection refused",
        r"Couldn't connect to \S{1,80}:\d+",
        r"^\W{0,3}Failed to connect to (?:\d{1,3}\.){3}\d{1,3}:\d{2,5}\s*$",  # llama.cpp, of a server of its RPC
        r"Unable to init the socket connection",
    ),
    unless=(
        "c10d",
        "tcpstore",
        "master",
        "29500",
        "sharp",
        "rendezvous",
        "aggregation manager",
        "connect to am ",
        "socket.cpp",
        "ssh:",
        "retrying",
        "probe failed",
        "failed to send message_task_exit",  # srun of a step that ends is gone first
    ),
    confirm=("on the peer: does its rank still run, and is the address one of its interfaces (ip -br addr)"),
    cure=(
        "see why the peer's rank ended or did not start; set NCCL_SOCKET_IFNAME to an interface "
        "that all nodes share; open the firewall"
    ),
    source="NCCL src/misc/socket.cc; errno 111",
)
