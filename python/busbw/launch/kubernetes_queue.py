"""Kubernetes as a scheduler, through kubectl: secret, manifest, state, and logs that hold the record."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import time
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
_CREATING = re.compile(r'error when creating "[^"]*": ')
MOST_WHY = 200
PAUSES = (0.5, 1.5, 4.0)  # seconds before it is tried once more
_PASSING = re.compile(
    r"unable to connect|connection (refused|reset)|EOF|i/o timeout|timed out|TLS handshake|too many requests"
    r"|ServiceUnavailable|currently unable|InternalError|etcdserver|ServerTimeout", re.IGNORECASE
)  # fmt: skip
"""What the way to the API server says, or a server that is busy."""


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
        done = _tried(argv, text)
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
        if "NotFound" in done.stderr:
            sentence = f"{kind} {bare} was deleted by somebody; what was measured until then is kept"
            return State(Phase.ENDED, sentence, 130)
        refused = _refused(done.stderr)
        return State(Phase.HOPELESS if refused else Phase.UNKNOWN, _reason(done.stderr))
    return _with_pods(_json(done.stdout), bare, (program, f"--namespace={namespace}"))


def _with_pods(job: Any, name: str, kubectl: tuple[str, ...]) -> State:
    """What its conditions say, and of a job that failed or does not run as a whole what its pods say."""
    found = state_of(job, name)
    failed = found.phase is Phase.ENDED and found.exit_code == 1
    if not failed and (found.phase is Phase.ENDED or _all_run(job)):
        return found
    pods = _run((*kubectl, "get", "pods", f"--selector=busbw.dev/job={name}", "-o", "json"))
    every = _json(pods.stdout) if pods.returncode == 0 else {}
    if failed:
        why = failure_reason(every)
        return State(Phase.ENDED, f"job {name} failed: {why}", 1) if why else found
    why, message = waiting_reason(every)
    told = f"{why}: {message}" if message else why
    if why in _HOPELESS:
        return State(Phase.HOPELESS, f"its pods cannot start: {told}; `kubectl describe pods` tells more")
    if found.phase is Phase.RUNNING:
        return State(Phase.RUNNING, f"{found.sentence}, but a pod waits ({told})") if why else found
    return State(Phase.WAITING, f"job {name} waits for its pods" + (f" ({told})" if why else ""))


def fetch(job: str, submission: Submission) -> None:
    """Read the log of the first pod: the record's lines go into the record, the others to people."""
    name, program = _split(job)
    namespace, kind, bare = name.split("/")
    pods = f"--selector=busbw.dev/job={bare},batch.kubernetes.io/job-completion-index=0"
    where = (pods,) if kind in ("job", "jobset") else (f"job/{bare}-launcher",)
    tail = ("--tail=-1", f"--limit-bytes={MOST_LOG_BYTES}")
    done = _run((program, f"--namespace={namespace}", "logs", *where, *tail))
    if done.returncode != 0 and _refused(done.stderr):
        raise UserError(f"Kubernetes does not show what the pods wrote: {_reason(done.stderr)}")
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


def waiting_reason(pods: Any) -> tuple[str, str]:
    """The first reason why a pod does not run yet, and what Kubernetes says of it."""
    for pod in pods.get("items") or ():
        status = pod.get("status") or {}
        for container in status.get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting") or {}
            if (reason := waiting.get("reason")) and reason != "ContainerCreating":
                return str(reason), _on_node(pod, waiting.get("message"))
        for condition in status.get("conditions") or ():
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return str(condition.get("reason") or ""), shortened(str(condition.get("message") or ""), MOST_WHY)
    return "", ""


def failure_reason(pods: Any) -> str:
    """Why a pod failed that was ended from without, or whose program was: evicted, preempted, out of memory."""
    for pod in pods.get("items") or ():
        status = pod.get("status") or {}
        for condition in status.get("conditions") or ():
            if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
                return f"{condition.get('reason') or 'disrupted'}: {_on_node(pod, condition.get('message'))}"
        if status.get("reason"):  # Evicted, NodeLost, NodeShutdown, UnexpectedAdmissionError
            return f"{status['reason']}: {_on_node(pod, status.get('message'))}"
    for pod in pods.get("items") or ():
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (container.get("state") or {}).get("terminated") or {}
            if ended.get("reason") == "OOMKilled":
                return f"OOMKilled: {_on_node(pod, 'a container had too little memory')}"
    return ""


def _on_node(pod: Any, message: Any) -> str:
    node = (pod.get("spec") or {}).get("nodeName")
    said = shortened(str(message or "no message"), MOST_WHY)
    return f"{said} (on {node})" if node else said


def _all_run(job: Any) -> bool:
    """Whether every pod of a Job is ready or has ended; of other kinds nobody counts them."""
    status, spec = job.get("status") or {}, job.get("spec") or {}
    wanted = spec.get("parallelism")
    if not isinstance(wanted, int) or state_of(job, "").phase is not Phase.RUNNING:
        return state_of(job, "").phase is Phase.RUNNING
    return sum(int(status.get(each) or 0) for each in ("ready", "succeeded", "failed")) >= wanted


def _split(job: str) -> tuple[str, str]:
    name, _, program = job.partition("@")
    return name, program or _KUBECTL


def _delete(program: str, name: str) -> None:
    namespace, kind, bare = name.split("/")
    kinds = "job,service,secret" if kind == "job" else f"{kind},secret"
    selector = f"--selector=busbw.dev/job={bare}"
    done = _tried((program, f"--namespace={namespace}", "delete", kinds, selector, "--wait=false"))
    if done.returncode != 0:
        print(f"busbw run: job {bare} could not be deleted ({_reason(done.stderr)}); delete it: kubectl "
              f"--namespace={namespace} delete {kinds} {selector}", file=sys.stderr)  # fmt: skip


def _tried(argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Once more where the connection broke or the server was busy; both applying and deleting may be repeated."""
    for pause in (*PAUSES, None):
        done = _run(argv, text)
        if done.returncode == 0 or pause is None or not _PASSING.search(done.stderr):
            break
        time.sleep(pause)
    return done


def _refused(said: str) -> bool:
    return "(Forbidden)" in said or "(Unauthorized)" in said or "You must be logged in" in said


def _json(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _reason(text: str) -> str:
    # A file's whole name before the reason hides it where the sentence is cut.
    lines = [_CREATING.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    return shortened(lines[-1].removeprefix("error: "), 300) if lines else "kubectl gave no reason"


def _run(argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    return ask(argv, ANSWER_SECONDS, text)
