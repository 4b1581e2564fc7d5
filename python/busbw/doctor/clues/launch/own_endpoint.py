"""A clue of a rendezvous of several nodes at a loopback address: each node waits at itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.network.one_host import on_one_host
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text

_LOOP = r"(?:127\.\d{1,3}\.\d{1,3}\.\d{1,3}|localhost|\[?::1\]?)"
_ENDPOINT = re.compile(
    rf"\brdzv_endpoint\s{{0,12}}[:=] ?['\"]?(?P<told>{_LOOP}):(?!0\b)\d{{1,5}}\b"
    rf"|--rdzv[-_]endpoint[= ]['\"]?(?P<asked>{_LOOP})(?!:0\b)(?![\w.-])"
    rf"|(?:--master[-_]addr(?:ess)?[= ]|--main_process_ip[= ]|\bmain_process_ip: )['\"]?(?P<first>{_LOOP})(?![\w.-])"
)
"""What torchrun tells of itself, and what commands ask for. Port 0 is that of one node alone."""
_NODES = re.compile(
    r"\bmin_nodes\s{0,12}: {0,4}(?:[2-9]|\d{2,5})\b|--n?nodes[= ](?:\d{1,5}:)?(?:[2-9]|\d{2,5})\b"
    r"|\bnum_machines(?:: ?|[= ])(?:[2-9]|\d{2,5})\b"
)
_OWN = re.compile(
    r"^[^\n]{0,120}\bhostname (?P<how>--ip-address|-i|-I|--all-ip-addresses)\b|\bgethostbyname\(", re.MULTILINE
)


def endpoint_of_each_node(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """torchrun of several nodes has its endpoint at loopback, and no line says that all of them are on one host."""
    for text in texts:
        end, nodes = _ENDPOINT.search(text.text), _NODES.search(text.text)
        if end is None or nodes is None or on_one_host(facts, texts) is not None:
            continue
        at = end["told"] or end["asked"] or end["first"]
        what, option = (
            ("rank 0's address", "--master-addr=NODE (accelerate: main_process_ip)")
            if end["first"]
            else ("the rendezvous endpoint", "--rdzv-endpoint=NODE:29500")
        )
        own = _OWN.search(text.text)
        how = (
            "`hostname --ip-address` on the first node answers with it: its /etc/hosts has its own name on a 127. "
            "line. Take it off there, or ask for the address of an interface (ip -4 addr show, hostname -I). "
            if own is not None
            else ""
        )
        return Sharper(
            f"{what} is {at}, which is each node's own: every node waits at itself for the others",
            f"give all nodes the first node's real name or address: {option} (Slurm: scontrol show "
            f'hostnames "$SLURM_JOB_NODELIST" | head -n1). {how}More time, ports and firewall change nothing',
            tuple(text.evidence(found.start()) for found in (end, own) if found is not None),
        )
    return None
