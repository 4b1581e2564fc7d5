"""Clues of an address that is not the program's own: of its node, while it runs in a pod or container."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_IP = r"(?<![\d.])(?!127\.|0\.0\.0\.0|172\.17\.)\d{1,3}(?:\.\d{1,3}){3}(?![\d.]\d)"
_ADDRESS = re.compile(_IP)
_VARIABLE = r"(?P<name>[A-Z][A-Z0-9_]{2,40}|master_addr|host_ip)"
_OF_NODE = re.compile(
    rf"\bname\"?: ?\"?{_VARIABLE}\"?,?(?:(?!\bname\"?:)[^\n]|\n(?!\s{{0,40}}- )){{1,160}}?"
    r"fieldPath\"?: ?\"?status\.hostIP\b"
    rf"|^\s{{2,30}}{_VARIABLE.replace('?P<name>', '?P<described>')}: {{1,30}}\(v1:status\.hostIP\)",
    re.MULTILINE,
)
"""A variable that gets the node's address: in a manifest, in JSON, and as `kubectl describe` shows it."""
_OWN_NET = re.compile(r"hostNetwork\"?: ?true|\bNetwork: ?host\b|--net(?:work)?[ =]host\b")
_TAKES = re.compile(r"HOST_IP|MASTER_ADDR|master_addr|HOST_ADDR|NODE_IP|RDZV|host_ip|COORDINATOR")
_ROW = (
    r"^\s{0,4}(?:pod/)?[a-z0-9][\w.-]{3,120} {1,30}\d{1,2}/\d{1,2} {1,20}\w[\w:]{2,30} {1,20}\d{1,6}"
    r"(?: \([^)\n]{1,30}\))? {1,20}\w{2,12} {1,20}"
)
_POD_IP = re.compile(
    rf"{_ROW}(?P<wide>{_IP})|^IP: {{1,30}}(?P<described>{_IP})\s*$|\bpodIP\"?: ?\"?(?P<json>{_IP})"
    rf"|NCCL INFO Bootstrap ?: ?Using \S{{1,20}}:(?P<nccl>{_IP})<",
    re.MULTILINE,
)
"""The pod's own address: by `kubectl get pods -o wide`, `kubectl describe`, its manifest, and NCCL."""
_RUN = re.compile(
    r"\bdocker run (?P<all>[^\n]{0,600}?(?:-e|--env)[ =](?P<name>(?:VLLM_|SGLANG_)?HOST_IP|MASTER_ADDR)=(?P<ip>"
    rf"{_IP})[^\n]{{0,300}})"
)


def address_of_node(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks look for rank 0 at the node's address, which the pod's environment names, and the pod has its own."""
    tried = dict.fromkeys(found[0] for seen in finding.evidence for found in _ADDRESS.finditer(seen.fact))
    if not tried or any(_OWN_NET.search(text.text) for text in texts):
        return None
    return _in_pod(tuple(tried), texts) or _in_container(tuple(tried), texts)


def _in_pod(tried: Sequence[str], texts: Sequence[Text]) -> Sharper | None:
    own = [(text, found) for text in texts for found in _POD_IP.finditer(text.text)]
    ips = {next(each for each in found.groups() if each) for _, found in own}
    for text in texts:
        for found in _OF_NODE.finditer(text.text):
            name = found["name"] or found["described"]
            at = next((ip for ip in tried if ip not in ips), None)
            if at is None or not _TAKES.search(name):
                continue
            mine = f", while the pod has {min(ips)}" if len(ips) == 1 else ", while pods have addresses of their own"
            given = _given(at, texts)
            takes = (
                "vLLM and others take it for their own address" if "HOST_IP" in name else "ranks take it for rank 0's"
            )
            return Sharper(
                f"{name} is the node's address (status.hostIP): ranks look for rank 0 at {at}{mine}, and nobody "
                "listens there",
                f"remove {named(name)} from the pod's environment, or take it from status.podIP: {takes} (vLLM: "
                "VLLM_HOST_IP, in old releases HOST_IP). On one node 127.0.0.1 does. Or hostNetwork: true. Firewall, "
                "network policies and NCCL have no part in it",
                (*given, text.evidence(found.start()), *(each.evidence(seen.start()) for each, seen in own[:1])),
            )
    return None


def _in_container(tried: Sequence[str], texts: Sequence[Text]) -> Sharper | None:
    for text in texts:
        for found in _RUN.finditer(text.text):
            if found["ip"] in tried:
                name = found["name"]
                return Sharper(
                    f"{name}={found['ip']} is an address of the host, and the container has its own network (docker "
                    "run without --network=host): nobody in it can listen at that address",
                    f"docker run --network=host (with --ipc=host), as ranks of several hosts need; on one host alone "
                    f"leave {name} out, or set it to 127.0.0.1. NCCL has no part in it",
                    (text.evidence(found.start()), *_given(found["ip"], texts)),
                )
    return None


def _given(ip: str, texts: Sequence[Text]) -> tuple[Evidence, ...]:
    """Where the program says that it takes that address."""
    words = re.compile(
        rf"(?:distributed_init_method|init_method|master_addr\w{{0,4}})\W{{1,5}}(?:tcp://)?{re.escape(ip)}\b",
        re.IGNORECASE,
    )
    return next(((text.evidence(found.start()),) for text in texts if (found := words.search(text.text))), ())
