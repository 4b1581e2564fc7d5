"""A file system on which no file can be locked."""

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def _holds(groups: Sequence[Mapping[str, str]]) -> bool:
    """Whether a line says so in words, or a number does and a lock was asked for."""
    said = {name for each in groups for name in each}
    return "lock" in said or {"number", "asked"} <= said


SIGNATURE = Signature(
    name="no-flock",
    stage=Stage.SYSTEM,
    title=(
        "a file system does not let files be locked (flock), as Lustre that is mounted with noflock; other ranks' "
        "errors follow"
    ),
    patterns=(
        r"does not (?:appear to )?support (?P<lock>flock)",
        r"\b(?P<lock>flock|lockf|fcntl|filelock|FileLock|LOCK_EX)\b.{0,120}"
        r"(?:Function not implemented|Operation not supported|No locks available|Unknown error 524)",
        r"unable to (?P<lock>lock) file, errno = (?:37|38|95|524)\b",
        # Older releases hand on the number; the frames tell who asked.
        r"\[Errno (?P<number>37|38|95)\] (?:No locks available|Function not implemented|Operation not supported)",
        r"File \".{0,300}/(?P<asked>filelock|fasteners|portalocker)(?:/\w{1,20})?\.py\", line \d",
    ),
    holds=_holds,
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
