"""A program calls MPI before its start, after its end, or starts it twice."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mpi-misused",
    stage=Stage.PROGRAM,
    title="the program calls MPI where it may not: before MPI_Init, after MPI_Finalize, or starts it twice",
    patterns=(
        r"MPI \(via MPI_INIT or MPI_INIT_THREAD\) (?P<when>more than once|after MPI_FINALIZE)",
        r"\*\*\* The (?P<call>MPI_\w{2,40})\(\) function was called (?P<when>before MPI_INIT|after MPI_FINALIZE)",
        r"function MPI_FINALIZE was invoked (?P<when>before MPI was|multiple times)",
        r"Attempting to use an MPI routine (?:\((?P<call>\w{2,60})\) )?(?P<when>before initializing|after finalizing)",
        r"intercepted a call to free memory that is still being used",
    ),
    explains=("pmi", "mpi-error", "mpi-other", "mpi-launch", "process-crashed", "killed-by-launcher"),
    confirm="run one rank of it under gdb, with a breakpoint at MPI_Init and MPI_Finalize",
    cure=(
        "call MPI_Init once in each process and before any other call of MPI, and MPI_Finalize once, last; libraries "
        "ask MPI_Initialized first. An mpirun of another MPI may give ranks that never come up"
    ),
    source="Open MPI ompi/runtime and ompi/errhandler; MPICH src/mpi/init",
)
