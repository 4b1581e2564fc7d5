"""Packets that are larger than the network carries."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mtu",
    stage=Stage.NETWORK,
    title="packets are larger than some link carries (MTU, jumbo frames)",
    patterns=(
        r"message too long",
        # `ping` and `tracepath`, as they answer where nobody tells of a packet that was too large.
        r"a packet of \d+ bytes does not reach the peer",
        r"^\s{0,4}\d{1,2}\??:\s+\S.{0,80}ms pmtu (?P<path>\d{3,5})\b",
        r"\bEMSGSIZE\b",
        r"Frag needed and DF set",
        r"MTU mismatch",
        r"active_mtu.{0,40}(?:differ|mismatch)",
        r"active_mtu (?P<mtu>\d{3,4})\b.{0,60}, (?!(?P=mtu))\d{3,4}\b",
        r"mtu.{0,30}(?:does not match|too (?:small|large))",
    ),
    explains=("ib-invalid-gid", "ib-retry", "no-route"),
    confirm="ping -M do -s 8972 PEER; ip link show | grep mtu on all nodes and switches",
    cure=("set the same MTU on all interfaces and switch ports of the path (9000, or 1500 where one cannot)"),
    source="errno EMSGSIZE; ping's own words",
)
