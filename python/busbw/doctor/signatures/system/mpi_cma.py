"""MPI's copies between processes of one host are forbidden."""

from busbw.doctor.finding import Severity
from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="mpi-cma",
    stage=Stage.SYSTEM,
    title="the container forbids MPI to copy between processes of one host (cross-memory attach, ptrace)",
    patterns=(
        r"Read -1, expected \d+, errno = \d+",
        r"(?:process_vm_(?:read|write)v|cma_ep|btl_vader|btl_sm)\b.{0,80}(?:Operation not permitted|failed|EPERM)",
        r"Linux kernel CMA support was requested.{0,80}not available",
    ),
    cost="MPI's own messages within a host are slow or fail; NCCL does not need them",
    severity=Severity.WARNING,
    confirm="cat /proc/sys/kernel/yama/ptrace_scope; docker inspect: CapAdd, SecurityOpt",
    cure=(
        "start the container with --cap-add=SYS_PTRACE (or --security-opt seccomp=unconfined), or mpirun --mca "
        "btl_vader_single_copy_mechanism none, UCX_TLS=^cma"
    ),
    source="Open MPI opal/mca/btl/vader and sm; UCX src/uct/sm/scopy/cma",
)
