"""Open MPI leaves out its old transport for InfiniBand."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="openib-unused",
    stage=Stage.EFFECT,
    title=(
        "Open MPI leaves out its openib transport: no port of the RDMA device is active, or UCX should drive it; "
        "MPI goes on over TCP or UCX"
    ),
    patterns=(
        r"there are no active ports detected \(or Open MPI|\(or Open MPI was unable to use",
        r"No OpenFabrics connection schemes reported",
        r"openib BTL (?:\(OpenFabrics support\) )?will be (?:disabled|ignored)",
    ),
    cost="MPI's own messages are slower; NCCL chooses its network by itself",
    severity=Severity.WARNING,
    soft=True,
    between_nodes=True,
    confirm="ibstat (State: Active?); ompi_info | grep -i ucx; mpirun --mca pml ucx hostname",
    cure=(
        "where a port should be up: check cable and subnet manager; else say --mca pml ucx, or --mca btl ^openib, "
        "which ends the warning"
    ),
    source="Open MPI's help-mpi-btl-openib.txt and help-mpi-btl-openib-cpc-base.txt",
)
