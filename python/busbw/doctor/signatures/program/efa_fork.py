"""A process that forks after EFA's or InfiniBand's memory was registered."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="efa-fork",
    stage=Stage.PROGRAM,
    title="a process forks after memory was registered with EFA, which may corrupt it, so that libfabric ends it",
    patterns=(
        r"libfabric EFA provider is operating in",
        r"EFA provider.{0,80}\bfork\b.{0,60}(?:unsafe|corrupt|abort)",
        r"\brdma_fork_init\b.{0,60}(?:fail|error)|ibv_fork_init\S{0,4} failed",
    ),
    confirm="uname -r and fi_info --version on each host; look for DataLoader workers and subprocess calls",
    cure=(
        "set FI_EFA_FORK_SAFE=1 (RDMAV_FORK_SAFE=1 before libfabric 1.13), or start workers by spawn "
        "or forkserver; with "
        "kernels of 5.13 and later and a new rdma-core nothing needs to be set"
    ),
    source="libfabric prov/efa/src/efa_fork_support.c",
    explains=("process-crashed",),
)
