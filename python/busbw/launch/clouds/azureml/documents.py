"""Every resource and the job as the documents of Azure ML's own schemas: shown by --dry-run, loaded by the SDK."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from busbw.base.errors import UsageError
from busbw.launch.clouds.azureml.settings import Cluster, Settings

SCHEMAS = "https://azuremlschemas.azureedge.net/latest"
TAGS = {"made-by": "busbw"}
RECORD = "outputs/record.jsonl"
"""What lies in ./outputs of a job is kept with it."""

# Over several nodes mpirun's environment does not say where process 0 is; Azure ML's does.
FIND_NODE_0 = (
    'node=${AZ_BATCHAI_MPI_MASTER_NODE:-${AZ_BATCH_MASTER_NODE%%:*}}; [ -z "$node" ] || export BUSBW_ADDRESS="$node"; '
    "mkdir -p outputs; exec "
)
FLEET = "fleet"
# That a fleet has faults is what was to be known: the job has not failed.
FAULTS_ARE_RESULTS = "; code=$?; [ $code -ne 1 ] || code=0; exit $code"


@dataclass(frozen=True)
class Resource:
    """Something of Azure's: what it is called, whether it costs money, and its document."""

    kind: str
    name: str
    costs: str  # how it costs money, empty where it does not
    document: Mapping[str, Any]


@dataclass(frozen=True)
class Measurement:
    """What the job runs."""

    arguments: tuple[str, ...]  # the engine's words, the collective first; or those of `busbw fleet run`
    nodes: int
    ranks_per_node: int
    distribution: str = "mpi"  # or pytorch
    environment: Mapping[str, str] | None = None
    time_limit: float | None = None
    run_id: str = ""

    @property
    def is_fleet(self) -> bool:
        """Whether nodes are accepted: one busbw on each node, rank 0 of which leads."""
        return self.arguments[0] == FLEET


def resources(settings: Settings) -> list[Resource]:
    """In the order in which they are made."""
    azure, cluster, environment = settings.azure, settings.cluster, settings.environment
    price = f" at {settings.price}" if settings.price else ""
    each_hour = f"by the hour while its nodes run{price}; idle nodes go back"
    return [
        Resource("resource group", azure.resource_group, "", {"location": azure.location, "tags": TAGS}),
        Resource("workspace", azure.workspace, "a little, for its storage, key vault and logs", {
            "$schema": f"{SCHEMAS}/workspace.schema.json",
            "name": azure.workspace, "location": azure.location, "tags": TAGS,
        }),
        Resource("compute cluster", cluster.name, f"{cluster.nodes} x {cluster.vm_size}, {each_hour}", {
            "$schema": f"{SCHEMAS}/amlCompute.schema.json",
            "name": cluster.name, "type": "amlcompute", "size": cluster.vm_size, "location": azure.location,
            "min_instances": 0, "max_instances": cluster.nodes, "idle_time_before_scale_down": cluster.idle_seconds,
            "tier": "low_priority" if cluster.low_priority else "dedicated", **identity(cluster), "tags": TAGS,
        }),
        Resource("environment", environment.name, "", {
            "$schema": f"{SCHEMAS}/environment.schema.json",
            "name": environment.name, "version": environment.version, "image": environment.image, "tags": TAGS,
        }),
    ]  # fmt: skip


def identity(cluster: Cluster) -> dict[str, Any]:
    """The managed identity of the nodes, with which they read the image and the storage."""
    if cluster.identity == "none":
        return {}
    if cluster.identity == "system_assigned":
        return {"identity": {"type": "system_assigned"}}
    named = [{"resource_id": cluster.identity}]
    return {"identity": {"type": "user_assigned", "user_assigned_identities": named}}


def job(settings: Settings, measurement: Measurement) -> dict[str, Any]:
    """A distributed command job: Azure ML starts a process for each rank, the engine or a fleet's busbw."""
    environment = dict(sorted((measurement.environment or {}).items()))
    if measurement.run_id:
        environment["BUSBW_RUN_ID"] = measurement.run_id
    document: dict[str, Any] = {
        "$schema": f"{SCHEMAS}/commandJob.schema.json",
        "type": "command",
        "display_name": f"busbw {measurement.arguments[0]}",
        "experiment_name": settings.experiment,
        "command": command(settings, measurement),
        "environment": f"azureml:{settings.environment.name}:{settings.environment.version}",
        "compute": f"azureml:{settings.cluster.name}",
        "resources": {"instance_count": measurement.nodes},
        "distribution": {
            "type": measurement.distribution,
            "process_count_per_instance": measurement.ranks_per_node,
        },
        "environment_variables": environment,
        "tags": TAGS,
    }
    if measurement.time_limit is not None:
        document["limits"] = {"timeout": max(1, round(measurement.time_limit))}
    return document


def command(settings: Settings, measurement: Measurement) -> str:
    """One line for Azure ML's shell, every word of the user's quoted."""
    for word in (*measurement.arguments, *(measurement.environment or {}).values()):
        if re.search(r"\$\{\{", word):
            raise UsageError(f"'{word}' holds '${{{{', which Azure ML replaces; measure without it")
    engine = settings.environment.engine
    if measurement.is_fleet:
        # All that it writes lies among what is kept with the job. Each rank finds rank 0 by itself (launch/place.py).
        program = f"{engine.rpartition('/')[0]}/busbw" if "/" in engine else "busbw"
        return f"mkdir -p outputs && cd outputs && {shlex.join([program, *measurement.arguments])}{FAULTS_ARE_RESULTS}"
    return f"{FIND_NODE_0}{shlex.join([engine, *measurement.arguments, '--record', RECORD])}"
