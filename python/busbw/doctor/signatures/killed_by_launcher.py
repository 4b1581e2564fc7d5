"""The launcher ended this process because another failed."""

from busbw.doctor.signature import Signature, Stage

SIGNATURE = Signature(
    name="killed-by-launcher",
    soft=True,
    stage=Stage.EFFECT,
    title="the launcher ended this process because another one failed",
    patterns=(
        r"Received 15 death signal",
        r"(?:Process|PID) \d+ got signal: (?:2|15)\b",
        r"Primary job +terminated normally, but",
        r"(?:[Rr]eceived|[Gg]ot) (?:signal )?sigquit from a child proc",
        r"STEP \S+ ON \S+ CANCELLED",
        r"Job step aborted",
        r"tasks? \d[\d,-]*: (?:Killed|Terminated)",
        r"Local worker group finished \(WorkerState\.FAILED\)",
        r"KILLED BY SIGNAL",
        r"tasks? \d[\d,-]*: Exited with exit code",
        r"CalledProcessError",
        r"closing signal SIGTERM",
        r"Sending process \d+ closing signal",
        r"ChildFailedError",
        r"DUE TO TASK FAILURE",
        r"MPI_ABORT was invoked",
        r"one or more processes exited with\s+non-zero status",
        r"Received Signals\.SIGTERM",
        r"Signal 15 \(SIGTERM\)",
        r"mpirun noticed that process rank \d+",
        r"exited with non-zero status",
        r"RendezvousGracefulExitError",
        r"exit(?:ed)?(?: with)?(?: exit)? code:? 143\b",
    ),
    confirm="the first failure in torchrun's summary (Root Cause) or the first rank in mpirun's",
    cure=(
        "look above this line, in the log of the rank that is named, for its first error or traceback. Where there is "
        "none: dmesg of its host (OOM killer, segfault, Xid) and faulthandler (PYTHONFAULTHANDLER=1)"
    ),
    source="torch/distributed/elastic; Open MPI; Slurm",
)
