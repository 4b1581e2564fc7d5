"""A stand-in for a Kubernetes API server, for the real kubectl: Jobs, their pods and logs, and what may go wrong."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

RESOURCES = {"v1": {"pods": "Pod", "services": "Service", "secrets": "Secret"}, "batch/v1": {"jobs": "Job"}}
VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
PATH = re.compile(r"/(?:api/v1|apis/batch/v1)/namespaces/([^/]+)/([a-z]+)(?:/([^/]+))?(?:/(log))?")


@dataclass
class Cluster:
    """What is in it; `fates` say what becomes of a Job on a node, `forbidden` are such as `get pods`."""

    record: list[str]
    fates: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)
    forbidden: frozenset[str] = frozenset()
    dropped: float = 0.0
    busy: float = 0.0
    slow_s: float = 0.0
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fate(self, job: Mapping[str, Any]) -> tuple[str, str, list[str]]:
        """What becomes of it, the node that is to blame, and all nodes."""
        nodes = nodes_of(job)
        bad = next((node for node in nodes if node in self.fates), "")
        return self.fates.get(bad, ""), bad, nodes

    def with_status(self, job: dict[str, Any]) -> dict[str, Any]:
        """As its controller would have it by now."""
        fate, _, nodes = self.fate(job)
        failed = {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}], "failed": 1}
        status: dict[str, Any] = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": len(nodes)}
        if fate in {"evicted", "preempted", "oom"}:
            status = failed
        elif fate in {"image", "unschedulable"}:
            status = {"active": len(nodes), "ready": len(nodes) - 1}
        return {**job, "status": status}

    def pods(self, job: Mapping[str, Any]) -> list[dict[str, Any]]:
        """One on each of its nodes."""
        fate, bad, nodes = self.fate(job)
        name = job["metadata"]["name"]
        return [{"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": node, "containers": [{"name": "busbw"}]},
                 "metadata": {"name": f"{name}-{at}", "namespace": job["metadata"].get("namespace", "default"),
                              "labels": {"busbw.dev/job": name,
                                         "batch.kubernetes.io/job-completion-index": str(at)}},
                 "status": pod_status(fate if node == bad else "")} for at, node in enumerate(nodes)]  # fmt: skip

    def log(self, job: Mapping[str, Any]) -> str:
        """The record of three cases, as slow as the slowest node."""
        level = min(self.levels.get(node, 10.0) for node in nodes_of(job))
        lines = []
        for line in self.record:
            one = json.loads(line)
            if one["kind"] != "case":
                lines.append(line)
            elif one["case"] == 0:
                lines += [json.dumps({**one, "case": at, "busbw_GBps": level * share, "algbw_GBps": level * share})
                          for at, share in enumerate((0.998, 1.0, 1.002))]  # fmt: skip
        return "\n".join(lines) + "\n"


def nodes_of(job: Mapping[str, Any]) -> list[str]:
    """Where its pods must be."""
    pod = job["spec"]["template"]["spec"]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return list(terms[0]["matchExpressions"][0]["values"])


def pod_status(fate: str) -> dict[str, Any]:
    """As kubelet and scheduler write it."""
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "i"'}}}
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                 "message": "default-scheduler: preempting to accommodate a higher priority pod"}  # fmt: skip
    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                   "message": "0/6 nodes are available: 1 node(s) were unschedulable"}  # fmt: skip
    return {
        "image": {"phase": "Pending", "containerStatuses": [waiting]},
        "unschedulable": {"phase": "Pending", "conditions": [unscheduled]},
        "evicted": {"phase": "Failed", "reason": "Evicted",
                    "message": "The node was low on resource: ephemeral-storage."},
        "preempted": {"phase": "Failed", "conditions": [disrupted]},
        "oom": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]},
    }.get(fate, {"phase": "Running"})  # fmt: skip


def serve(cluster: Cluster) -> ThreadingHTTPServer:
    """At a port of its own, in threads; `shutdown` ends it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def handle_all(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            time.sleep(cluster.slow_s)
            with cluster.lock:
                luck = cluster.chance.random()
                code, answer = answered(cluster, self.command, self.path, body)
            if luck < cluster.dropped:
                self.close_connection = True  # whether it was done or not, nobody hears of it
                return
            if luck < cluster.dropped + cluster.busy:
                code, answer = failure(429, "TooManyRequests", "the server is busy, please try again later")
            data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain" if isinstance(answer, str) else "application/json")
            self.send_header("Content-Length", str(len(data)))
            if code == 429:
                self.send_header("Retry-After", "1")
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = handle_all

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def answered(cluster: Cluster, verb: str, address: str, body: bytes) -> tuple[int, Any]:
    """Code and object, or the text of a log."""
    parts = urlsplit(address)
    if (known := discovery(parts.path)) is not None:
        return 200, known
    found = PATH.fullmatch(parts.path)
    if not found:
        return failure(404, "NotFound", f"the server could not find the requested resource {parts.path}")
    namespace, resource, name, log = found.groups()
    what = f"{ {'GET': 'get', 'POST': 'create', 'DELETE': 'delete'}.get(verb, 'patch') } {resource}{'/log' * bool(log)}"
    cluster.seen.append(what)
    if what in cluster.forbidden:
        return failure(403, "Forbidden", f'{resource} is forbidden: User "me" cannot {what} in namespace "{namespace}"')
    selector = parse_qs(parts.query).get("labelSelector", [""])[0]
    chosen = re.search(r"busbw\.dev/job=([a-z0-9-]+)", selector)
    first = "job-completion-index=0" in selector
    if verb == "POST":
        one = json.loads(body)
        cluster.objects[resource, one["metadata"]["name"]] = one
        return 201, one
    if verb == "DELETE":
        keys = [key for key in cluster.objects if key[0] == resource
                and key[1] == (name or (chosen[1] if chosen else key[1]))]  # fmt: skip
        for key in keys:
            del cluster.objects[key]
        return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
    return shown(cluster, resource, Asked(name, chosen[1] if chosen else None, bool(log), first))


class Asked(NamedTuple):
    """One by its name, or those of a job."""

    name: str | None
    job: str | None
    log: bool
    first: bool


def shown(cluster: Cluster, resource: str, asked: Asked) -> tuple[int, Any]:
    """One object, a log, or a list."""
    name = asked.name
    if resource == "pods":
        every = {pod["metadata"]["name"]: (pod, job) for (kind, _), job in cluster.objects.items() if kind == "jobs"
                 for pod in cluster.pods(job)}  # fmt: skip
        if name:
            found = every.get(name)
            return gone(name) if not found else (200, cluster.log(found[1]) if asked.log else found[0])
        mine = [pod for pod, job in every.values() if asked.job in {None, job["metadata"]["name"]}]
        mine = mine[:1] if asked.first else mine
        return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": mine}
    mine = [one for (kind, each), one in cluster.objects.items() if kind == resource and each in {name, asked.job}]
    mine = [cluster.with_status(one) for one in mine] if resource == "jobs" else mine
    if name:
        return (200, mine[0]) if mine else gone(name)
    kind = next(kinds[resource] for kinds in RESOURCES.values() if resource in kinds)
    version = "batch/v1" if resource == "jobs" else "v1"
    return 200, {"kind": f"{kind}List", "apiVersion": version, "metadata": {}, "items": mine}


def gone(name: str) -> tuple[int, Any]:
    """There is none."""
    return failure(404, "NotFound", f'"{name}" not found')


def failure(code: int, reason: str, message: str) -> tuple[int, Any]:
    """As the API server writes it."""
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message,
                  "code": code}  # fmt: skip


def discovery(path: str) -> Any:
    """What there is in the cluster, as kubectl asks first."""
    group = {"name": "batch", "versions": [{"groupVersion": "batch/v1", "version": "v1"}],
             "preferredVersion": {"groupVersion": "batch/v1", "version": "v1"}}  # fmt: skip
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}
    if path == "/version":
        return {"major": "1", "minor": "32", "gitVersion": "v1.32.0"}
    for version, kinds in RESOURCES.items():
        if path == (f"/api/{version}" if version == "v1" else f"/apis/{version}"):
            every = [{"name": name, "kind": kind, "namespaced": True, "singularName": kind.lower(), "verbs": VERBS}
                     for name, kind in kinds.items()]  # fmt: skip
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": every}
    return None
