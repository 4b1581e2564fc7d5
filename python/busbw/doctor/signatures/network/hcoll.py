"""Open MPI's collectives of Mellanox (hcoll) fail or warn, which NCCL does not need."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="hcoll",
    stage=Stage.NETWORK,
    title="MPI's collectives of Mellanox (hcoll) cannot start on these nodes",
    patterns=(
        r"\bLOG_CAT_\w{2,12}\].{0,120}(?:not available|error|fail|exited|unable|cannot|could not)",
        r"\bhcoll\w*.{0,80}(?:error|fail|unable|cannot|could not|not available)",
        r"\bHCOLL\b.{0,60}(?:WARN|ERR)",
    ),
    unless=("shm", "no space left"),
    confirm="run once with --mca coll_hcoll_enable 0 (or -x HCOLL_ENABLE_MCAST_ALL=0)",
    cure=(
        "leave it out: mpirun --mca coll_hcoll_enable 0 (or OMPI_MCA_coll_hcoll_enable=0); NCCL "
        "needs MPI for its start "
        "only. Else name its device: -x HCOLL_MAIN_IB=mlx5_0:1"
    ),
    source="HPC-X's hcoll",
    explains=("mpi-other", "process-crashed"),
    soft=True,
)
