"""The scheduler and MPI do not speak to each other."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="pmi",
    stage=Stage.LAUNCH,
    title=(
        "srun and MPI do not understand each other (PMI, PMIx): each process believes that it is "
        "alone, or fails in MPI_Init"
    ),
    patterns=(
        r"OMPI was not built with SLURM",
        r"mpi plugin for mpi/|plugin name for mpi/|Cannot create context for mpi/",
        r"mpi_pmi\w{0,6}\.so\W|cannot create mpi context|MPI: Unable to load any plugin",
        r"PMI2?_Init failed",
        r"No PMIx? server was reachable",
        r"cray_pmi_\w+\.c:\d+: .{0,60}Assertion",
        r"PMIx?.{0,60}(?:fail|UNREACHABLE|not found|unable|error)",
        r"MPI_Init\w*.{0,60}(?:fail|error)",
        r"An error occurred in MPI_Init",
        r"OPAL ERROR",
        r"opal_init.{0,40}fail",
        r"orte_init.{0,40}fail",
        r"mpi/pmix(?:_v\d+)?: (?:error|pmixp_)",
    ),
    unless=("business card", "[mpiexec@", "[proxy:", "(argc=", "mpi process died"),
    confirm="srun --mpi=list; ompi_info | grep -i pmi",
    cure=("srun --mpi=pmix (or pmi2) with an MPI built for it, or start with mpirun inside the allocation"),
    source="Open MPI's and Slurm's own words",
)
