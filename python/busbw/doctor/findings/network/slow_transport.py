"""Pairs of one node that a log shows on a detour: SHM or the network where P2P would do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from busbw.doctor.capacity import loss, through_host_GBps
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.machine.nccl.log_model import Communicator, Transport
from busbw.machine.topology.model import PathType

NAME = "slow-transport"


_FIX = "check `nvidia-smi topo -p2p r`, ACS and IOMMU, and that all GPUs are visible to every process"
_NEIGHBOURS = (
    "give the job GPUs that share NVLinks (NV1, NV2 in nvidia-smi topo -m): choose them by CUDA_VISIBLE_DEVICES, or "
    "let the scheduler know the links (Slurm: AutoDetect=nvml in gres.conf). A job on all GPUs of the board has a way "
    "for each"
)
_CUBE = re.compile(r"\b(?:V100-SXM2|P100-SXM2)")
"""Boards on which each GPU has NVLinks to four of the seven others."""
_WHOLE_CUBE = 8
_ROW = re.compile(r"^\W{0,4}GPU(?P<number>\d{1,2})(?P<cells>(?:\s+(?:X|NV\d{1,2}|SYS|NODE|PHB|PXB|PIX))+)")


def examine(facts: Facts) -> Iterator[Finding]:
    if facts.whole("NCCL_P2P_DISABLE") == 1 or facts.value("NCCL_P2P_LEVEL"):
        return  # that is the reason, and a finding of its own
    linked = bool(facts.machine and facts.machine.all_nvlink) or _is_part_of_cube(facts)
    for log in facts.logs:
        largest = log.largest
        slow = [each for each in largest.transports if _is_detour(each, largest)] if largest else []
        if not slow:
            continue
        first = slow[0]
        factor = loss(facts.machine, through_host_GBps(facts.machine))
        over_net = first.kind == "NET"
        apart, fix = _without_nvlink(facts) if linked and not over_net else ("", _FIX)
        yield Finding(
            NAME,
            Severity.WARNING if linked or (over_net and not _share_gpus(largest)) else Severity.NOTE,
            f"{len(slow)} pairs of GPUs of one node talk over {first.kind}/{first.detail}{apart}",
            (Evidence(f"{first.sender} -> {first.receiver} via {first.kind}/{first.detail}", log.source, first.line),),
            Cost(f"about {factor:.0f} times less between them" if factor else "less than PCIe P2P would reach", factor),
            fix,
            Proof(set={"NCCL_P2P_LEVEL": "SYS"}),
        )


def _share_gpus(communicator: Communicator | None) -> bool:
    """Whether ranks of one host have the same GPU: NCCL takes them only where it is told that they are apart."""
    places = [(each.host, each.bus_id) for each in communicator.ranks if each.bus_id] if communicator else []
    return len(set(places)) < len(places)


def _without_nvlink(facts: Facts) -> tuple[str, str]:
    """Who has no NVLink to whom, by a matrix, and the cure; nothing for boards on which all have."""
    if not _is_part_of_cube(facts):
        return "", _FIX
    for one, other, way in (*_of_machine(facts), *_of_rows(facts)):
        return f": no NVLink joins GPU {one} and GPU {other} ({way})", _NEIGHBOURS
    return ": pairs of such a board may have no NVLink", _NEIGHBOURS


def _is_part_of_cube(facts: Facts) -> bool:
    """Whether the GPUs are some of a board on which not all have NVLinks to each other."""
    machine = facts.machine
    names = {gpu.name for gpu in machine.gpus if gpu.name} if machine else set[str]()
    names = names or {
        rank.device.name for record in facts.records for rank in record.run.ranks if rank.device and rank.device.name
    }
    return bool(machine and len(machine.gpus) < _WHOLE_CUBE and names and all(map(_CUBE.search, names)))


def _of_machine(facts: Facts) -> Iterator[tuple[int, int, str]]:
    """Pairs of GPUs of the machine without an NVLink, and the way between them."""
    gpus = facts.machine.gpus if facts.machine else ()
    for one, other in combinations(range(len(gpus)), 2):
        pair = facts.machine.between(gpus[one].key, gpus[other].key) if facts.machine else None
        if pair is not None and pair.path is not PathType.NVLINK:
            yield one, other, pair.path.value


def _of_rows(facts: Facts) -> Iterator[tuple[int, int, str]]:
    """The same by the rows of a matrix in a log."""
    count = len(facts.machine.gpus) if facts.machine else 0
    for shown in facts.shown:
        for found in filter(None, map(_ROW.match, shown.lines)):
            number, cells = int(found["number"]), found["cells"].split()[:count]
            for other, cell in enumerate(cells):
                if number < count and cell != "X" and not cell.startswith("NV"):
                    yield number, other, cell


def _is_detour(each: Transport, communicator: Communicator) -> bool:
    hosts = {place.rank: place.host for place in communicator.ranks}
    # Without the hosts' names in the log nobody knows which pairs the network joins; shared memory joins one host.
    same = bool(hosts.get(each.sender)) and hosts.get(each.sender) == hosts.get(each.receiver)
    return each.kind == "SHM" or (same and each.kind == "NET")
