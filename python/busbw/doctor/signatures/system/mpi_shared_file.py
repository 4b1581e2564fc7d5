"""Ranks of a host share memory by a file that lies on a network's file system."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mpi-shared-file",
    stage=Stage.SYSTEM,
    severity=Severity.WARNING,
    soft=True,
    title="MPI keeps the memory that ranks of a host share in a file on a network's file system (TMPDIR lies there)",
    patterns=(r"directory that appears to be mounted on a network filesystem",),
    cost="messages between ranks of one host go through the file server",
    confirm="df -T $TMPDIR /tmp /dev/shm on that host",
    cure=(
        "export TMPDIR=/tmp (or another local disk or tmpfs) on all hosts, or --mca orte_tmpdir_base /tmp (PRRTE: "
        "--prtemca prte_tmpdir_base /tmp); --mca shmem posix, "
        "or btl_vader_backing_directory /dev/shm, leaves the file out"
    ),
    source="Open MPI opal/mca/shmem/mmap",
)
