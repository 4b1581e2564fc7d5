"""In-network reduction (SHARP, CollNet) was asked for and does not work."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="sharp",
    stage=Stage.SETTING,
    title="in-network reduction (SHARP, CollNet) does not work: NCCL falls back or fails",
    patterns=(
        r"\bFailed to lock SAT tree|Streaming Tree lock failed",
        r"CollNet is not supported or fails to initialize",
        r"SHARP.{0,80}(?:fail|error|not (?:found|available|running|permitted)|unable|No resources)",
        r"sharp(?:d|_am|_coll)\w*.{0,80}(?:fail|error|unable|refused|not )",
        r"fails to share parent comms .{0,60}sharp",
        r"disabling CollNet",
        r"CollNet.{0,60}(?:only supports|disabled|fail)",
        r"Failed to connect to Aggregation Manager",
        r"\brequested OSTs\b|\bSHArPD\b.{0,60}(?:fail|error)|\bsharp_\w+ failed|AM not reachable",
        r"Cannot initialize CollNet, using point-to-point",
    ),
    explains=("mpi-network", "no-algorithm"),
    unless=(
        "(nvls)",
        "nvlink sharp",
        "node threshold",
        "sharp is not available: libsharp",
    ),
    confirm="sharp_hello; ibdiagnet --sharp; systemctl status sharp_am on the subnet manager's host",
    cure=(
        "start the aggregation manager and free its resources, load the SHARP plugin of the same "
        "HPC-X on all nodes, or set NCCL_COLLNET_ENABLE=0"
    ),
    cost="reductions run over rings and trees instead",
    severity=Severity.WARNING,
    source="NCCL src/transport/coll_net.cc; HPC-X",
)
