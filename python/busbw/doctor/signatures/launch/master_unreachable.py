"""The store of rank 0 cannot be reached."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="master-unreachable",
    stage=Stage.LAUNCH,
    title=("rank 0's store (MASTER_ADDR:MASTER_PORT) cannot be reached: wrong address, rank 0 gone, or a firewall"),
    patterns=(
        r"failed to connect to any network address of",
        r"client socket has (?:timed out|failed)",
        r"(?:c10d|TCPStore|(?<!\w)socket\.cpp).{0,200}(?:refused|timed out|unreachable|No route)",
        r"(?:MASTER_PORT|MASTER_ADDR|:29\d00).{0,100}(?:refused|timed out|unreachable|No route)",
        r"DistNetworkError",
        r"\bNetwork \S{3,80}:\d{2,5} cannot be connected",  # Paddle
        r"RuntimeError: connect\(\) timed out",  # PyTorch's store until 1.9
        r"\[c10d\].{0,120}(?:refused|timed out|No route)",
        r"(?:DEADLINE_EXCEEDED|UNAVAILABLE).{0,120}(?:coordination service|coordinator)",
        r"[Ff]ailed to connect to .{0,30}coordinat",
    ),
    unless=(
        "address already in use",
        "eaddrinuse",
        "name or service",
        "name resolution",
        "gai error",
    ),
    confirm="nc -zv MASTER_ADDR MASTER_PORT from every node while rank 0 waits",
    cure=(
        "set MASTER_ADDR to an address of rank 0's host that all nodes reach, start rank 0, open "
        "the port in the firewall"
    ),
    source="torch/csrc/distributed/c10d/socket.cpp",
)
