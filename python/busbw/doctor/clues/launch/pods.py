"""Clues of Kubernetes: names of pods that no headless service gives, and a pod that found no node."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

POD = re.compile(
    r"\b(?P<pod>[a-z0-9](?:[a-z0-9-]{0,60})-\d{1,5})\.(?P<service>[a-z][a-z0-9-]{0,62})"
    r"(?:\.(?P<space>[a-z0-9-]{1,63})(?:\.svc(?:\.[\w.-]{1,80})?)?)?(?![\w.-])"
)
"""A pod of a set by its own name: POD-0.SERVICE.NAMESPACE.svc.cluster.local."""
_SPEC = re.compile(
    r"jsonpath=\S{0,3}\{\.spec\.serviceName\}[^\n]{0,40}\n(?P<a>[a-z][a-z0-9-]{0,62})\s*$"
    r"|^\s{1,8}serviceName: [\"']?(?P<b>[a-z][a-z0-9-]{0,62})\b",
    re.MULTILINE,
)
_SETS = re.compile(r"[Ss]tateful[Ss]et|\bsts\b")
_FIX = (
    "make a headless service (clusterIP: None, publishNotReadyAddresses: true) whose name is the StatefulSet's "
    "spec.serviceName and whose selector fits its pods; then MASTER_ADDR={pod}.{spec}. DNS itself needs no repair"
)


def headless(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Pods have names of their own in DNS by a headless service alone, which is the one that their set names."""
    said = " ".join((finding.title, *(seen.fact for seen in finding.evidence)))
    for pod in POD.finditer(said):
        service = re.escape(pod["service"])
        row = re.compile(
            rf"^\s{{0,4}}(?:service/)?{service}\s{{1,60}}(?P<kind>ClusterIP|NodePort|LoadBalancer)\s{{1,30}}"
            rf"(?P<ip>\d{{1,3}}(?:\.\d{{1,3}}){{3}}|None)\b"
            rf"|services \"(?P<none>{service})\" not found",
            re.MULTILINE,
        )
        for text in texts:
            listed = row.search(text.text)
            specs = list(_SPEC.finditer(text.text)) if _SETS.search(text.text) else []
            names = [each["a"] or each["b"] for each in specs]
            spec, set_of = (specs[0], names[0]) if specs else (None, "")
            why, seen = list[str](), []
            if listed is not None and listed["ip"] != "None":
                missing = listed["none"] is not None
                why.append(
                    f"there is no service {pod['service']}" if missing else
                    f"the service {pod['service']} is not headless (it has the address {listed['ip']})"
                )  # fmt: skip
                seen.append(text.evidence(listed.start()))
            if spec is not None and pod["service"] not in names:
                why.append(f"the set's serviceName is {named(set_of)}, not {pod['service']}")
                seen.append(text.evidence(spec.end() - 1))
            if why:
                return Sharper(
                    f"pods have no names of their own, so that {named(pod[0], 80)} does not resolve: {'; '.join(why)}",
                    _FIX.format(pod=pod["pod"], spec=set_of or pod["service"]),
                    tuple(seen),
                )
    return None


SERVICES = re.compile(
    r"^[^\n]{0,120}[#$>] ?kubectl (?:-n \S{1,63} |--namespace[ =]\S{1,63} )?get "
    r"(?:[a-z/]{1,20},){0,4}(?:svc|services?|all)(?:,[a-z/]{1,20}){0,4}"
    r"(?: --?[a-zA-Z][\w=-]{0,60}(?: [a-z][\w-]{0,62})?){0,4}"
    # Kinds that are asked for together stand apart by an empty line.
    r"\s{0,4}\n(?P<rows>(?:[^\n]{1,300}\n?|\n(?=NAME\s)){1,60})",
    re.MULTILINE,
)
"""A list of all services: one that names a service, or is filtered, does not tell which others there are."""
_SERVICE = re.compile(
    r"^\s{0,4}(?:[a-z0-9-]{1,63}\s{1,40})?(?:service/)?(?P<name>[a-z][a-z0-9-]{0,62})\s{1,60}"
    r"(?:ClusterIP|NodePort|LoadBalancer|ExternalName)\b",
    re.MULTILINE,
)
_POD_ROW = re.compile(
    r"^\s{0,4}(?:[a-z0-9-]{1,63}\s{1,40})?(?:pod/)?(?P<name>[a-z0-9][a-z0-9-]{1,60}-0)\s{1,60}\d{1,3}/\d{1,3}\s",
    re.MULTILINE,
)
_SHORT = re.compile(
    r"(?:addresses of \(|resolve host(?:name)?:? |getaddrinfo\W{1,3}|: )(?P<name>[a-z][a-z0-9-]{2,62})(?=[,: )]|$)"
)
"""A name without dots that does not resolve: in Kubernetes that of a service in the own namespace."""


def without_service(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The name is that of no service which the namespace has, as `kubectl get svc` lists them."""
    said = "\n".join((finding.title, *(seen.fact for seen in finding.evidence)))
    asked = list(dict.fromkeys(found["name"] for found in _SHORT.finditer(said)))
    for text in texts:
        for listed in SERVICES.finditer(text.text):
            names = [each["name"] for each in _SERVICE.finditer(listed["rows"])]
            name = next((each for each in asked if each not in names), None)
            if not names or name is None:
                continue
            pods = [each["name"] for each in _POD_ROW.finditer(text.text)]
            if name in pods:
                continue
            first = pods[0] if pods else "POD-0"
            called = f", and the first pod is called {named(first)}" if pods else ""
            return Sharper(
                f"there is no service {named(name)}, so that the name does not resolve: kubectl lists "
                f"{named(', '.join(names[:4]), 80)} alone{called}",
                f"make a headless service {named(name)} (clusterIP: None, publishNotReadyAddresses: true) whose "
                f"selector fits the first pod. Or one that the StatefulSet names in spec.serviceName, and give "
                f"{named(first)}.SERVICE as the address of rank 0. DNS itself, IPv6 and firewalls need no repair",
                (text.evidence(listed.start("rows")),),
            )
    return None


_PENDING = re.compile(
    r"^\s{0,4}(?:(?:[a-z0-9-]{1,63})\s{1,40})?(?:pod/)?(?P<pod>[a-z0-9][a-z0-9.-]{1,120})\s{1,40}0/\d{1,3}\s{1,12}Pending\b",
    re.MULTILINE,
)
_CORDONED = re.compile(r"^\s{0,4}(?P<node>[a-z0-9][\w.-]{1,120})\s{1,40}Ready,SchedulingDisabled\b", re.MULTILINE)
_KEPT = re.compile(r"\b(?P<n>\d{1,5}) node\(s\) were unschedulable\b")
"""How the scheduler counts nodes that are cordoned."""
_NO_NODE = re.compile(r"FailedScheduling|Insufficient |Unschedulable|nodes are available")


def pending_pod(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Which pod waits for a node, and which nodes are kept from pods."""
    if not any(_NO_NODE.search(seen.fact) for seen in finding.evidence):
        return None
    for text in texts:
        pods = list(_PENDING.finditer(text.text))
        if not pods:
            continue
        names = list(dict.fromkeys(each["pod"] for each in pods))
        nodes = list(dict.fromkeys(each["node"] for each in _CORDONED.finditer(text.text)))
        who = f"pod {named(names[0])} is" if len(names) == 1 else f"{len(names)} pods ({named(', '.join(names))}) are"
        cordoned = f" (cordoned, so that no pod comes there: {', '.join(map(named, nodes[:4]))})" if nodes else ""
        kept = next((found["n"] for text in texts if (found := _KEPT.search(text.text))), "") if not nodes else ""
        cordoned = f" ({kept} cordoned, so that no pod comes there)" if kept else cordoned
        first = f"kubectl uncordon {named(nodes[0])} if it is well again; else " if nodes else ""
        first = (
            "kubectl get nodes shows SchedulingDisabled: uncordon these if they are well again; else "
            if kept
            else first
        )
        return Sharper(
            f"{who} Pending, so that the job is not complete and its other pods wait: {finding.title}{cordoned}",
            f"{first}free GPUs (end other pods), add nodes, or ask for fewer. Start the pods of a job together "
            "or not at all (Kueue, Volcano, coscheduling). Where kubectl describe node shows 0 GPUs of a GPU node, "
            "restart its device plugin",
            (text.evidence(pods[0].start("pod")),),
        )
    return None


_NOT_READY = (
    r"(?:0/\d{1,3}\s{1,12}(?P<state>[A-Z]\w{3,40}|Init:\S{1,30})"
    r"|(?P<state_>ContainerCreating|PodInitializing|Pending|Terminating))\b"
)
_NAMED = re.compile(
    r"(?:resolve host(?:name)?:? |getaddrinfo\W{1,3}|host=.?|\bto |daemons? on |host: |^)"
    r"(?P<host>[a-z0-9][a-z0-9-]{1,62})(?=[.:, ]|$)"
    r"|(?P<host_>[a-z0-9][a-z0-9-]{1,62})(?:\.[\w.-]{1,150})?"
    r"(?::\d{1,6})?: (?:Name or service|Temporary failure|No address)",
    re.MULTILINE,
)
_PULLS = re.compile(r"Pulling image \S{3,200}")


def worker_not_ready(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The name that does not resolve, or the host that does not answer, is a pod that has not started yet."""
    said = "\n".join((finding.title.rpartition(": ")[2], *(seen.fact for seen in finding.evidence)))
    for host in dict.fromkeys(found["host"] or found["host_"] for found in _NAMED.finditer(said)):
        row = re.compile(
            rf"^\s{{0,4}}(?:[a-z0-9-]{{1,63}}\s{{1,40}})?(?:pod/)?{re.escape(host)}\s{{1,40}}{_NOT_READY}", re.MULTILINE
        )
        for text in texts:
            if (listed := row.search(text.text)) is None:
                continue
            state = named(listed["state"] or listed["state_"], 40)
            pulls = _PULLS.search(text.text)
            image = ", its image is being pulled" if pulls else ""
            return Sharper(
                f"pod {named(host)} has not started yet ({state}{image}), so that its name does not resolve: the "
                "launcher came before its workers",
                "let the launcher wait: launcherCreationPolicy: WaitForWorkersReady (MPIJob), an init container that "
                f"waits for each name (until getent hosts {named(host)}...), or a higher backoffLimit; pull the image "
                f"onto new nodes first. Where it stays so: kubectl describe pod {named(host)}. DNS itself, "
                f"ssh keys and "
                "libraries need no repair",
                (text.evidence(listed.start()), *((text.evidence(pulls.start()),) if pulls else ())),
            )
    return None


_KILLED = re.compile(
    r"^ {2,12}(?P<container>[a-z0-9][\w.-]{1,62}): {0,8}\n(?: {4,16}[^\n]{0,300}\n){1,40}? {4,20}"
    r"Reason: {1,20}OOMKilled\b(?:[^\n]{0,4}(?:\n {4,20}[^\n]{0,300}){1,20}?\n {4,16}Limits: {0,8}"
    r"(?:\n {6,20}[^\n]{0,200}){0,8}?\n {6,20}memory: {1,20}(?P<limit>\d[\w.]{0,12}))?",
    re.MULTILINE,
)
_NAME = re.compile(r"^Name: {1,20}(?P<pod>[a-z0-9][\w.-]{1,120})\s*$", re.MULTILINE)


def killed_at_limit(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """The pod whose container was killed as it reached its own limit of memory, as `kubectl describe` shows it."""
    for text in texts:
        found = _KILLED.search(text.text)
        if found is None:
            continue
        names = list(_NAME.finditer(text.text, 0, found.start()))
        who = f"pod {named(names[-1]['pod'])}" if names else f"container {named(found['container'])}"
        limit = f" of {found['limit']}" if found["limit"] else ""
        return Sharper(
            f"{who} was killed at its own limit of memory{limit} (OOMKilled), whatever its node has free",
            f"raise resources.limits.memory of that container{f' above {limit[4:]}' if limit else ''}, its request "
            "alike: for NCCL with many GPUs and NICs tens of GiB, /dev/shm and pinned buffers count too. Or fewer "
            "loader workers and less pinned memory. What its peers say after it follows (lost daemons, transfers)",
            (text.evidence(text.text.find("OOMKilled", found.start())),),
        )
    return None
