"""A call of MPI failed."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mpi-error",
    stage=Stage.FAILURE,
    title="a call of MPI failed: {what}",
    patterns=(
        r"MPICH ERROR \[Rank \d+\].{0,160}Abort\(-?\d+\).{0,60}?: (?P<what>(?!Fatal error)[\w:].{5,100})",
        r"\*\*\* An error occurred in (?P<what>MPI_\w+)",
        r"\*\*\* (?P<what>MPI_ERR_\w+)",
        r"MPI_ERRORS_ARE_FATAL",
        r"Fatal error in (?P<what>P?MPI_\w+|internal_\w+)",
        r"Assertion failed in file (?P<what>src/mp\S+ at line \d+)",
        r"Failed: MPI error (?P<what>\S{1,80})",
        r"ompi_mpi_init: (?P<what>.{5,80})",
    ),
    explains=("killed-by-launcher",),
    confirm="run an MPI program without GPUs (hostname, then osu_latency) with the same mpirun line",
    cure=(
        "see MPI's own message above it: ranks, counts and windows must agree. With the same MPI on all hosts and "
        "without UCX (--mca pml ob1 --mca btl tcp,self), it is MPI's transport or the program's call"
    ),
    source="Open MPI ompi/errhandler; MPICH src/mpi/errhan",
)
