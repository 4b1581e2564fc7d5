"""One port of a host that is slower than its neighbours."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="port-slow",
    stage=Stage.HARDWARE,
    title="one port of a host is slower than all its neighbours: {port} runs at {rate} of {usual} Gbit/s",
    patterns=(
        r"\b(?P<port>[\w.-]{2,40}) runs at (?P<rate>\d{1,4}) Gbit/s where all its neighbours run at (?P<usual>\d{1,4})",
    ),
    explains=("port-rates",),
    confirm="mlxlink -d DEVICE -m -c: speed, width, BER and the module; ibstat again after the cable was seated",
    cure=(
        "seat or replace its cable and transceiver, and compare the switch's port with its neighbours (speed, split, "
        "width); leave the port out by NCCL_IB_HCA=^NAME until then"
    ),
    cost="a ring over all ports is as slow as the slowest",
    severity=Severity.WARNING,
    source="infiniband-diags: ibstat, ibstatus; ethtool",
)
