"""Virtual NICs that NCCL fuses cannot be made."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="nic-fusion",
    stage=Stage.SETTING,
    title="NICs cannot be fused into virtual ones as the settings or the topology file ask: {what}",
    patterns=(
        r"NET/IB ?: (?P<what>Can't make virtual NIC.{0,60})",
        r"NET/IB ?: (?P<what>Cannot (?:allocate any more virtual|use physical) device.{0,40})",
        r"NET/IB ?: (?P<what>Requested properties for (?:vNic|GIN).{0,80})",
        r"NET/IB ?: (?P<what>Trying to use non-exist[ae]nt virtual device.{0,20})",
        r"(?P<what>Invalid number of network devices = \d+ for policy \w+|Unknown netDevs policy)",
        r"(?P<what>TOPO/NET : (?:Can't find busId|Couldn't generate unique).{0,60})",
        r"(?P<what>localHostHash = \S+ not found|nLocals = \d+ should be a div\w+.{0,60})",
    ),
    confirm="env | grep -e NCCL_NET_MERGE -e NCCL_NET_FORCE_MERGE -e NCCL_NETDEVS_POLICY; NCCL_DEBUG_SUBSYS=GRAPH,NET",
    cure=(
        "unset NCCL_NET_FORCE_MERGE, NCCL_NET_MERGE_LEVEL and NCCL_NETDEVS_POLICY, or name devices that every"
        " host has; at most 4 ports make one virtual NIC"
    ),
    versions="NCCL 2.24 and later",
    source="NCCL src/transport/net_ib/common.cc, src/graph/topo.cc",
)
