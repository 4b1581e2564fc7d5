"""A topology file (NCCL_TOPO_FILE) of another machine, or one that NCCL misreads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.remedy import evidence, removal, without
from busbw.doctor.shown_texts import texts_of
from busbw.doctor.signature import Stage
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
    else:
        yield from _of_other_type(facts)


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


_TYPES = (
    (re.compile(r"ndv2|nd40rs"), re.compile(r"V100"), "V100"),
    (re.compile(r"nd(?:m|a)?v4|nd(?:m)?96[a-z]{0,4}[-_]?(?:a100[-_]?)?v4|p4de?[-.]"), re.compile(r"A100"), "A100"),
    (re.compile(r"ndv5|nd96isr[-_]?(?:h[12]00[-_]?)?v5|p5(?:en?)?[-.]"), re.compile(r"H[12]00"), "H100 and H200"),
    (re.compile(r"ndv6|nd128isr|p6-b200"), re.compile(r"G?B[23]00"), "B200 and later"),
)
"""Machines of Azure and AWS as the names of their topology files have them, and the GPUs that these have."""
_GPU = re.compile(r"\b(?:NVIDIA|Tesla) [A-Z\d-]{0,12}?(?P<gpu>(?:V|A|H)[12]00|G?B[23]00)\b|_(?P<size>[AH][12]00)_v\d\b")
_OTHERS = re.compile(r"(?<![\w/])(?:/[\w./-]{1,100}/)?(?P<file>[\w.-]{0,30}topo[\w.-]{0,20}\.xml)\b")


def _of_other_type(facts: Facts) -> Iterator[Finding]:
    """The file's name is of machines with other GPUs than the job's."""
    setting = facts.settings.get("NCCL_TOPO_FILE")
    name = setting.value.rpartition("/")[2].lower() if setting else ""
    known = next((each for each in _TYPES if each[0].search(name)), None)
    if setting is None or known is None:
        return
    texts = texts_of(facts)
    gpus = [(text, found) for text in texts if (found := _GPU.search(text.text))]
    if not gpus or any(known[1].search(each[0]) for text in texts for each in _GPU.finditer(text.text)):
        return
    text, found = gpus[0]
    gpu = found["gpu"] or found["size"]
    right = next((each for each in _TYPES if each[1].search(gpu)), None)
    other = next(
        (
            each["file"]
            for text in texts
            for each in _OTHERS.finditer(text.text)
            if right and right[0].search(each["file"])
        ),
        "",
    )
    slow = next((text.evidence(each.start()) for text in texts if (each := _FLAT.search(text.text))), None)
    yield Finding(
        NAME, Severity.NOTE if facts.ran_on_one_node else Severity.WARNING,
        f"the topology file is of another machine type: {shortened(name, 60)} is for hosts with {known[2]}, and this "
        f"job runs on {gpu}",
        (evidence(setting), text.evidence(found.start()), *([slow] if slow else [])),
        Cost("NCCL takes links and distances of the file: few channels, one NIC, no GPU Direct RDMA"),
        f"set NCCL_TOPO_FILE to the provider's file of this type{f' ({other})' if other else ''} on all hosts, or "
        "unset it where the image sets it right. Then the channels go over all NICs and end in GDRDMA",
        without(setting), stage=Stage.SETTING,
    )  # fmt: skip


_FLAT = re.compile(r"NCCL INFO [^\n]{0,40}Pattern \d{1,3}, [^\n]{0,80}type \w{2,4}/(?:PHB|SYS)\b")
"""The way between GPUs and NICs that NCCL found by it: through the processor."""
