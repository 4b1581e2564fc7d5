"""Errors of EFA and libfabric."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="efa-error",
    stage=Stage.NETWORK,
    title=(
        "the EFA network (libfabric, aws-ofi-nccl) reports errors: security group, placement, resources or a dead peer"
    ),
    patterns=(
        # The driver of the kernel.
        r"\befa [\da-f:.]{7,12}: .{0,120}(?:[Ff]ail|error|timeout|didn't|isn't ready|unsupported|not )",
        r"NET/OFI.{0,60}completed with error",
        r"(?<!NCCL INFO )NET/OFI (?:Couldn't|Could not|Unable to) .{0,120}",
        r"NET/OFI.{0,160}(?:RC: -\d+|failed: |failed\.)",
        r"efa_\d+: (?:Failed|Unable)",
        r"libfabric:.{0,120}<warn>.{0,60}err: \d+",
        r"Unresponsive (?:remote|receiver)",
        r"efa_rdm_\w+.{0,80}error",
        r"fi_(?:cq|ep|mr|av|domain|endpoint)\w*.{0,40}(?:fail|error)",
        r"\bFI_E[A-Z]{3,}\b.{0,60}(?:error|fail)",
        r"NET/OFI.{0,60}\bcomplet\w+ with error",
        r"\befa \S{4,20}: (?:Failed|failed)",
        r"libfabric:\d+:\d+:{1,2}efa:.{0,120}<warn>.{0,60}(?:[Uu]nable|fail|error)",
        r"Unresponsive receiver|Destination unreachable",
        r"NCCL WARN NET/OFI",
    ),
    # What newer releases of the plugin say where they go on without their tuner.
    # And what ping says of any network.
    unless=("defaulting to internal tuner", "icmp_seq"),
    confirm="fi_info -p efa; fi_pingpong -p efa between the two hosts; ulimit -l; FI_LOG_LEVEL=warn",
    cure=(
        "allow all traffic inside the security group in both directions (to itself). Give unlimited memlock, the "
        "device plugin's EFA devices in the container, and one release of the EFA installer and aws-ofi-nccl on all "
        "nodes. A peer that is unresponsive died first"
    ),
    source="aws-ofi-nccl; libfabric prov/efa",
)
