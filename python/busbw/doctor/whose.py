"""On which host and GPU something was said: a GPU that fell off the bus explains nothing on other hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from busbw.doctor.facts import Facts
from busbw.doctor.lines.hit import Hit
from busbw.doctor.order import Found
from busbw.doctor.signature import Signature, Stage

_OF_ONE_GPU = frozenset({"illegal-access", "gpu-exception", "pcie-errors"})
"""What happens on the host of a broken device, and mostly on that GPU alone."""
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_SYSLOG = re.compile(
    rf"^\W{{0,3}}(?:<\d{{1,3}}>)?(?:{_MONTH} [\d ]\d \d\d:\d\d:\d\d"
    r"|\d{4}-\d\d-\d\d[T ][\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)?)"
    r" (?P<host>(?!kernel\b)[A-Za-z][\w.-]{0,80}) (?:kernel|[\w.-]{1,40}\[\d{1,8}\]):"
)
_LABEL = re.compile(r"^(?P<host>[A-Za-z](?=[\w.-]{0,62}\d)[\w.-]{0,62}):\s")
_NCCL = re.compile(r"(?P<host>[A-Za-z0-9][\w.-]{0,254}):\d{1,10}:\d{1,10} \[-?\d{1,4}\]")
_PART = re.compile(r"(?P<host>[A-Za-z][\w.-]{0,80})\s*$")
_BUS = re.compile(r"\b(?P<domain>[0-9a-f]{4,8}):(?P<bus>[0-9a-f]{2}):[0-9a-f]{2}\b", re.IGNORECASE)

Place = tuple[str, int | None]
"""A host by its first label, and a GPU there by domain and bus where they are known."""
Homes = Mapping[str, Place]
"""By who says a line ("rank 3", "n1 GPU 3") its place."""


def homes_of(facts: Facts) -> dict[str, Place]:
    """Where each rank runs, as NCCL's init or a benchmark's list of ranks tells it; of two jobs the first counts."""
    found: dict[str, Place] = {}
    for log in facts.logs:
        for each in log.communicators:
            for rank in each.ranks:
                place = _short(rank.host), _bus_in(rank.bus_id or "")
                found.setdefault(f"{rank.host} GPU {rank.cuda_device}", place)
                if len(each.ranks) == each.nranks:
                    found.setdefault(f"rank {rank.rank}", place)
    for record in facts.records:
        for listed in record.run.ranks:
            found.setdefault(f"rank {listed.rank}", (_short(listed.host), None))
    return found


def is_elsewhere(cause: Signature, effect: Signature, merged: Mapping[str, Found], homes: Homes) -> bool:
    """Whether the effect is also told of a host, or of another GPU of one, of which the broken device is none."""
    if cause.stage is not Stage.HARDWARE or effect.name not in _OF_ONE_GPU:
        return False
    broken, told = _places(merged[cause.name], homes), _places(merged[effect.name], homes)
    if not broken or not told:
        return False
    for host, gpu in told:
        there = {bus for name, bus in broken if name == host}
        if not there or (gpu is not None and None not in there and gpu not in there):
            return True
    return False


def _places(found: Found, homes: Homes) -> set[Place]:
    """Every place that is known; a host of which a GPU is known does not stand there without one as well."""
    places = {place for _, hit in found for place in _of_hit(hit, homes)}
    exact = {host for host, gpu in places if gpu is not None}
    return {(host, gpu) for host, gpu in places if gpu is not None or host not in exact}


def _of_hit(hit: Hit, homes: Homes) -> Iterator[Place]:
    for who in hit.who:
        if who in homes:
            yield homes[who]
        elif " GPU " in who:
            yield _short(who.partition(" GPU ")[0]), None
    part = _PART.fullmatch(hit.part.rpartition(" ")[2])
    for _, line in hit.lines:
        named = _SYSLOG.match(line) or _NCCL.search(line) or _LABEL.match(line) or part
        if named is not None:
            yield _short(named["host"]), _bus_in(line)


def _bus_in(text: str) -> int | None:
    """Domain and bus of the first address in a text."""
    found = _BUS.search(text)
    return int(found["domain"], 16) << 8 | int(found["bus"], 16) if found else None


def _short(host: str) -> str:
    return host.partition(".")[0].lower()
