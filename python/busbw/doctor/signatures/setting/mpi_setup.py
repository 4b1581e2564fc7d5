"""What MPI was told, or how it is installed, does not let it start as asked."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mpi-setup",
    stage=Stage.SETTING,
    title="MPI refuses how it was called or installed: an option, a variable, or what it finds on that host",
    patterns=(
        r"Two mutually-exclusive MCA variables were specified",
        r"specified [\w -]{2,40} directive is not recognized",
        r"(?:orterun|mpirun|mpiexec|prterun|prun)\W{1,4}Error: unknown option \W?(?P<what>[\w-]{1,40})",
        r"Unable to locate the variable file \W(?P<what>[^\s\"]{1,100})",
        r"Both TCP interface include and exclude lists were specified",
        r"requested CUDA support with the --mca mpi_cuda_support",
        r"invalid value was supplied for an (?:enum variable|MCA variable)",
        r"does not support multiple different (?:prefix\b|\S{1,30} options)",
        r"can only take a single negation operator",
        r"request for multiple cpus-per-proc was given",
        r"Conflicting directives for mapping policy|qualifiers that contradict each other were given",
        r"mapping request contains an unrecognized",
        r"But I couldn't open the help file:",
        r"unable to find an underlying prterun|could not execute the underlying prterun",
        r"SLURM process starter for \w{2,12} was unable to locate",
        r"resource allocator expects to find the following environment variable",
        r"installation of Open MPI was configured without support for",
        r"detected a mismatch in versions between two processes",
        r"No usable network interfaces were found on this host, so no TCP",
        r"in a path that is too long for the Unix domain socket|path is too long for a usock",
        r"call to mkdir was unable to create the desired directory",
        r"request was made to bind to that would result in binding more|made to bind that would require binding",
        r"requested more processes than the ppr for|rankfile that was used claimed that a host",
        r"is on the list of prohibited locations|due to a missing libz library",
        r"detected a parse error in the hostfile",
        r"srun returned non-zero exit status \(\d{1,6}\) from launching",
        r"\bfork\(\)\" system call to create a child process\.  Open MPI is",
    ),
    explains=("pmi", "mpi-error", "mpi-other", "mpi-launch", "mpi-network", "killed-by-launcher"),
    soft=True,
    confirm="which -a mpirun; mpirun --version; ompi_info --path prefix; env | grep -E 'OMPI_|PRTE_|PMIX_|OPAL_'",
    cure=(
        "correct the option or variable that is named, also in files (openmpi-mca-params.conf, ~/.openmpi) and the "
        "environment (OMPI_MCA_*, PRTE_MCA_*); one MPI of one release at one path on all hosts"
    ),
    source="Open MPI's and PRRTE's help texts",
)
