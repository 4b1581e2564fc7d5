"""A clue of ranks in containers of several hosts: they meet at rank 0's port, and then do not reach each other."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_IN_CONTAINERS = re.compile(
    r"\b(?:containers?|dockers?)\b[^\n]{0,60}\b(?:each|both|every|two|several|different|separate|another|other) "
    r"(?:\w{1,12} )?(?:hosts?|nodes?|machines?|servers?)\b"
    r"|\b(?:each|both|two|every)\b[^\n]{0,40}\b(?:hosts?|nodes?|machines?|servers?)\b[^\n]{0,40}\b(?:containers?|docker)\b"
    r"|\bdocker run [^\n]{0,400}(?:-p|--publish)[ =]\d",
    re.IGNORECASE,
)
_HOST_NETWORK = re.compile(
    r"--net(?:work)?[ =]host\b|\bnetwork_mode: ?['\"]?host\b|\bhostNetwork: ?true\b|\bhost network"
)
_FAILED = re.compile(r"unhandled system error|ncclSystemError|system error", re.IGNORECASE)
_ALONE = re.compile(
    r"\b(?:in(?:side)?|within|on) (?:of )?(?:the |a )?(?:one|single|same|1) (?:\w{1,12} )?(?:container|docker|host|node"
    r"|machine|server)\b(?![^\n]{0,160}\b(?:not|n't|fails?|same error)\b)[^\n]{0,200}?"
    r"\b(?:runs|works|passes|trains|succeeds|is fine|no (?:problem|error))\b"
    r"|\b(?:single|one)[- ](?:node|machine|host|container)\b[^\n]{0,40}\b(?:runs|works|passes|is fine|succeeds)\b",
    re.IGNORECASE,
)
_WARNS = re.compile(r"NCCL WARN|\b(?:mlx5_\d|NET/IB : Using)")


def containers_over_hosts(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A call of NCCL failed in the system between containers of two hosts, and within one host it does not."""
    if not any(_FAILED.search(seen.fact) for seen in finding.evidence):
        return None
    if any(words.search(text.text) for text in texts for words in (_HOST_NETWORK, _WARNS)):
        return None
    for text in texts:
        apart, alone = _IN_CONTAINERS.search(text.text), _ALONE.search(text.text)
        if apart is None or alone is None:
            continue
        return Sharper(
            "ranks in containers of several hosts meet at rank 0's port, and then NCCL does not get from one to the "
            "other: each container has a network of its own, most likely",
            "start the containers on all hosts with --network=host (compose: network_mode: host; Kubernetes: "
            "hostNetwork), with --ipc=host too. One open port is not enough: NCCL listens at ports of its own choice. "
            "Then NCCL_SOCKET_IFNAME names the interface between the hosts. NCCL_DEBUG=INFO shows the address that it "
            "tries: 172.17.x.x is Docker's own",
            (text.evidence(apart.start()), text.evidence(alone.start())),
        )
    return None
