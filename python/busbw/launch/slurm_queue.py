"""Slurm as a scheduler: sbatch, scontrol, scancel, and what their answers mean."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence

from busbw.base.errors import UserError
from busbw.base.programs import ask
from busbw.launch.execute import TIMED_OUT
from busbw.launch.plan import Submission
from busbw.launch.submit import Phase, State

ANSWER_SECONDS = 60.0  # slurmctld may be busy; its own clients give up after a while too
SUBMIT_FAILED = "Batch job submission failed: "
_WAITING = {"PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED", "RESV_DEL_HOLD"}
_RUNNING = {"RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT"}
_KEPT = "what was measured until then is kept"
# Reasons for which a job waits for ever, unless somebody changes the cluster.
_HOPELESS = {
    "PartitionNodeLimit": "the partition does not have, or does not allow, so many nodes; `sinfo` shows them",
    "PartitionTimeLimit": "the partition does not allow so long a time limit; `sinfo` shows it, --time-limit sets it",
    "BadConstraints": "no node of the cluster has what the job asks for; `sinfo -N -l` shows them",
}


def submit(submission: Submission) -> str:
    """The job's number."""
    done = _run(submission.submit, {**os.environ, **submission.secrets})
    number = done.stdout.strip().partition(";")[0]
    if done.returncode != 0 or not number.isdigit():
        raise UserError(f"Slurm took no job: {refusal(done.stderr)}; `sinfo` lists partitions, their nodes and limits")
    return number


def refusal(text: str) -> str:
    """The reason in what sbatch printed, without the names of its programs."""
    lines = [re.sub(r"^\w+: (error: |fatal: )?", "", line).strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if line.startswith(SUBMIT_FAILED):
            return line.removeprefix(SUBMIT_FAILED)
    return lines[-1] if lines else "it gave no reason"


def state(job: str) -> State:
    """What scontrol says; once it has forgotten the job, what accounting remembers."""
    done = _run(("scontrol", "show", "job", "-o", job))
    if done.returncode == 0 and "JobState=" in done.stdout:
        return state_of(done.stdout)
    if "Invalid job id" in done.stderr:
        kept = _run(("sacct", "-n", "-X", "-P", "-o", "State,ExitCode,NodeList", "-j", job)).stdout.splitlines()
        return state_of_accounting(job, kept[0] if kept else "")
    return State(Phase.UNKNOWN, refusal(done.stderr))


def cancel(job: str) -> None:
    """Every step of it."""
    _run(("scancel", job))


def fetch(_job: str, _submission: Submission) -> None:
    """The job wrote into the run's folder itself, which all nodes share."""


def close(_job: str) -> None:
    """Slurm forgets by itself."""


def state_of(text: str) -> State:
    """From one line of `scontrol show job -o`."""
    job, word, reason = _field(text, "JobId"), _field(text, "JobState"), _field(text, "Reason")
    if word in _WAITING:
        if reason in _HOPELESS:
            return State(Phase.HOPELESS, _HOPELESS[reason])
        why = "" if reason in {"None", "", "Priority"} else f" ({reason})"
        if _field(text, "Restarts") not in {"", "0"}:
            return State(Phase.WAITING, f"job {job} was put back into the queue and will start again{why}; {_KEPT}")
        return State(Phase.WAITING, f"job {job} waits in the queue{why}")
    nodes = _field(text, "NodeList")
    if word in _RUNNING:
        return State(Phase.RUNNING, f"job {job} runs on {nodes}")
    return ended(job, word, _field(text, "ExitCode"), nodes, _field(text, "TimeLimit"))


def state_of_accounting(job: str, line: str) -> State:
    """From `sacct -P -o State,ExitCode,NodeList`."""
    word, code, nodes = (*line.split("|"), "", "", "")[:3]
    if not word:
        return State(
            Phase.ENDED, f"job {job} is gone and Slurm keeps no account of it; its record says how far it came", 1
        )
    return ended(job, word.split()[0], code, nodes, "")


def ended(job: str, word: str, code: str, nodes: str, limit: str) -> State:
    """The sentence and the exit code for an end."""
    exit_code, _, number = code.partition(":")
    status = int(exit_code) if exit_code.isdigit() else 1
    status = status or (128 + int(number) if number.isdigit() and int(number) else 0)
    if word == "COMPLETED":
        return State(Phase.ENDED)
    if word in {"TIMEOUT", "DEADLINE"}:
        limited = f" of {limit}" if limit else ""
        return State(Phase.ENDED, f"Slurm ended job {job} at its time limit{limited}; {_KEPT}", TIMED_OUT)
    if word == "NODE_FAIL":
        return State(
            Phase.ENDED, f"Slurm lost a node of job {job} ({nodes}); {_KEPT}; `sinfo -R` tells why", status or 1
        )
    if word.startswith("CANCELLED"):
        return State(Phase.ENDED, f"job {job} was cancelled; {_KEPT}", 130)
    if word == "OUT_OF_MEMORY":
        return State(Phase.ENDED, f"job {job} ran out of memory; a smaller --maxbytes needs less", status or 1)
    said = f"job {job} ended as {word} with exit code {status or 1} on {nodes}"
    if word == "PREEMPTED":
        said = f"job {job} had to make room for another; {_KEPT}; --requeue starts such a job again"
    return State(Phase.ENDED, said, status or 1)


def _field(text: str, name: str) -> str:
    found = re.search(rf"(?:^|\s){name}=(\S*)", text)
    return found[1] if found else ""


def _run(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return ask(argv, ANSWER_SECONDS, environment=environment)
