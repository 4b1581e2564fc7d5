"""The launcher ended this process: another one failed, or the launcher itself was told to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.doctor.signature import Signature, Stage


def tell(groups: Sequence[Mapping[str, str]]) -> str:
    """Whether anybody says that a process failed, or the signal came to the launcher itself."""
    if any("told" in each for each in groups) and not any("failed" in each for each in groups):
        return (
            "the launcher got SIGTERM and ended its processes: from a scheduler (time limit, preemption, cancel), a "
            "person, or because another node failed"
        )
    return "the launcher ended this process because another one failed"


SIGNATURE = Signature(
    name="killed-by-launcher",
    soft=True,
    stage=Stage.EFFECT,
    title="the launcher ended this process because another one failed",
    patterns=(
        r"(?P<told>Received 15 death signal)",
        r"(?:Process|PID) \d+ got signal: (?:2|15)\b",
        r"(?P<failed>Primary job +terminated normally, but)",
        r"(?:[Rr]eceived|[Gg]ot) (?:signal )?sigquit from a child proc",
        r"STEP \S+ ON \S+ CANCELLED",
        r"Job step aborted",
        r"(?P<failed>tasks? \d[\d,-]*: (?:Killed|Terminated))",
        r"(?P<failed>Local worker group finished \(WorkerState\.FAILED\))",
        r"KILLED BY SIGNAL",
        r"(?P<failed>tasks? \d[\d,-]*: Exited with exit code)",
        r"CalledProcessError",
        r"closing signal SIGTERM",
        r"Sending process \d+ closing signal",
        r"(?P<failed>ChildFailedError)",
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
        "none: dmesg of its host (OOM killer, segfault, Xid) and faulthandler (PYTHONFAULTHANDLER=1). Where none "
        "failed: sacct -j JOB -o State,Reason, kubectl get events, and the logs of the other nodes"
    ),
    source="torch/distributed/elastic; Open MPI; Slurm",
    tell=tell,
)
