"""A file system on which no file can be locked."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="no-flock",
    stage=Stage.SYSTEM,
    title=(
        "a file system does not let files be locked (flock), as Lustre that is mounted with noflock; other ranks' "
        "errors follow"
    ),
    patterns=(
        r"does not (?:appear to )?support flock",
        r"\b(?:flock|lockf|fcntl|filelock|FileLock|LOCK_EX)\b.{0,120}"
        r"(?:Function not implemented|Operation not supported|No locks available|Unknown error 524)",
        r"unable to lock file, errno = (?:37|38|95|524)\b",
    ),
    explains=("python-exception", "file-system"),
    later=(
        "ib-retry",
        "ib-completion-error",
        "ib-flush",
        "socket-failed",
        "remote-error",
        "process-crashed",
        "watchdog-timeout",
        "store-lost",
        "connection-refused",
    ),
    confirm="grep lustre /proc/mounts (flock, noflock, localflock); flock FILE true on that file system",
    cure=(
        "put the cache on a file system that locks (HF_HOME, HF_DATASETS_CACHE, TRITON_CACHE_DIR, XDG_CACHE_HOME: a "
        "local disk, or a mount with flock), or mount Lustre with -o flock. Programs of your own: SoftFileLock; HDF5: "
        "HDF5_USE_FILE_LOCKING=FALSE"
    ),
    source="Python's filelock; Lustre's mount options; HDF5",
)
