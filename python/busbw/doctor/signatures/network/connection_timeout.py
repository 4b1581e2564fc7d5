"""A peer does not answer: firewall or wrong interface."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="connection-timeout",
    stage=Stage.NETWORK,
    title=(
        "connections between nodes get no answer: a firewall or security group drops them, or the interface is wrong"
    ),
    patterns=(
        r"TimeoutError: \[Errno 110\]",
        r"socketPollConnect\b.{0,80}(?:no POLLOUT|failed with error|returned \d)",
        r"gloo.{0,80}connect timeout",
        r"(?:connect|Connect)\w* to \S+ .{0,40}(?:Connection )?timed out",
        r"Call to connect .{0,60}timed out",
        r"Timed out (?:trying to connect|during handshake while connecting) to (?:tcp|tls|ucxx?)://",  # Dask
        r"exceeded timeouts",
        r"socketStartConnect.{0,100}timed out",
        r"(?:NCCL|socket|bootstrap).{0,160}Connection timed out",
        r"socketPollConnect.{0,60}timed out",
        r"recv from \S+ failed : Connection timed out",
    ),
    unless=(
        "c10d",
        "tcpstore",
        "29500",
        "modify_qp",
        "ssh:",
        "no route to host",
    ),
    confirm=(
        "nc -zv PEER PORT from the other node with both processes running; iptables -L -n; the cloud's security group"
    ),
    cure=(
        "allow all TCP ports between the nodes (NCCL takes ephemeral ports: "
        "net.ipv4.ip_local_port_range), set NCCL_SOCKET_IFNAME to the right interface"
    ),
    source="NCCL src/misc/socket.cc; errno 110",
)
