"""A table that nothing judges, far below what the slowest machines with these GPUs give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from busbw.analysis.units import format_bytes
from busbw.doctor.expected import gpu_of
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.findings.figures.below_expected import FLOOR_GBPS, OF_THE_LINE
from busbw.doctor.findings.machine import nvlink_domain
from busbw.doctor.findings.network import one_rail
from busbw.doctor.signature import Stage
from busbw.expect import machines
from busbw.expect.bandwidth import Algorithm
from busbw.expect.expectation import TELLING_BYTES, Place, expected, place_of
from busbw.expect.fabric import Fabric, pcie_of_sm
from busbw.expect.links import HOST_SHARE
from busbw.expect.question import Prediction
from busbw.machine.topology.names import is_part, product
from busbw.records import Case, Record

NAME = "far-below"
FAR = 0.6
"""Of what the slowest type gives at least: hosts with fewer or older ports reach that, a choice."""
GRAVE = 0.25
"""Of what the slowest type gives at least: hosts that are sold with so little have one port of sockets, a choice."""
TYPES = 3
"""Of so many types the slowest says what hosts with these GPUs have; of fewer there may be slower ones."""
FALLS = 3.0
"""Times what the largest size reaches: so much at another one shows that the hosts can do more, a choice."""
OF_A_SLOT = 0.25
"""Half of what half the lanes carry through the host: cards of a server lie in wider slots, a choice."""


def examine(facts: Facts) -> Iterator[Finding]:
    for record, known in zip(facts.records, facts.expected, strict=True):
        place = place_of(record.run)
        if known.found or place is None or is_part(gpu_of(record)) or _is_told(facts, record):
            continue
        found = _of_hosts(record, place) if place.nodes > 1 else _of_slots(record, place)
        if found is not None:
            yield found


def _is_told(facts: Facts, record: Record) -> bool:
    """Whether a finding that knows such hosts better has told of the record."""
    alone = replace(facts, records=(record,), expected=facts.expected[:1])
    return any(True for each in (one_rail, nvlink_domain) for _ in each.examine(alone))


def _of(record: Record, collective: str) -> list[Case]:
    return [each for each in record.cases if each.collective == collective and each.outcome == "measured"]


def _largest(record: Record) -> list[Case]:
    """The largest size of each collective."""
    found = dict[str, Case]()
    for case in sorted(record.cases, key=lambda each: (each.bytes, each.busbw_GBps or 0.0)):
        if case.outcome == "measured" and case.busbw_GBps and case.bytes >= TELLING_BYTES:
            found[case.collective] = case
    return list(found.values())


def _of_hosts(record: Record, place: Place) -> Finding | None:
    wired = product(gpu_of(record))
    if wired is None or wired.nvlinks is None:
        return None  # cards of that name lie in hosts of any kind
    types = [each for each in machines.of_gpu(gpu_of(record)) if each.gpus >= place.gpus and each.nics]
    # Hosts of one NVLink domain may be of two racks: what NICs carry is the least.
    least = [(each, expected(record, replace(each, domain=0), place)) for each in types]
    for case in _largest(record):
        if any((each.busbw_GBps or 0.0) > FALLS * (case.busbw_GBps or 0.0) for each in _of(record, case.collective)):
            continue  # a table that falls at one size is told as that
        at = record.cases.index(case)
        rates = [(_low(found[at], each, place), each) for each, found in least if at in found]
        low, slowest = min(rates, key=lambda each: each[0], default=(0.0, None))
        if slowest is not None and (case.busbw_GBps or 0.0) < FAR * low:
            grave = (case.busbw_GBps or 0.0) < GRAVE * low and _are_all_such(types, place)
            return _finding(record, case, low, slowest.name, grave)
    return None


def _low(found: Prediction, fabric: Fabric, place: Place) -> float:
    """What hosts of that type give at least, also where an old NCCL takes rings, which NICs bound."""
    low = found.busbw_GBps.low
    return min(low, OF_THE_LINE * fabric.line_GBps(place.gpus)) if found.algorithm is Algorithm.TREE else low


def _are_all_such(types: Sequence[Fabric], place: Place) -> bool:
    return len(types) >= TYPES and all(each.gpus == place.gpus for each in types)


def _finding(record: Record, case: Case, low: float, slowest: str, grave: bool) -> Finding:
    hosts, rate = len({rank.host for rank in record.run.ranks}), case.busbw_GBps or 0.0
    return Finding(
        NAME, Severity.WARNING if grave else Severity.NOTE,
        f"{case.collective} over {hosts} hosts reached {rate:.3g} GB/s: the slowest type known with these GPUs, "
        f"{slowest}, gives at least {low:.3g}",
        (Evidence(f"{rate:.4g} GB/s at {format_bytes(case.bytes)}", f"the record {record.run.run}"),),
        Cost(f"at least {low / rate:.1f} times less, unless the hosts have fewer or slower ports", low / rate,
             "from link rates of that type"),
        "see which network NCCL uses (NCCL_DEBUG=INFO: NET/... : Using, no Socket) and whether GPU Direct RDMA is on "
        "(GDRDMA behind each channel). Give containers every RDMA device, install the provider's network plugin, and "
        "give --machine TYPE, so that it is judged",
        Proof(instruction="grep -e 'NET/.* : Using' -e GDRDMA in a log with NCCL_DEBUG=INFO; ib_write_bw of two hosts"),
        stage=Stage.NETWORK,
    )  # fmt: skip


def _of_slots(record: Record, place: Place) -> Finding | None:
    """Cards of one node whose links nobody knows; below any slot's rate another finding tells it."""
    known = product(gpu_of(record))
    limit = OF_A_SLOT * HOST_SHARE.share.low * pcie_of_sm(known.sm if known else None)
    best = max(_largest(record), key=lambda each: each.busbw_GBps or 0.0, default=None)
    if best is None or not FLOOR_GBPS <= (rate := best.busbw_GBps or 0.0) < limit:
        return None
    return Finding(
        NAME, Severity.NOTE,
        f"{best.collective} between {place.gpus} GPUs of one node reached {rate:.3g} GB/s: slots of half their lanes "
        f"give {2 * limit:.3g}",
        (Evidence(f"{rate:.4g} GB/s at {format_bytes(best.bytes)}", f"the record {record.run.run}"),),
        Cost(f"{2 * limit / rate:.1f} times less, unless the cards lie in slots of four lanes", 2 * limit / rate,
             "from link rates"),
        "look at the width and generation of PCIe under load (nvidia-smi -q: GPU Link Info), then at NUMA nodes, ACS, "
        "IOMMU and /dev/shm. Give --topology, so that it is judged",
        Proof(instruction="run pairs of GPUs with CUDA_VISIBLE_DEVICES: a slow slot makes its pairs slow"),
        stage=Stage.EFFECT,
    )  # fmt: skip
