"""Kubernetes as a scheduler, through kubectl: secret, manifest, state, and logs that hold the record."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Sequence
from typing import Any

from busbw.base.errors import UserError
from busbw.base.programs import ask
from busbw.base.secrets import shortened
from busbw.launch.execute import TIMED_OUT
from busbw.launch.kubernetes import secret_key
from busbw.launch.launchers import KUBERNETES, PROGRAMS
from busbw.launch.plan import Submission
from busbw.launch.submit import Phase, State

ANSWER_SECONDS = 60.0
MOST_LOG_BYTES = 1 << 28
RECORD_LINE = b'{"schema":'
# Pods of these reasons never start by themselves.
_HOPELESS = {"ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "ImagePullBackOff", "ErrImagePull"}
_KUBECTL = PROGRAMS[KUBERNETES]


def submit(submission: Submission) -> str:
    """Make the secret, which is in no file and no argument, then apply the manifest."""
    namespace, _, name = submission.name.split("/")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {"busbw.dev/job": name}},
        "stringData": {
            "secret": secrets.token_hex(16),
            **{secret_key(variable): value for variable, value in submission.secrets.items()},
        },
    }
    program = submission.submit[0]
    for argv, text in (((program, f"--namespace={namespace}", "apply", "-f", "-"), json.dumps(secret)),
                       (submission.submit, "")):  # fmt: skip
        done = _run(argv, text)
        if done.returncode != 0:
            _delete(program, submission.name)
            raise UserError(f"Kubernetes took no job: {_reason(done.stderr)}")
    return f"{submission.name}@{program}"


def state(job: str) -> State:
    """What the job's conditions say; while it has none, what keeps its pods."""
    name, program = _split(job)
    namespace, kind, bare = name.split("/")
    done = _run((program, f"--namespace={namespace}", "get", kind, bare, "-o", "json"))
    if done.returncode != 0:
        gone = "NotFound" in done.stderr
        sentence = f"{kind} {bare} was deleted by somebody; what was measured until then is kept"
        return State(Phase.ENDED, sentence, 130) if gone else State(Phase.UNKNOWN, _reason(done.stderr))
    found = state_of(_json(done.stdout), bare)
    if found.phase is not Phase.WAITING:
        return found
    selector = f"--selector=busbw.dev/job={bare}"
    pods = _run((program, f"--namespace={namespace}", "get", "pods", selector, "-o", "json"))
    why = waiting_reason(_json(pods.stdout)) if pods.returncode == 0 else ""
    if why in _HOPELESS:
        return State(Phase.HOPELESS, f"its pods cannot start: {why}; `kubectl describe pods` tells more")
    return State(Phase.WAITING, f"job {bare} waits for its pods" + (f" ({why})" if why else ""))


def fetch(job: str, submission: Submission) -> None:
    """Read the log of the first pod: the record's lines go into the record, the others to people."""
    name, program = _split(job)
    namespace, kind, bare = name.split("/")
    pods = f"--selector=busbw.dev/job={bare},batch.kubernetes.io/job-completion-index=0"
    where = (pods,) if kind in ("job", "jobset") else (f"job/{bare}-launcher",)
    tail = ("--tail=-1", f"--limit-bytes={MOST_LOG_BYTES}")
    done = _run((program, f"--namespace={namespace}", "logs", *where, *tail))
    if done.returncode != 0 or not submission.output or not submission.record:
        return
    text, record = divide(done.stdout.encode())
    submission.output.write_bytes(text)
    if record:
        submission.record.write_bytes(record)


def cancel(job: str) -> None:
    """Delete everything of this job."""
    name, program = _split(job)
    _delete(program, name)


def close(job: str) -> None:
    """Nothing is left in the cluster once all has been collected."""
    cancel(job)


def divide(log: bytes) -> tuple[bytes, bytes]:
    """A log with a record in it, as text for people and the record."""
    text, record = [], []
    for line in log.splitlines(keepends=True):
        before, mark, after = line.partition(RECORD_LINE)
        if mark and line.endswith(b"\n"):
            record.append(mark + after)
            if before.strip():
                text.append(before + b"\n")
        else:
            text.append(line)
    return b"".join(text), b"".join(record)


def state_of(found: Any, name: str) -> State:
    """From the object of a Job or an MPIJob."""
    status = found.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or () if each.get("status") == "True"}
    if "Failed" in conditions:
        reason = conditions["Failed"].get("reason") or "no reason given"
        if reason == "DeadlineExceeded":
            sentence = f"Kubernetes ended job {name} at its time limit; what was measured until then is kept"
            return State(Phase.ENDED, sentence, TIMED_OUT)
        return State(Phase.ENDED, f"job {name} failed ({reason}); what was measured until then is kept", 1)
    if {"Complete", "Completed", "Succeeded"} & set(conditions):
        return State(Phase.ENDED)
    groups = status.get("replicatedJobsStatus") or ()
    ready = (status.get("ready") or 0) + sum(each.get("active") or 0 for each in groups if isinstance(each, dict))
    running = "Running" in conditions or ready > 0
    return State(Phase.RUNNING, f"job {name} runs") if running else State(Phase.WAITING)


def waiting_reason(pods: Any) -> str:
    """The first reason why a pod does not run yet."""
    for pod in pods.get("items") or ():
        status = pod.get("status") or {}
        for container in status.get("containerStatuses") or ():
            reason = ((container.get("state") or {}).get("waiting") or {}).get("reason")
            if reason and reason != "ContainerCreating":
                return str(reason)
        for condition in status.get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return str(condition.get("reason") or "")
    return ""


def _split(job: str) -> tuple[str, str]:
    name, _, program = job.partition("@")
    return name, program or _KUBECTL


def _delete(program: str, name: str) -> None:
    namespace, kind, bare = name.split("/")
    kinds = "job,service,secret" if kind == "job" else f"{kind},secret"
    selector = f"--selector=busbw.dev/job={bare}"
    _run((program, f"--namespace={namespace}", "delete", kinds, selector, "--wait=false"))


def _json(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return shortened(lines[-1].removeprefix("error: "), 300) if lines else "kubectl gave no reason"


def _run(argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    return ask(argv, ANSWER_SECONDS, text)
