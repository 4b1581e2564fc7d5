"""Hosts of one job that chose different networks of NCCL: one has a plugin or RDMA devices that another lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage

NAME = "networks-differ"


def examine(facts: Facts) -> Iterator[Finding]:
    """One finding where several hosts named a network and not all the same."""
    hosts: dict[str, list[str]] = defaultdict(list)
    places: dict[str, Evidence] = {}
    for log in facts.logs:
        for host, said in log.networks.items():
            if host:
                hosts[said.text].append(host)
                places.setdefault(
                    said.text, Evidence(f"{clean(host)}: Using network {said.text}", log.source, said.line)
                )
    if len(hosts) < 2:
        return
    parts = [
        f"{clean(name)} on {', '.join(map(clean, who[:3]))}{' ...' if len(who) > 3 else ''}"
        for name, who in hosts.items()
    ]
    yield Finding(
        NAME,
        Severity.ERROR,
        f"hosts of the job chose different networks: {'; '.join(parts[:4])}",
        tuple(list(places.values())[:4]),
        Cost("the job hangs in its init, or fails at its first message between these hosts"),
        "make the image, the network plugin, LD_LIBRARY_PATH and the RDMA devices the same on all hosts, or set "
        "NCCL_NET and NCCL_NET_PLUGIN to one value (NCCL_NET_PLUGIN=none leaves NCCL's own)",
        Proof(instruction="confirm: NCCL_DEBUG=INFO on all ranks, and compare their lines `Using network`"),
        stage=Stage.SETTING,
    )
