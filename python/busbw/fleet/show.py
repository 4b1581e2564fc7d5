"""What operators do with verdicts: a table, nodes to leave out in the scheduler's words, JUnit and JSON."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from busbw.base.prometheus import Family
from busbw.base.secrets import shortened
from busbw.base.text import clean, columns, sentences
from busbw.fleet.fabric import Fabric
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.verdict import Verdict
from busbw.fleet.words import compressed

REASON = 24  # characters of a reason in the table; longer ones stand below it
MOST_REASONS = 12
MOST_WHY = 100  # of a reason for Slurm
NEXT = {
    "broken": "look at the node's console and its scheduler daemon",
    "nvlink": "run `busbw doctor` on the node; look for NVLink errors and throttled GPUs",
    "pcie": "compare the link's width and speed with `nvidia-smi topo -m` and `lspci -vv`",
    "nic": "reset the NIC, compare its firmware and settings with a good node's, then swap it",
    "cable": "look at the port's error counters, clean or swap cable and transceiver",
    "link": "measure the NIC's loopback: it tells the NIC from its cable",
    "latency": "look at the port's speed and errors, forward error correction, interrupt coalescing and sleep states",
    "leaf": "look at the switch: its errors, buffers and settings",
    "uplink": "count the working uplinks of this switch and look at their error counters; it may only be full: "
    "measure again while no other job sends",
    "either": "these were only measured together; give the fleet a third node, or measure each with a good one",
    "shared": "look for the switch, link or setting that these nodes share and others do not; --topology tells a leaf "
    "from its uplinks",
    "level": "compare clocks, power limits, drivers and NCCL's settings with the earlier results; of one channel see "
    "which socket its NICs are on, and how its switches are set; run `busbw doctor`",
    "spine": "look at the spines of this rail: errors, and how flows are spread; they may only be full: measure again "
    "while no other job sends",
}


def nodes_to_exclude(fabric: Fabric, verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Node and reason, worst first. Switches are named in the table, but condemn no node."""
    nodes, found = set(fabric.nodes), dict[str, str]()
    for v in verdicts:
        if v.place in nodes:
            said = f"{v.name.removesuffix(f' of {v.place}')} {amount(v)}"
            if v.kind == "broken":
                said = f"broken: {clean(v.reason)[:MOST_WHY]}" if v.reason else "broken"
            found[v.place] = f"{found[v.place]}; {said}" if v.place in found else said
    return found


def amount(v: Verdict) -> str:
    """How much is lost."""
    if v.loss >= 1:
        return "does not work"
    return f"later by {later(v.loss):.0f} %" if v.channel.startswith("latency") else f"slow by {100 * v.loss:.1f} %"


def later(loss: float) -> float:
    """By how many percent a small message takes longer, from the share of messages a second that is lost."""
    return 100 * loss / (1 - min(loss, 0.999))


def table(verdicts: Sequence[Verdict]) -> list[str]:
    """A line for each fault, worst first, and what to do next."""
    if not verdicts:
        return []
    rows = [[clean(v.kind), clean(v.place or "-"), v.channel or "all", f"{100 * v.loss:.1f} %",
             f"{max(0.0, 100 * (v.loss - 1.96 * v.error)):.1f} to {min(100.0, 100 * (v.loss + 1.96 * v.error)):.1f}",
             clean(v.runner_up or v.reason or "")[:REASON]] for v in verdicts]  # fmt: skip
    lines = columns(["kind", "where", "channel", "slower by", "95 %", "or, reason"], rows, left=[0, 1, 2, 5])
    cut = [f"{clean(v.name)}: {clean(v.reason)}" for v in verdicts if len(v.reason) > REASON and not v.runner_up]
    return [
        *lines,
        "",
        *sentences(cut[:MOST_REASONS]),
        *sentences([f"{kind}: {NEXT[kind]}" for kind in dict.fromkeys(v.kind for v in verdicts)]),
    ]


def summary(fabric: Fabric, known: Knowledge, verdicts: Sequence[Verdict], options: Options) -> str:
    """One line on everything."""
    good = len(fabric.nodes) - len(nodes_to_exclude(fabric, verdicts))
    faults = "1 fault is" if len(verdicts) == 1 else f"{len(verdicts)} faults are"
    least = f"{100 * options.smallest_loss:g} %"
    return (
        f"{good} of {len(fabric.nodes)} nodes show no fault of {least} or more after {known.rounds} rounds; "
        f"{faults} named"
    )


def too_noisy(known: Knowledge, options: Options) -> str:
    """A sentence where samples spread so much that verdicts of small faults may be noise, else nothing."""
    errors = [one.error for kind in known.found.values() for one in kind.values() if not one.reason]
    usual = statistics.median(errors) if errors else 0.0
    if options.standard_errors * usual <= options.threshold:
        return ""
    least = 200 * options.standard_errors * usual
    return (f"samples spread so much that faults below {least:.0f} % may be noise; raise --repeats or --size, or look "
            f"for larger ones with --smallest-loss")  # fmt: skip


def exclude_lines(excluded: dict[str, str], fabric: Fabric, words: str) -> Iterator[str]:
    """In the words of slurm (its operators), srun (its users), kubernetes, or as a hostfile of the good nodes."""
    if words == "slurm":
        for argv in drain_words(excluded):
            yield shlex.join(argv)
    elif words == "srun":
        if excluded:
            yield f"--exclude={compressed(tuple(excluded))}"
    elif words == "kubernetes":
        yield from (f"kubectl cordon {shlex.quote(node)}" for node in excluded)
    else:
        yield from (node for node in fabric.nodes if node not in excluded)


def drain_words(excluded: dict[str, str]) -> Iterator[list[str]]:
    """One scontrol for each node."""
    for node, reason in excluded.items():
        yield [
            "scontrol",
            "update",
            f"NodeName={node}",
            "State=DRAIN",
            f"Reason=busbw fleet: {shortened(clean(reason), 200)}",
        ]


def as_json(fabric: Fabric, known: Knowledge, verdicts: Sequence[Verdict], options: Options) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "nodes": len(fabric.nodes),
        "rounds": known.rounds,
        "smallest_loss": options.smallest_loss,
        "faults": [{"name": v.name, **vars(v), "next": NEXT[v.kind]} for v in verdicts],
        "exclude": nodes_to_exclude(fabric, verdicts),
    }


def metrics(fabric: Fabric, known: Knowledge, verdicts: Sequence[Verdict]) -> list[Family]:
    """For Prometheus: what every node and switch that shows a fault loses, and what the scheduler shall leave out."""
    excluded = nodes_to_exclude(fabric, verdicts)
    return [
        Family("busbw_fleet_nodes", "gauge", "Nodes that were judged.", [({}, len(fabric.nodes))]),
        Family("busbw_fleet_rounds", "gauge", "Rounds that were measured.", [({}, known.rounds)]),
        Family("busbw_fleet_node_excluded", "gauge", "1 for a node to leave out.",
               [({"node": node}, node in excluded) for node in fabric.nodes]),
        Family("busbw_fleet_fault_loss_ratio", "gauge", "Share of the peers' bandwidth that a fault costs; 1: broken.",
               [({"kind": v.kind, "where": v.place, "channel": v.channel}, v.loss) for v in verdicts]),
    ]  # fmt: skip


def junit(fabric: Fabric, verdicts: Sequence[Verdict]) -> bytes:
    """A test case for each node, and one for each switch that is slow."""
    excluded = nodes_to_exclude(fabric, verdicts)
    switches = [v for v in verdicts if v.place not in set(fabric.nodes)]
    suite = ET.Element("testsuite", {"name": "busbw fleet", "tests": str(len(fabric.nodes) + len(switches)),
                                     "failures": str(len(excluded) + len(switches))})  # fmt: skip
    for node in fabric.nodes:
        case = ET.SubElement(suite, "testcase", {"classname": "busbw.fleet.node", "name": clean(node)})
        if node in excluded:
            ET.SubElement(case, "failure", {"message": clean(excluded[node])})
    for v in switches:
        case = ET.SubElement(suite, "testcase", {"classname": "busbw.fleet.fabric", "name": clean(v.name)})
        ET.SubElement(case, "failure", {"message": amount(v)})
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode").encode() + b"\n"
