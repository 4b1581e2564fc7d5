"""A topology file (NCCL_TOPO_FILE) of another machine, or one that NCCL misreads."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.remedy import evidence, removal, without
from busbw.machine.nccl.log_model import NcclLog
from busbw.machine.nccl.topology_file import TopologyFile
from busbw.machine.topology.compare import differences
from busbw.machine.topology.model import Machine, normal_bus_id

NAME = "topology-file"


def examine(facts: Facts) -> Iterator[Finding]:
    setting = facts.settings.get("NCCL_TOPO_FILE")
    source = [evidence(setting)] if setting else []
    fix = removal(setting) if setting else "give the topology of the machine that is examined"
    proof = without(setting) if setting else Proof(instruction="compare the file with `busbw topo` on the machine")
    if isinstance(facts.topology, str):
        severity = Severity.NOTE if "cannot be read" in facts.topology else Severity.ERROR
        yield Finding(
            NAME, severity, "the topology file cannot be used",
            (*source, Evidence(facts.topology, setting.value if setting else facts.snapshot.source)),
            Cost("NCCL ignores a missing file and fails on a malformed one"), fix, proof,
        )  # fmt: skip
        return
    if facts.topology is not None:
        fatal = [
            Evidence(each.text, facts.topology.source, each.line) for each in facts.topology.problems if each.fatal
        ]
        mild, slow = (
            [
                Evidence(each.text, facts.topology.source, each.line)
                for each in facts.topology.problems
                if not each.fatal and each.slow is wanted
            ]
            for wanted in (False, True)
        )
        if fatal:
            yield Finding(
                NAME, Severity.ERROR, "the topology file contradicts itself", (*source, *fatal[:6]),
                Cost("NCCL fails, or searches on a machine that cannot exist"), fix, proof,
            )  # fmt: skip
            return
        if slow:
            yield Finding(
                NAME, Severity.WARNING, "the topology file says less of the machine than it has", (*source, *slow[:6]),
                Cost("NCCL avoids paths that it counts as slow, or copies through the host what could go directly"),
                "write the real links: `busbw topo --audit` makes a corrected file", proof,
            )  # fmt: skip
        if mild:
            yield Finding(
                NAME, Severity.NOTE, "NCCL reads the topology file otherwise than it was meant", (*source, *mild[:6]),
                Cost("paths over PCIe are counted as slower or faster than they are"), "correct those lines", proof,
            )  # fmt: skip
    differences = list(_differences(facts))
    if differences:
        yield Finding(
            NAME, Severity.WARNING, "the topology file is of another machine", (*source, *differences[:8]),
            Cost("none measured inside one NVLink machine (2 H200, file of 2 A100: 1.0 times); across NUMA nodes and "
                 "NICs NCCL picks wrong paths"),
            fix, proof,
        )  # fmt: skip


def _differences(facts: Facts) -> Iterator[Evidence]:
    file = facts.topology if isinstance(facts.topology, TopologyFile) else None
    if file is not None and facts.machine is not None and facts.machine.source != file.source:
        for each in differences(file.machine, facts.machine):
            yield Evidence(each.text, file.source, file.lines.get(each.bus_id or ""))
    for log in facts.logs:
        # Who shows both in one log gave no file: lists of a guest and of its host number the same GPUs apart.
        if facts.snapshot.machine is not None and facts.snapshot.machine.source != log.source:
            yield from _against_log(facts.snapshot.machine, log)


def _against_log(machine: Machine, log: NcclLog) -> Iterator[Evidence]:
    """GPUs at other buses than the log's: told only for one host, whose ranks can all be there."""
    largest = log.largest
    known = {normal_bus_id(gpu.bus_id) for gpu in machine.gpus if gpu.bus_id}
    if largest is None or not known or len(largest.hosts) != 1:
        return
    for place in largest.ranks:
        if place.bus_id is not None and place.bus_id not in known:
            buses = ", ".join(sorted(known)[:8])
            text = f"rank {place.rank} runs on a GPU at {place.bus_id}, {machine.source} has {buses}"
            yield Evidence(text, log.source, place.line)
