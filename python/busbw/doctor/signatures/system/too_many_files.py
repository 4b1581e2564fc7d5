"""The limit on open files."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="too-many-files",
    stage=Stage.SYSTEM,
    title="the process ran out of file descriptors (open files)",
    patterns=(
        r"Too many open files",
        r"\bEMFILE\b",
        r"maximal number of files that could be opened",  # UCX
        r"inotify (?:instance|watch)",
        r"received \d+ items of ancdata",
    ),
    confirm="ulimit -n in the job's own shell; ls /proc/PID/fd | wc -l",
    cure=(
        "raise the limit: ulimit -n 1048576, docker --ulimit nofile=1048576, LimitNOFILE for "
        "slurmd; large jobs need thousands per rank"
    ),
    source="errno EMFILE; NCCL src/misc/socket.cc",
)
