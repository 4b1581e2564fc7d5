"""Clues of Ray: an address that no node of its cluster has, and GPUs that it never counted, beside ones in use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.reading.ray_status import DEMAND, bundles_of, status_of
from busbw.doctor.shown_texts import Text, named

_OF_RAY = re.compile(
    r"placement_? ?group|required GPUs exceeds|fulfill resource request|autoscaler|cannot be scheduled right now"
    r"|total desired GPUs",
    re.IGNORECASE,
)
_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_PLACE = rf"(?:{_IP}|(?!__)[A-Za-z][\w.-]{{2,120}})"
"""An address as a request has it: VLLM_HOST_IP may hold a name, which Ray takes as it stands."""
_ASKED_IP = re.compile(rf"['\"]node:(?P<ip>{_PLACE})['\"]")
_NO_NODE = re.compile(rf"No available node types can fulfill[^\n]{{0,120}}['\"]node:(?P<ip>{_PLACE})['\"]")
"""Ray says so of what no node can ever give, however long one waits."""
_KNOWN = re.compile(
    rf"^\s{{0,4}}\d{{1,5}}\s{{1,6}}[0-9a-f]{{56}}\s{{1,6}}(?P<listed>{_IP})\s"
    rf"|['\"]NodeManagerAddress['\"]: ?['\"](?P<told>{_IP})"
    rf"|^\s{{1,8}}[\d.]{{1,8}}/[\d.]{{1,8}} node:(?P<held>{_IP})\s*$",
    re.MULTILINE,
)
"""The address of a node as `ray list nodes`, `ray.nodes()` and `ray status -v` show it."""
_CLUSTER_AT = re.compile(rf"Connecting to existing Ray cluster at address: (?P<ip>{_IP}):")
_USE_IP = (
    "set VLLM_HOST_IP on each node to the address by which Ray knows it (ray list nodes), before ray start and vllm "
    "serve. Or start Ray anew in the other network: ray start --node-ip-address=IP, each node with its own, and "
    "--address=HEAD:6379"
)


def unplaced(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Why Ray places nothing, as its own listings beside the request show it."""
    if not any(_OF_RAY.search(seen.fact) for seen in finding.evidence):
        return None
    asked = _asked(finding, texts)
    cluster = next((found for text in reversed(texts) if (found := _cluster(text)) is not None), None)
    return _other_ip(finding, texts, cluster, asked) or (_by_count(texts, cluster, asked) if cluster else None)


@dataclass(frozen=True, slots=True)
class _Asked:
    """GPUs and processors of one request, and how many of the GPUs one node has to give."""

    gpus: float
    on_one: float
    cpus: float
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cluster:
    """What `ray status` says: GPUs in use and in all, processors, nodes that are there, and one that is to come."""

    used: float
    gpus: float
    free_cpus: float | None
    nodes: int
    pending: str
    evidence: Evidence


_REQUEST = re.compile(r"fulfill resource request [^\n{]{0,40}\{(?P<one>[^}\n]{4,200})\}")
_SPECS = re.compile(r"\bspecs=\[(?P<bundles>\{[^\n]{4,4000})")
_DESIRED = re.compile(r"total desired GPUs (?P<gpus>\d{1,6})")


def _asked(finding: Finding, texts: Sequence[Text]) -> _Asked | None:
    """What is asked for: by the list of demands, else as the request tells it."""
    for text in (*texts, Text("", "\n".join(seen.fact for seen in finding.evidence))):
        for words in (DEMAND, _SPECS, _REQUEST):
            if (found := words.search(text.text)) is None:
                continue
            one = words is _REQUEST
            parts = list(bundles_of("{" + found["one"] + "}" if one else found["bundles"]))
            gpus = sum(each[0] for each in parts)
            packed = words is DEMAND and found["how"] == "STRICT_PACK"
            on_one = gpus if packed else max((each[2] for each in parts), default=0.0)
            seen = (text.evidence(found.start()),) if text.source else ()
            return _Asked(gpus, on_one, sum(each[1] for each in parts), seen)
    for text in texts:
        if found := _DESIRED.search(text.text):
            return _Asked(float(found["gpus"]), 0.0, 0.0)
    return None


def _cluster(text: Text) -> _Cluster | None:
    """The last status that the text shows."""
    found = status_of(text.text)
    if found is None:
        return None
    return _Cluster(found.used, found.gpus, found.free_cpus, found.nodes, found.pending, text.evidence(found.at))


def _other_ip(
    finding: Finding, texts: Sequence[Text], cluster: _Cluster | None, asked: _Asked | None
) -> Sharper | None:
    """A node is asked for by an address that Ray does not know."""
    said = [Text("", seen.fact) for seen in finding.evidence]
    wanted = next((found for text in (*said, *texts) if (found := _ASKED_IP.search(text.text))), None)
    if wanted is None:
        return None
    rows = [(text, found) for text in texts for found in _KNOWN.finditer(text.text)]
    known = list(dict.fromkeys(each["listed"] or each["told"] or each["held"] for _, each in rows))
    at = next(((text, found) for text in texts if (found := _CLUSTER_AT.search(text.text))), None)
    free = cluster is not None and asked is not None and cluster.used + asked.gpus <= cluster.gpus
    never = any(_NO_NODE.search(text.text) for text in (*said, *texts))
    if wanted["ip"] in known or (at is not None and not known and at[1]["ip"] == wanted["ip"]):
        return None
    # Where nothing is in use, no node is only busy; a list that was filtered may lack the node.
    idle = free and cluster is not None and not cluster.used
    listed = bool(known) and (cluster is None or len(known) >= cluster.nodes)
    if not (listed or idle or (never and (at is not None or known))):
        return _by_either(finding, wanted["ip"]) if never else None
    has = f"its nodes are {named(', '.join(known[:6]), 100)}" if known else "it knows its nodes by others"
    has = f"its cluster is at {at[1]['ip']}" if at is not None and not known else has
    count = f", and {cluster.gpus - cluster.used:g} of {cluster.gpus:g} GPUs are free" if free and cluster else ""
    own = ". A host name that is 127.0.1.1 in /etc/hosts gives such an address" if wanted["ip"][:4] == "127." else ""
    own = ". It must be an address, and no name" if not wanted["ip"][0].isdecimal() else own
    by = f"VLLM_HOST_IP={wanted['ip']}"
    by = "VLLM_HOST_IP" if any(by in text.text for text in texts) else f"node:{wanted['ip']}"
    return Sharper(
        f"Ray is asked for a node with the address {named(wanted['ip'])} ({named(by)}), which none of its nodes has: "
        f"{has}{count}",
        f"{_USE_IP}{own}{'. GPUs are enough: joining nodes or ending jobs does not help' if free else ''}",
        (*(text.evidence(found.start()) for text, found in rows[:2]), *([cluster.evidence] if cluster else [])),
    )


def _by_either(finding: Finding, ip: str) -> Sharper:
    """No node can ever give it, and no listing tells whether the address or the GPU is what lacks."""
    return Sharper(
        f"Ray knows no node that has both the address {named(ip)} and the GPUs that are asked for there: VLLM_HOST_IP "
        "names another address than Ray has of that node, or Ray counts no GPUs on it",
        f"ray list nodes and ray status -v: is {named(ip)} there, and with GPUs? Where it is not: {_USE_IP}. Where it "
        "is: the head was started without GPUs (--num-gpus=N; container: --gpus all)",
    )


_LISTED = re.compile(r"^GPU (?P<gpu>\d{1,3}): [^\n]{3,80}\(UUID: GPU-", re.MULTILINE)
_RECOUNT = (
    "Ray counts GPUs once, where ray start runs. On each node: ray stop, look that nvidia-smi -L and "
    "CUDA_VISIBLE_DEVICES of that shell show all of them (container: --gpus all), then ray start with the right "
    "--num-gpus. Or ask for what is there (trainer.n_gpus_per_node, tensor parallel size)"
)
_JOIN = "join the nodes that are missing (ray start --address=HEAD:6379; ray status must list them)"
_HOLDERS = (
    "see who holds them: ray list placement-groups, ray list actors --filter state=ALIVE. End that job (ray job stop, "
    "kill its driver; detached actors outlive it), or wait for it. Else ask for fewer GPUs, or join more nodes"
)


def _by_count(texts: Sequence[Text], cluster: _Cluster, asked: _Asked | None) -> Sharper | None:
    """By GPUs that are there, in use and asked for."""
    if asked is None or asked.gpus <= 0:
        return None
    seen = (cluster.evidence, *asked.evidence)
    each = cluster.gpus / max(1, cluster.nodes)
    have = f"{cluster.gpus:g} GPU{'' if cluster.gpus == 1 else 's'}"
    have += f" on {'one node' if cluster.nodes == 1 else f'{cluster.nodes} nodes'}" if cluster.nodes else ""
    wants = f"the job asks for {asked.gpus:g}"
    if cluster.gpus - cluster.used < asked.gpus and cluster.pending:
        return Sharper(
            f"Ray's autoscaler is still starting nodes ({named(cluster.pending)}): it has {have}, and {wants}",
            "wait for them; where they never come, the monitor's log tells why (/tmp/ray/session_latest/logs/monitor.*:"
            " quota, capacity, image, ssh). max_workers and the node type's GPUs must suffice for the request",
            seen,
        )
    if cluster.gpus and asked.gpus <= cluster.gpus and asked.on_one <= each:
        if cluster.used + asked.gpus > cluster.gpus:
            return Sharper(
                f"the GPUs of Ray's cluster are in use: {cluster.used:g} of {have}, and {wants}", _HOLDERS, seen
            )
        return _by_processors(cluster, asked, seen)
    listed = {found["gpu"] for text in texts for found in _LISTED.finditer(text.text)}
    more = f", though nvidia-smi lists {len(listed)}" if len(listed) > each and cluster.nodes <= 1 else ""
    one = " on one node" if asked.on_one > each else ""
    used = f"{cluster.used:g} in use" if cluster.used else "none in use"
    whole = cluster.nodes > 0 and each >= 1 and each == int(each) and int(each) % 4 == 0 and not one and not more
    nothing = "" if cluster.used else ". No other job holds any: there is none to end"
    short = (
        "no node of Ray's cluster has GPUs enough"
        if one and asked.gpus <= cluster.gpus
        else "Ray's cluster lacks nodes or GPUs"
        if whole
        else "Ray has counted too few GPUs"
    )
    return Sharper(
        f"{short}: {have} ({used}){more}, and {wants}{one}",
        f"{_JOIN}. Else: {_RECOUNT}{nothing}"
        if whole and asked.gpus > cluster.gpus
        else f"{_RECOUNT}{nothing}" + (f". Or {_JOIN}" if not one else ""),
        seen,
    )


def _by_processors(cluster: _Cluster, asked: _Asked, seen: tuple[Evidence, ...]) -> Sharper | None:
    if cluster.free_cpus is None or asked.cpus <= cluster.free_cpus:
        return None
    return Sharper(
        f"Ray's cluster has GPUs free, and too few processors: {asked.cpus:g} are asked for, {cluster.free_cpus:g} are "
        "free",
        "ask for fewer CPUs per worker (num_cpus, resources_per_worker), end what holds them, or tell Ray of more: ray "
        "start --num-cpus=N. In a container Ray counts the processors that it is given",
        seen,
    )
