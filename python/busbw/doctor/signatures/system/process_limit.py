"""No further thread or process may be made."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="process-limit",
    stage=Stage.SYSTEM,
    title="no further thread or process may be started (nproc, pids limit)",
    patterns=(
        r"what\(\): +(?:thread: )?Resource temporarily unavailable|RLIMIT_NPROC \d+ current",
        r"fork rejected by pids controller",
        r"Resource temporarily unavailable.{0,40}(?:fork|thread|clone)",
        r"(?:clone|fork|vfork)\w{0,3}[:(].{0,40}Resource temporarily",
        r"pthread_create.{0,60}(?:fail|Resource temporarily unavailable)",
        r"Thread creation failed",
        r"can't start new thread",
        r"fork.{0,20}Resource temporarily unavailable",
        r"libgomp: Thread creation failed",
    ),
    confirm="ulimit -u; cat /sys/fs/cgroup/pids.max",
    cure="raise nproc and the container's pids limit (--pids-limit -1), set OMP_NUM_THREADS",
    explains=("process-crashed",),
    source="errno EAGAIN of pthread_create",
)
