"""How many of a job's hosts NVLink joins (GB200, GB300 NVL72): as NCCL says it, or as the figures speak for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.analysis.units import format_bytes
from busbw.expect.expectation import TELLING_BYTES, Place, expected
from busbw.expect.fabric import Fabric
from busbw.expect.question import Prediction
from busbw.machine.nccl.log_model import NcclLog
from busbw.records import Record

SETTING = "NCCL_MNNVL_ENABLE"


@dataclass(frozen=True, slots=True)
class Domain:
    """GPUs of the job that share NVLink over hosts, 0 where it ends with the host; and who says so."""

    gpus: int
    where: str


def domain_of(place: Place, logs: Sequence[NcclLog], settings: Mapping[str, str]) -> Domain | None:
    """What NCCL, or a setting, says of the job's NVLink domains; None where nothing does."""
    ranks = place.gpus * place.nodes
    for log in logs:
        for each in log.communicators:
            # NCCL counts the hosts that NVLink joins as one node.
            if each.nranks == ranks and each.local_ranks is not None and each.nnodes:
                joined = 0 if each.nnodes >= place.nodes else -(-ranks // each.nnodes)
                return Domain(joined, f"{log.source}: nNodes {each.nnodes}")
        clique = log.hardware.clique
        if clique is not None and place.gpus < clique.gpus <= ranks:
            return Domain(clique.gpus if clique.used else 0, f"{log.source}:{clique.line}")
    if settings.get(SETTING, "").strip() == "0":
        return Domain(0, f"{SETTING}=0")
    for log in logs:
        if (said := log.variable(SETTING)) is not None and said.value.strip() == "0":
            return Domain(0, f"{log.source}:{said.line}")
    return None


def joined(fabric: Fabric, place: Place, domain: Domain | None) -> Fabric:
    """The fabric with the domain of this job, where NVLink may span its hosts."""
    if domain is None or not fabric.domain or place.nodes == 1:
        return fabric
    return replace(fabric, domain=min(domain.gpus, fabric.domain))


def of_several(
    record: Record, found: Mapping[int, Prediction], fabric: Fabric, place: Place, domain: Domain | None
) -> str:
    """What is to be asked where a table is too slow for one domain and right for several; "" where it is not so."""
    if domain is not None or not fabric.domain or place.nodes == 1 or place.gpus * place.nodes > fabric.domain:
        return ""
    telling = [at for at in found if record.cases[at].bytes >= TELLING_BYTES and record.cases[at].busbw_GBps]
    if not telling:
        return ""
    at = max(telling, key=lambda each: record.cases[each].bytes)
    case, one = record.cases[at], found[at].busbw_GBps
    rate = case.busbw_GBps or 0.0
    if rate >= one.low:
        return ""
    # Jobs of three racks and more that would fit into one are rare; rates below those of two are losses as a rule.
    apart = (
        expected(record, replace(fabric, domain=place.gpus * -(-place.nodes // 2)), place) if place.nodes > 3 else {}
    )
    several = apart[at].busbw_GBps if at in apart else None
    if several is None or not several.low <= rate <= several.high:
        return ""
    return (
        f"{rate:.4g} GB/s at {format_bytes(case.bytes)} is what {place.nodes} hosts of two NVLink domains give, of one "
        f"{one.value:.3g}, and nothing says how many there are (NCCL_DEBUG=INFO does: MNNVL)"
    )
