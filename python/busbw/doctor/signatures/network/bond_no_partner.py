"""A bond of network ports whose switch does not take part in it."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="bond-no-partner",
    stage=Stage.NETWORK,
    title="the bond of network ports gets no answer from the switch (LACP, 802.3ad): the modes differ",
    patterns=(
        r"No 802\.3ad response from the link partner",
        r"bond\w*: .{0,60}(?:no active slave|LACP .{0,40}(?:time|fail))",
    ),
    confirm="cat /proc/net/bonding/bond0 (Partner Mac Address all zeros); the switch's port channel",
    cure=(
        "configure the switch's ports as one LACP port channel, or the bond as active-backup; then ping the peer over "
        "it, and give RDMA of the bond its GID (show_gids)"
    ),
    source="Linux drivers/net/bonding",
    explains=("ib-connect-timeout", "connection-timeout", "no-route", "ib-retry"),
)
