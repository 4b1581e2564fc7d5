"""Ranks of one host that do not share /dev/shm."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="bad-shm-attach",
    stage=Stage.SYSTEM,
    title=(
        "ranks of one host do not share /dev/shm or it cannot be written: their containers have an IPC namespace each"
    ),
    patterns=(
        r"\[Errno 13\] Permission denied: ./dev/shm",
        r"Error while attaching to shared memory segment",
        r"shared memory file .{0,80}(?:No such file|Permission denied)",
        r"Could not map .{0,80}/?(?:dev/shm|nccl-)",
        r"Could not map /dev/shm",
        r"shm_open\b.{0,120}(?:No such file|Permission denied|not permitted)",
        r"(?:open|create|attach).{0,40}/dev/shm/nccl\S*.{0,60}(?:No such file|Permission denied)",
        # UCC's shared memory between ranks of a host, over System V's segments.
        r"\bTL_SHM +ERROR\b.{0,60}(?:attach|shmat|shmdt|shmget)",
        r"NCCL.{0,200}/dev/shm.{0,100}(?:No such file|Permission denied|Read-only file system)",
    ),
    unless=("no space left",),
    confirm="ls -ld /dev/shm; ls /dev/shm/nccl-* in each container of the host while the job starts",
    cure=(
        "give the containers one IPC namespace (--ipc=host) or one shared /dev/shm, writable by the "
        "job's user; else NCCL_SHM_DISABLE=1"
    ),
    source="NCCL src/misc/shmutils.cc",
)
