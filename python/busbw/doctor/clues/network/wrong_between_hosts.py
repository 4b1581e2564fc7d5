"""Wrong values of a test with one GPU on each host: what is wrong came over the network."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_ONE_EACH = re.compile(
    r"\bsrun\b(?=[^\n]{0,600}(?:\s-N ?|--nodes[= ])(?!1\b)\d)(?=[^\n]{0,600}--ntasks-per-node[= ]1\b)"
    r"[^\n]{0,800}?\b[a-z]\w{2,40}_perf\b(?![^\n]{0,200}\s-[gt] ?(?!1\b)\d)"
)
_BOND = re.compile(r"\b(?P<name>(?:mlx\d_)?bond_?\d{1,2})\b")
_ROCE = re.compile(r"\bRoCE\b|NET/IB ?:[^\n]{0,200}/RoCE\b")
_OTHER_CAUSE = re.compile(r"\b2\.32\.3\b")
"""A release whose reduce-scatter is wrong with one rank on each host."""


def wrong_over_network(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Each rank runs on a host of its own, by the command or by the table's list of ranks."""
    if any(_OTHER_CAUSE.search(text.text) for text in texts):
        return None
    seen: tuple[Evidence, ...] | None = None
    ranks = [[rank.host for rank in each.run.ranks] for each in facts.records]
    if any(len(hosts) > 1 and "" not in hosts and len(set(hosts)) == len(hosts) for hosts in ranks):
        seen = ()
    if any(len(hosts) > 1 and len(set(hosts)) < len(hosts) for hosts in ranks):
        return None
    run = next(((text, found) for text in texts if (found := _ONE_EACH.search(text.text))), None)
    if run is not None:
        seen = (run[0].evidence(run[1].start()),)
    if seen is None:
        return None
    bond = next((found["name"] for text in texts if (found := _BOND.search(text.text))), "")
    roce = ", over RoCE" if any(_ROCE.search(text.text) for text in texts) else ""
    port = f"one port without the bond ({bond}), " if bond else "another port or NIC, "
    return Sharper(
        f"{finding.title.partition(': a GPU computes')[0]}. Each rank has a host of its own, so that wrong values come "
        f"over the network between hosts{roce}{f' and the bond {bond}' if bond else ''}, or of one GPU alone",
        "find the part by the same test, one change at a time: NCCL_IB_DISABLE=1 (sockets), NCCL_NET_GDR_LEVEL=LOC (no "
        f"GPU Direct RDMA), {port}each host alone. Right without GPU Direct RDMA: ACS and IOMMU "
        "between GPU and NIC, slot, driver. Right over sockets: firmware of NIC and switch, OFED. Train nothing on it "
        "until then",
        seen,
    )
