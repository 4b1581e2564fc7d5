"""mpirun could not start its processes."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mpi-launch",
    stage=Stage.LAUNCH,
    title="MPI could not start its processes: slots, ssh or installation differ between nodes",
    patterns=(
        r"/kubexec\.sh: \d+: .{3,80}not found",
        # Hydra, MPICH's launcher, names function and file where it fails.
        r"\[(?:mpiexec|proxy:[\d:]{1,12})@[^\]]{1,80}\] \w{3,60} \([\w./-]{3,120}\.\w{1,3}:\d{1,6}\): \S",
        r"A process or daemon was unable to complete a TCP connection",
        r"pmix_ptl\w*: .{0,60}(?:could not|unable|fail)",
        r"\borted: (?:No such file|not found)",
        r"not enough slots available",
        r"one of the requested hosts is not included in the current",
        r"no allocated resources for the application",
        r"ORTE (?:was unable|daemon has unexpectedly failed|does not know|has lost communication)",
        r"PRTE? (?:was unable|daemon|has lost)",
        r"mpirun was unable to (?:find|launch|start)",
        r"unable to reliably start one or more daemons",
        r"Host key verification failed",
        r"Permission denied \(publickey",
        r"mpirun has detected an attempt to run as root",
        r"\bhydra_(?!full_error)\w+.{0,80}(?:fail|unable|error)",  # HYDRA_FULL_ERROR is of the Hydra of settings
        r"ssh: connect to host.{0,100}",
        r"unable to locate.{0,40}executable",
        r"could not access\s+or execute an executable",
        r"orted: command not found",
        r"sequential map was requested|not enough node entries",
        r"already filled\.?$|nodes which are allocated for this job are already filled",
        r"unable to (?:launch|start|find) the (?:specified|following) (?:application|executable|process)",
        r"(?:ORTE|PRTE) daemon has unexpectedly failed",
        r"(?:ORTE|PRTE) was unable to reliably start",
        r"^\s{1,8}Error: +Exec format error",
        r"hostfile .{0,80}(?:does not exist|could not be (?:found|opened|parsed))",
        r"HYDU?_?\w+.{0,120}(?:unable to|error (?:waiting|connecting|parsing|executing))",
        # Slurm's OverSubscribe=YES only tells how nodes are shared
        r"(?-i:oversubscribe)(?!d. Expect|d due to)|more processes than cpus",
        r"Unable to (?:run bind|open|change) .{0,40}(?:proxy|hydra)",
        r"mapping policy .{0,40}(?:cannot|not)",
        r"\bHYDT?_\w+: .{0,60}(?:assert|fail|error)",
    ),
    confirm="ssh NODE true without a password, `which mpirun orted` on every node",
    cure=(
        "give each host its slots (-H host:8 or a hostfile), set up ssh keys (also of containers), "
        "install the same MPI at the same place; --allow-run-as-root in containers"
    ),
    source="Open MPI's and Hydra's own words",
)
