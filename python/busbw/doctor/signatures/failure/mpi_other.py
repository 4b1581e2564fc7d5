"""MPI reports an error that no other signature knows."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mpi-other",
    stage=Stage.FAILURE,
    title="MPI reports: {what}",
    patterns=(
        r"(?P<what>It looks like .{3,40} failed for some reason)",
        r"ORTE_ERROR_LOG: (?P<what>.{5,120})",
        r"\b(?:ORTE|PRTE|OPAL|OMPI) (?:ERROR|has) ?:? ?(?P<what>.{5,120})",
        r"(?P<what>No components were able to be opened in the \S{1,40} framework.{0,20}"
        r"|A requested component was not found.{0,60})",
        r"(?P<what>Open MPI failed an? .{5,100})",
        r"(?P<what>attempted to initialize MPI.{0,60}|MPI_(?:FINALIZE|INIT)\w* was invoked.{0,60}"
        r"|An internal error has occurred during the startup of Open MPI)",
        r"(?P<what>invoked an MPI function that is not supported|A library call unexpectedly failed)",
        r"\[mpiexec@\S{1,80}\] (?P<what>.{5,120}(?:error|fail|unable).{0,40})",
        r"\bMPIR?_\w+\(\d+\)\.{2,}: (?P<what>.{5,100})",
    ),
    unless=(
        "warning",
        "another transport will be used",
    ),
    confirm="run hostname, then an MPI program without GPUs, with the same mpirun line; --mca plm_base_verbose 10",
    cure=(
        "use one MPI on all hosts and in the container, name the network (--mca btl_tcp_if_include), or "
        "launch with srun or torchrun: NCCL needs MPI for its start only"
    ),
    source="Open MPI's help texts; MPICH",
    last=True,
)
