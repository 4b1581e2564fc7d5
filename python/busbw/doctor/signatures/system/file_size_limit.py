"""A limit on the size of files, which counts for shared memory too."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="file-size-limit",
    stage=Stage.SYSTEM,
    title="a limit on the size of files stops a write, to /dev/shm as well (ulimit -f)",
    patterns=(
        r"\bFile too large\b",
        r"\bFile size limit exceeded\b",
        r"\bSIGXFSZ\b",
        r"\[Errno 27\]",
    ),
    unless=("entity too large", "http", "413"),
    explains=("python-exception", "process-crashed"),
    confirm="ulimit -f in the job's own shell; prlimit --fsize --pid PID",
    cure=(
        "ulimit -f unlimited in the job's script, fsize in /etc/security/limits.conf, LimitFSIZE of slurmd's or the "
        "container's unit. Where the limit is unlimited the file system's own limit was met: take another one"
    ),
    source="errno EFBIG; NCCL src/misc/shmutils.cc",
)
