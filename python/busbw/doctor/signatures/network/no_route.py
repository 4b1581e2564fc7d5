"""There is no way to the peer's address."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="no-route",
    stage=Stage.NETWORK,
    title=(
        "there is no route to a peer's address: it is of an interface that the nodes do not share, "
        "or a firewall rejects it"
    ),
    patterns=(
        r"connect.{0,80}failed : Invalid argument",
        # Switches and hosts that route by BGP.
        r"%ADJCHANGE: neighbor .{0,120}\bDown\b|%BGP-\d-NOTIFICATION.{0,80}(?:hold time|[Hh]old timer)",
        # Long lines are often cut off.
        r"No route to\b",
        r"Network is unreachable",
        r"\bFrom \S{3,60}.{0,40} Destination (?:Host|Net\w*|Port) Unreachable",  # ping
        # ibping, which asks over InfiniBand and no route, puts a space before its unit.
        r"packets transmitted, 0 (?:packets )?received.{0,40} 100% packet loss(?!, time \d{1,9} ms)",
        # Firewalls, of a connection within a private network.
        r"(?:BLOCK|REJECT|DROP|DENY)\w{0,4}\W{1,4}IN=\w.{0,240}"
        r"SRC=(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))\..{0,120}PROTO=TCP"
        # Nobody's ranks listen there: strangers and administrators knock.
        r"(?!.{0,40}DPT=(?:22|23|25|80|443|445|3389|5900|8080)\b)",
    ),
    unless=(
        "modify_qp",
        "ssh:",
        "29500",
        "c10d",
    ),
    explains=("rendezvous-timeout", "master-unreachable"),
    confirm="ip route get PEER on the node; ip -br addr on the peer",
    cure=(
        "set NCCL_SOCKET_IFNAME to the interface that all nodes share (e.g. "
        "NCCL_SOCKET_IFNAME=eth0); open the firewall (iptables or firewalld with REJECT says `No "
        "route to host`)"
    ),
    source="NCCL src/misc/socket.cc; errno 113, 101",
)
