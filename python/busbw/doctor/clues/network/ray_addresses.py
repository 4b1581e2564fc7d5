"""A clue of vLLM on Ray: its workers tell more addresses than there are nodes, of another network than Ray's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_IP = r"\d{1,3}(?:\.\d{1,3}){3}"
_SAID = re.compile(
    r"Every node should have a unique IP address\. Got (?P<nodes>\d{1,4}) nodes?[^\n]{0,6000}? and (?P<n>\d{1,4}) "
    rf"unique IP address\w{{0,2}} \{{(?P<ips>'{_IP}'(?:, '{_IP}'){{1,64}})\}}"
)
_OF_RAY = re.compile(
    rf"--node-ip-address[= ](?P<own>{_IP})\b|\bRay (?:cluster|instance)[^\n]{{0,30}}?(?P<head>{_IP}):\d{{2,5}}"
    rf"|\bray start [^\n]{{0,80}}--address[= ][\"']?(?P<to>{_IP}):\d|\bLocal node IP: (?P<local>{_IP})"
)
_SET = re.compile(rf"\bVLLM_HOST_IP=[\"']?(?P<ip>{_IP})\b")


def addresses_of_ray(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """More addresses than nodes: on some node the one that Ray has and the one that vLLM takes differ."""
    said = next(((text, found) for text in texts if (found := _SAID.search(text.text))), None)
    if said is None or int(said[1]["n"]) <= int(said[1]["nodes"]):
        return None
    text, found = said
    ips = re.findall(_IP, found["ips"])
    ray = [each for other in texts for row in islice(_OF_RAY.finditer(other.text), 64) for each in row.groups() if each]
    nets = {_net(each) for each in ray}
    others = [each for each in ips if _net(each) not in nets] if nets else []
    given = [(other, row) for other in texts for row in islice(_SET.finditer(other.text), 64)]
    values = {row["ip"] for _, row in given}
    set_ = given[0] if len(values) == 1 and not values & set(others) else None
    net = f"{_net(ray[0])}.x" if others else ""
    by = "" if values & set(others) else "of the default route, "
    which = (
        f"{named(', '.join(others[:4]), 80)} {by}where Ray's nodes have {net}"
        if others
        else named(", ".join(ips[:6]), 100)
    )
    alone = (
        f". VLLM_HOST_IP={set_[1]['ip']} holds in one shell alone: Ray's workers have the environment of ray start"
        if set_
        else ""
    )
    own = f" of {net}" if net else " that Ray has"
    return Sharper(
        f"vLLM's workers tell {found['n']} addresses for {found['nodes']} nodes: {which}{alone}",
        f"on each node before ray start: export VLLM_HOST_IP=its own address{own}. "
        "Then ray stop and ray start --node-ip-address=$VLLM_HOST_IP on all nodes, the head first, and vLLM again. "
        "NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name the interface of that network, also before ray start",
        (text.evidence(found.start()), *((set_[0].evidence(set_[1].start()),) if set_ else ())),
    )


def _net(ip: str) -> str:
    return ip.rpartition(".")[0]
