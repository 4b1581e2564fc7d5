"""mpirun could not start its processes."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mpi-launch",
    stage=Stage.LAUNCH,
    title="MPI could not start its processes: slots, ssh or installation differ between nodes",
    patterns=(
        r"not enough slots available",
        r"ORTE (?:was unable|daemon has unexpectedly failed|does not know|has lost communication)",
        r"PRTE? (?:was unable|daemon|has lost)",
        r"mpirun was unable to (?:find|launch|start)",
        r"unable to reliably start one or more daemons",
        r"Host key verification failed",
        r"Permission denied \(publickey",
        r"mpirun has detected an attempt to run as root",
        r"hydra_\w+.{0,80}(?:fail|unable|error)",
        r"ssh: connect to host.{0,100}",
        r"unable to locate.{0,40}executable",
        r"could not access\s+or execute an executable",
        r"orted: command not found",
    ),
    confirm="ssh NODE true without a password, `which mpirun orted` on every node",
    cure=(
        "give each host its slots (-H host:8 or a hostfile), set up ssh keys (also of containers), "
        "install the same MPI at the same place; --allow-run-as-root in containers"
    ),
    source="Open MPI's and Hydra's own words",
)
