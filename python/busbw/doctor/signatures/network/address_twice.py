"""Two hosts of a network have one address."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="address-twice",
    stage=Stage.NETWORK,
    title="two hosts of the network have one IP address: packets reach now the one, now the other",
    patterns=(
        r"\bIP address \S{3,45} cannot be configured because it is already in use in the network by host",
        r"\b(?:IPv[46]:? )?duplicate address \S{3,45} (?:used by \S{4,30} )?detected",
        r"\b(?:IP(?:v4)? address conflict|duplicate IP address|address conflict detected)\b.{0,80}\d\.\d",
    ),
    explains=("remote-error", "connection-timeout", "connection-refused", "socket-failed", "ib-retry", "no-route"),
    between_nodes=True,
    confirm="arping -D -I IF ADDRESS from a third host: two MAC addresses answer",
    cure=(
        "give one of both another address: the MAC in that line names the host (ip -br link on all, the switch's table "
        "of MACs). Cloned images need own machine-ids and leases. Then ip neigh flush all on their peers"
    ),
    source="NetworkManager (ACD), the Linux kernel: net/ipv6/addrconf.c",
)
