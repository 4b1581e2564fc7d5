"""Plans ranks on Kubernetes: an Indexed Job with a pod for each node, Kubeflow's MPIJob, or a JobSet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from busbw.launch.binding import bound
from busbw.launch.job import JobSpec
from busbw.launch.launchers import KUBERNETES, PROGRAMS
from busbw.launch.plan import FilePlan, LaunchPlan, Submission
from busbw.launch.yaml_text import to_yaml

PORT = 21000
GROUP = "nodes"  # the one group of jobs of a JobSet
KEEP_SECONDS = 3600  # a finished job's logs can be looked at for an hour, if we are not there to collect and delete it
FILES = {"job": "job.yaml", "mpijob": "mpijob.yaml", "jobset": "jobset.yaml"}

# Starts the ranks of one pod; "$@" is the program with its words, the rest are numbers.
START = """\
rank=0; pids=
while [ "$rank" -lt "$BUSBW_LOCAL_SIZE" ]; do
  BUSBW_LOCAL_RANK=$rank BUSBW_RANK=$((JOB_COMPLETION_INDEX * BUSBW_LOCAL_SIZE + rank)) "$@" &
  pids="$pids $!"; rank=$((rank + 1))
done
trap 'kill $pids' TERM INT
code=0
for pid in $pids; do wait "$pid" || code=$?; done
exit "$code"
"""


def plan(job: JobSpec) -> LaunchPlan:
    """Every manifest is written; the chosen one is submitted."""
    kind, namespace = job.kubernetes.kind, job.kubernetes.namespace
    files = {"job": to_yaml([service(job), indexed_job(job)]), "mpijob": to_yaml([mpi_job(job)])}
    files["jobset"] = to_yaml([job_set(job)])
    chosen = job.folder / FILES[kind]
    submit = (job.launcher_program or PROGRAMS[KUBERNETES], f"--namespace={namespace}", "apply", "-f", str(chosen))
    return LaunchPlan(
        files=tuple(FilePlan(job.folder / FILES[each], text) for each, text in files.items()),
        submission=Submission(
            "kubernetes",
            submit,
            output=job.folder / "job.out",
            name=f"{namespace}/{kind}/{job.name}",
            record=job.folder / "record.jsonl",
            secrets=job.secrets,
        ),
    )


def indexed_job(job: JobSpec) -> dict[str, Any]:
    """A pod for each node, numbered by Kubernetes; each starts the ranks of its node, and all meet at pod 0."""
    spec = _indexed(job, job.name)
    spec["ttlSecondsAfterFinished"] = KEEP_SECONDS
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(job), "spec": spec}


def job_set(job: JobSpec) -> dict[str, Any]:
    """A JobSet (v1alpha2) of one Indexed Job: its controller makes the names of the pods known."""
    group = {"name": GROUP, "replicas": 1, "template": {"spec": _indexed(job, f"{job.name}-{GROUP}-0")}}
    spec = {
        "network": {"enableDNSHostnames": True, "subdomain": job.name, "publishNotReadyAddresses": True},
        "failurePolicy": {"maxRestarts": 0},
        "ttlSecondsAfterFinished": KEEP_SECONDS,
        "replicatedJobs": [group],
    }
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": _metadata(job), "spec": spec}


def _indexed(job: JobSpec, host: str) -> dict[str, Any]:
    """What an Indexed Job is told, whose pods are named `host`-0, `host`-1, ..."""
    environment = {
        "BUSBW_WORLD_SIZE": str(job.ranks),
        "BUSBW_LOCAL_SIZE": str(job.ranks_per_node),
        "BUSBW_ADDRESS": f"{host}-0.{job.name}:{PORT}",
        "BUSBW_HOSTS": ",".join(f"{host}-{node}" for node in range(job.nodes)),
        **job.open_environment,
    }
    command = ["sh", "-c", START, "busbw-ranks", *bound(job.argv, job.cpu_sets, "BUSBW_LOCAL_RANK")]
    pod = _pod(job, command, environment, gpus=True)
    pod["subdomain"] = job.name
    return {
        "completions": job.nodes,
        "parallelism": job.nodes,
        "completionMode": "Indexed",
        "backoffLimit": 0,  # a second start would measure something else
        **_deadline(job),
        "template": _template(job, pod),
    }


def service(job: JobSpec) -> dict[str, Any]:
    """Gives the pods names, before they are ready: that is when they look for each other."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": _labels(job)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(job), "spec": spec}


def mpi_job(job: JobSpec) -> dict[str, Any]:
    """Kubeflow's MPIJob (v2beta1): a launcher that runs mpirun, and workers with the GPUs."""
    environment = {"BUSBW_ADDRESS": f"{job.name}-worker-0.{job.name}:{PORT}", **job.open_environment}
    names = sorted({*environment, *job.secrets, "BUSBW_SECRET"})
    command = [
        "mpirun",
        "--allow-run-as-root",
        *("-np", str(job.ranks), "--map-by", f"ppr:{job.ranks_per_node}:node", "--bind-to", "none"),
        *(word for name in names for word in ("-x", name)),
        *job.launcher_arguments,
        *bound(job.argv, job.cpu_sets),
    ]
    launcher = {"replicas": 1, "template": _template(job, _pod(job, command, environment, gpus=False))}
    workers = {"replicas": job.nodes, "template": _template(job, _pod(job, None, {}, gpus=True, apart=False))}
    spec = {
        "slotsPerWorker": job.ranks_per_node,
        "mpiImplementation": "OpenMPI",
        "runPolicy": {
            "cleanPodPolicy": "Running",
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": KEEP_SECONDS,
            **_deadline(job),
        },
        "mpiReplicaSpecs": {"Launcher": launcher, "Worker": workers},
    }
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": _metadata(job), "spec": spec}


def _template(job: JobSpec, pod: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"labels": _labels(job)}, "spec": pod}


def _pod(
    job: JobSpec, command: list[str] | None, environment: Mapping[str, str], *, gpus: bool, apart: bool = True
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "busbw", "image": job.kubernetes.image or ""}
    if command:
        container["command"] = [literal(word) for word in command]
        container["env"] = [{"name": name, "value": literal(value)} for name, value in sorted(environment.items())]
        keys = {"BUSBW_SECRET": "secret", **{name: secret_key(name) for name in sorted(job.secrets)}}
        container["env"] += [
            {"name": name, "valueFrom": {"secretKeyRef": {"name": job.name, "key": key}}} for name, key in keys.items()
        ]
    mounts, volumes = [], []
    if gpus:
        # NCCL shares memory between ranks of a host; 64 MiB, a pod's default, is too little for it.
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory"}})
        if job.gpus_per_node:
            container["resources"] = {"limits": {"nvidia.com/gpu": job.gpus_per_node}}
    if mounts:
        container["volumeMounts"] = mounts
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if volumes:
        pod["volumes"] = volumes
    if gpus and job.kubernetes.hosts:
        pod["affinity"] = _affinity(job, apart=apart)
    return pod


def _affinity(job: JobSpec, *, apart: bool) -> dict[str, Any]:
    """On the nodes that were named; `apart`, each pod on another one."""
    place, must = "kubernetes.io/hostname", "requiredDuringSchedulingIgnoredDuringExecution"
    named = {"matchExpressions": [{"key": place, "operator": "In", "values": list(job.kubernetes.hosts)}]}
    affinity: dict[str, Any] = {"nodeAffinity": {must: {"nodeSelectorTerms": [named]}}}
    if apart:  # not an MPIJob's workers: its launcher has the same label, and may share a node with one
        alike = {"labelSelector": {"matchLabels": {"busbw.dev/job": job.name}}, "topologyKey": place}
        affinity["podAntiAffinity"] = {must: [alike]}
    return affinity


def secret_key(variable: str) -> str:
    """Where a variable's value lies in the job's Secret."""
    return f"variable.{variable}"


def literal(text: str) -> str:
    """Kubernetes replaces $(NAME) in words and values; a doubled $ stays one."""
    return text.replace("$", "$$")


def _deadline(job: JobSpec) -> dict[str, int]:
    return {} if job.time_limit is None else {"activeDeadlineSeconds": max(1, round(job.time_limit))}


def _metadata(job: JobSpec) -> dict[str, Any]:
    return {"name": job.name, "labels": _labels(job)}


def _labels(job: JobSpec) -> dict[str, str]:
    return {"app.kubernetes.io/name": "busbw", "busbw.dev/job": job.name}
