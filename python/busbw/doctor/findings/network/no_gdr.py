"""No GPU Direct RDMA: NICs that copy through host memory, by setting, missing module, or as a log shows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.findings.network.nic_far import by_distance
from busbw.doctor.near_nics import chosen_far
from busbw.doctor.remedy import evidence, removal, without

NAME = "no-gdr"
_COST = Cost(
    "often half of the bandwidth between nodes: every byte crosses host memory",
    None,
    "PCIe carries each byte twice more, and the processor's memory between",
)
_LEVELS_OFF = {"LOC", "0"}
_GB10 = "000f:01:00.0"
"""Where the one GPU of a DGX Spark lies. Its memory is the host's, which RDMA devices reach as such."""


_CHANNEL = re.compile(
    r"(?P<host>[A-Za-z0-9][\w.-]{0,120}):\d{1,10}:\d{1,10} \[\d{1,4}\] NCCL INFO Channel [^\n]{5,120}? "
    r"via NET/IB/\d{1,3}"
    r"(?:\(\d{1,6}\))?(?P<gdr>/GDRDMA\b)?"
)
"""The end of a connection over RDMA, as its own host says it."""
_NO_PEER = re.compile(
    r"^(?P<host>[A-Za-z0-9][\w.-]{0,120}): .{0,40}cannot access .{0,20}/memory_peers/|peermem: not loaded"
)
_SAID = "gdr-differs"
"""The signature that tells the same, by what newer releases of NCCL say of each HCA."""


def examine(facts: Facts) -> Iterator[Finding]:
    yield from _by_setting(facts)
    apart = _by_hosts(facts)
    yield from _by_log(facts) if apart is None else (apart,)
    host = facts.snapshot.host
    if facts.has_rdma and host is not None and host.peer_memory is False and facts.snapshot.gpus:
        yield Finding(
            NAME, Severity.WARNING, "no kernel module lets RDMA devices reach GPU memory",
            (Evidence("neither nvidia_peermem nor the open kernel modules are loaded", "/proc/modules"),), _COST,
            "modprobe nvidia_peermem, or install the open kernel modules (DMA-BUF)",
            Proof(instruction="load the module, run on two nodes, and look for GDRDMA in NCCL's log"),
        )  # fmt: skip


def _by_setting(facts: Facts) -> Iterator[Finding]:
    setting = facts.settings.get("NCCL_NET_GDR_LEVEL")
    if setting is not None and setting.value.strip() in _LEVELS_OFF:
        matters = facts.has_rdma or facts.several_nodes
        yield Finding(
            NAME, Severity.WARNING if matters else Severity.NOTE,
            f"NCCL_NET_GDR_LEVEL={setting.value} switches GPU Direct RDMA off", (evidence(setting),), _COST,
            removal(setting), without(setting),
        )  # fmt: skip


def _by_hosts(facts: Facts) -> Finding | None:
    """Some hosts of a job have it on all their channels, and others on none."""
    if any(dict(each).get("state") == "disabled" for scan in facts.scans if _SAID in scan.hits
           for each in scan.hits[_SAID].groups):  # fmt: skip
        return None
    seen: defaultdict[str, dict[bool, Evidence]] = defaultdict(dict)
    module = None
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            if " via NET/IB" in line and (found := _CHANNEL.search(line)):
                said = Evidence(clean(shortened(line.strip(), 160)), shown.source, number)
                seen[found["host"]].setdefault(found["gdr"] is not None, said)
            elif "memory_peers" in line and _NO_PEER.search(line):
                module = Evidence(clean(shortened(line.strip(), 160)), shown.source, number)
    have = sorted(host for host, each in seen.items() if set(each) == {True})
    lack = sorted(host for host, each in seen.items() if set(each) == {False})
    if not have or not lack:
        return None
    first = seen[lack[0]][False]
    return Finding(
        NAME, Severity.WARNING,
        f"GPU Direct RDMA is on on {', '.join(have[:4])} and off on {', '.join(lack[:8])} (no /GDRDMA behind its "
        "channels): the slowest host decides",
        (first, seen[have[0]][True], *((module,) if module else ())), _COST,
        f"on {', '.join(lack[:8])}: modprobe nvidia-peermem (after OFED) and its name in /etc/modules-load.d, "
        f"or the open "
        "kernel modules for DMA-BUF; the same driver and kernel as on the others",
        Proof(instruction="lsmod | grep nvidia_peermem on all hosts; then each channel over NET/IB ends in GDRDMA"),
    )  # fmt: skip


def _by_log(facts: Facts) -> Iterator[Finding]:
    for log in facts.logs:
        largest = log.largest
        if largest and largest.ranks and all(place.bus_id == _GB10 for place in largest.ranks):
            continue
        if by_distance(log) or chosen_far(facts) is not None:
            continue  # told as what it is: the devices lie too far apart
        pairs = largest.transports if largest else ()
        over_ib = [each for each in pairs if each.kind == "NET" and each.detail.startswith("IB")]
        without_gdr = [each for each in over_ib if not each.gdr]
        if not over_ib and "disabled" in log.gdr and "enabled" not in log.gdr and not facts.ran_on_one_node:
            said = log.gdr["disabled"]
            yield Finding(
                NAME, Severity.WARNING, "no RDMA device reaches GPU memory (GPU Direct RDMA is disabled for all)",
                (Evidence(said.text, log.source, said.line),), _COST,
                "load nvidia_peermem (modprobe nvidia-peermem) or use DMA-BUF with the open kernel modules",
                Proof(instruction="load the module, run on two nodes, and look for GDRDMA in NCCL's log"),
            )  # fmt: skip
        if without_gdr:
            first = without_gdr[0]
            facts_seen = [Evidence(
                f"{len(without_gdr)} of {len(over_ib)} pairs over NET/IB without GDRDMA, first {first.sender} -> "
                f"{first.receiver}", log.source, first.line,
            )]  # fmt: skip
            if "disabled" in log.gdr:
                facts_seen.append(Evidence(log.gdr["disabled"].text, log.source, log.gdr["disabled"].line))
            why, cure = _why(facts)
            yield Finding(
                NAME, Severity.WARNING, f"RDMA without GPU Direct{why}", tuple(facts_seen), _COST, cure,
                Proof(set={"NCCL_NET_GDR_LEVEL": "SYS"}),
            )  # fmt: skip


def _why(facts: Facts) -> tuple[str, str]:
    """Why there is none as far as logs tell it, and what mends that."""
    said = {
        name for scan in facts.scans if "topology-hidden" in scan.hits
        for each in scan.hits["topology-hidden"].groups for name, _ in each
    }  # fmt: skip
    file = facts.value("NCCL_TOPO_FILE")
    if "far" in said and file is not None:
        return (
            f": by NCCL_TOPO_FILE={shortened(file, 80)} GPUs and NICs lie too far apart",
            "take the provider's topology file for this type of machine, or unset NCCL_TOPO_FILE; "
            "NCCL_TOPO_DUMP_FILE=topo.xml and `busbw topo topo.xml` show what NCCL makes of it",
        )
    if "far" in said:
        return (
            ": NCCL counts GPUs and NICs as too far apart",
            "in a virtual machine set NCCL_TOPO_FILE to the provider's file; else use the NICs below the GPUs' PCIe "
            "switches (nvidia-smi topo -m, NCCL_IB_HCA), or measure with NCCL_NET_GDR_LEVEL=SYS",
        )
    return "", "load nvidia_peermem or use DMA-BUF; where GPU and NIC lie far apart, raise NCCL_NET_GDR_LEVEL"
