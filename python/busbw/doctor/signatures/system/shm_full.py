"""Shared memory that is too small, as containers have it by default."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="shm-full",
    stage=Stage.SYSTEM,
    title="/dev/shm is full or too small: NCCL or the program can make no shared memory there",
    patterns=(
        r"Usage of EmptyDir volume \"\S{0,40}shm\S{0,40}\" exceeds",
        r"Please check that /dev/shm|unable to write to file </torch_",
        r"\b(?:status|code)(?: of|:)? (?:135|-7)\b",
        r"\b(?:exit|return)\w*(?: with)?(?: exit| return)?[ _-]?(?:code|status)?\W{1,4}(?:-7|135)\b",
        r"Signals\.SIGBUS",
        r"Caught signal 7\b|\bsignal 7 \(Bus error",
        r"exitcode *: *-7\b",
        r"(?:shut ?down|terminated|ended|killed|exited) (?:with|by|on|from) signal:? 7\b",
        r"Signal 7 \(SIGBUS\)",
        r"Call to (?:posix_fallocate|ftruncate|shm_open) failed",
        r"No space left on device.{0,60}(?:shm|nccl)",
        r"No space left on device: '/(?:psm|torch|sem\.mp|mp)[_-]",
        r"(?:/dev/shm|nccl-|shared memory|shm).{0,200}No space left on device",
        r"failed to extend /dev/shm",
        r"Error while creating shared memory segment",
        r"posix_fallocate failed",
        r"fallocate: Failed to extend /dev/shm",
        r"insufficient shared memory",
        r"DataLoader worker.{0,60}killed by signal: Bus error",
        r"Bus error.{0,80}shared memory",
        r"unable to (?:mmap|allocate|write).{0,60}shared memory",
        r"Signal: Bus error|EXIT STRING: Bus error",
        r"Bus error \(core dumped\)",
        r"shm_open.{0,80}fail",
        r"unable to open shared memory object",
        r"failed to create shared memory (?:file|mapping)",
        r"Could not map .{1,80}size \d+",
        r"failed to allocate receive FIFO",  # UCX, whose processes of one host talk there
        r"Error while \w+ shared memory segment",
        r"failed to extend \S{1,80} to \d+ bytes",
        r"(?:open|map) (?:shared memory mapping|view of file)",
        r"Fatal Python error: Bus error",
    ),
    explains=("bad-shm-attach", "job-cancelled"),
    unless=(
        "no such file",
        "permission denied",
        "not permitted",
        "too many open files",
        "file too large",
        "read-only file system",
    ),
    confirm="df -h /dev/shm in the container while the job starts",
    cure=(
        "start the container with --shm-size=1g or more or --ipc=host (Kubernetes: an emptyDir of "
        "medium Memory at /dev/shm); remove stale /dev/shm/nccl-* files"
    ),
    source="NCCL src/misc/shmutils.cc; UCX src/uct/sm/mm/base/mm_iface.c",
)
