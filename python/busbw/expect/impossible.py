"""Figures that no wire, memory or protocol can carry: which cases, by what limit, and the likely reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from busbw.analysis.units import format_bytes, format_us
from busbw.base.errors import UserError
from busbw.expect import machines
from busbw.expect.expectation import Place, place_of
from busbw.expect.fabric import Fabric, of_machine, pcie_of_sm
from busbw.expect.reasons import ASK, ROUNDED, Peers, contradicts, derived_GBps, reason_of
from busbw.machine.topology.model import Machine
from busbw.machine.topology.names import most_links, product
from busbw.machine.topology.rates import NVLINK_GBPS, nccl_nvlink_GBps, nvlink_generation
from busbw.records import Case, Record, Run, read_record, save_records

CONTEXT = "impossible"
"""The key in a case's context that holds the sentence."""

ANY_LINK_GBPS = 1800.0
"""What the links of one GPU carry in one direction, of the fastest that is announced (NVLink 6: NVIDIA's data sheet of
Vera Rubin NVL72, 3.6 TB/s both ways): the limit where nobody says what the machine is."""

# Below the least that a message takes. The cheapest hop of NCCL's LL over NVLink took 0.46 us on H200 (fitted, see
# busbw.expect.terms); adapters of InfiniBand are sold with "sub-600 ns" (NVIDIA's brief of ConnectX-6); a store of one
# core is seen by another after some tens of nanoseconds.
FLIGHT_US: Mapping[str, float] = {"gpu": 0.3, "network": 0.5, "cpu": 0.02}

_NVL = 72
"""GPUs that NVLink joins at most, of what is sold; beyond them a GPU has its PCIe link besides."""


@dataclass(frozen=True)
class Ceiling:
    """Bus bandwidth in GB/s that nothing can exceed, and what sets it."""

    GBps: float
    why: str


@dataclass(frozen=True)
class Impossible:
    """One case: its place in the record, what it breaks, and the reason that its figures speak for."""

    index: int
    case: Case
    limit: str
    reason: str

    @property
    def said(self) -> str:
        """The sentence that goes into the record."""
        return f"{self.limit}; {self.reason}"


def ceiling(fabric: Fabric, collective: str, gpus: int, nodes: int) -> Ceiling:
    """The bus bandwidth that follows from the bytes which must cross a GPU's own links and a node's NICs.

    Whatever the algorithm, so that trees, NVLink SHARP and reduction in the network stay below: an all-reduce of S
    bytes sends S from each GPU or node where a switch adds, else 2 S (n - 1) / n; the others send their parts once.
    """
    ranks = gpus * nodes
    found: list[Ceiling] = []
    ports = _ports_GBps(fabric, gpus, nodes)
    if ranks > 1 and ports:
        # A switch that adds needs S from each GPU, and bus bandwidth counts 2 S (n - 1) / n.
        sharp = 2 * (ranks - 1) / ranks if collective == "all_reduce" and (fabric.multicast or nodes > 1) else 1.0
        found.append(Ceiling(ports * sharp, f"the links of one GPU of {fabric.name} carry {ports:.4g} GB/s each way"))
    wires = fabric.nics * fabric.nic_Gbps / 8
    if nodes > 1 and wires:
        share = _of_node(collective, gpus, nodes)
        found.append(Ceiling(wires * share, f"the NICs of one node of {fabric.name} carry {wires:.4g} GB/s each way"))
    return min(found, key=lambda each: each.GBps, default=Ceiling(_anything(collective, ranks), _ANY))


_ANY = f"the links of no GPU carry more than {ANY_LINK_GBPS:g} GB/s each way"


def _anything(collective: str, ranks: int) -> float:
    return ANY_LINK_GBPS * (2 * (ranks - 1) / ranks if collective == "all_reduce" else 1.0)


def _ports_GBps(fabric: Fabric, gpus: int, nodes: int) -> float:
    counted = nccl_nvlink_GBps(fabric.sm)
    line = NVLINK_GBPS.get(nvlink_generation(fabric.sm) or 0, 0.0)
    nvlink = fabric.nvlink_GBps * max(1.0, line / counted) if counted else fabric.nvlink_GBps
    # Beyond an island, and to other nodes, a GPU has its PCIe link besides.
    apart = gpus > fabric.island or nodes > 1
    beside = fabric.pcie_GBps if apart or not nvlink else 0.0
    if beside or not nvlink:
        beside = max(beside, pcie_of_sm(fabric.sm))
    return nvlink + beside


def _of_node(collective: str, gpus: int, nodes: int) -> float:
    """Bus bandwidth over what the NICs of one node carry, from the least that must leave or enter a node."""
    ranks = gpus * nodes
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in {"all_gather", "reduce_scatter"}:
        return (ranks - 1) / ranks * nodes / (nodes - 1)
    if collective in {"alltoall", "alltoallv"}:
        return (ranks - 1) / (ranks - gpus) / gpus
    if collective in {"gather", "scatter"}:
        return (ranks - 1) / (ranks - gpus)
    return 1.0


def fabric_of(run: Run, machine: str | None = None, live: Machine | None = None) -> Fabric | None:
    """What is known of the machine without asking it: its type, or its GPUs' name; None where neither is known."""
    named = machines.find(machine or run.machine)
    if named is not None:
        return named
    if live is not None:
        try:
            return of_machine(live)
        except UserError:
            return None
    place = place_of(run)
    names = {rank.device.name for rank in run.ranks if rank.device}
    name = names.pop() if len(names) == 1 else ""
    known = product(name)
    if place is None or any(count > 1 for count in _on_each_gpu(run).values()):
        return None  # ranks that share a GPU have its memory between them, and no link
    if known is not None and known.nvlinks is not None:
        # Of several nodes the GPUs' own links bound it, whatever NICs they have.
        links = (nccl_nvlink_GBps(known.sm) or 0.0) * known.nvlinks
        return Fabric(f"{place.gpus} x {name}", place.gpus, known.sm, links, place.gpus, place.gpus > 2 and bool(links),
                      pcie_of_sm(known.sm))  # fmt: skip
    # Nobody says whether bridges are there: at most their links and PCIe beside them.
    most = most_links(name)
    return most and Fabric(
        f"{place.gpus} x {name}", place.gpus, most[0] or None, most[1], 1, False, pcie_of_sm(most[0])
    )


def _on_each_gpu(run: Run) -> Counter[tuple[str, str | int]]:
    """How many ranks each GPU has, as far as devices are told apart."""
    return Counter(
        (rank.host, rank.device.bus_id or rank.device.index) for rank in run.ranks
        if rank.device is not None and rank.device.kind == "gpu"
    )  # fmt: skip


def find(record: Record, fabric: Fabric | None = None) -> list[Impossible]:
    """Every measured case that cannot be true, in the record's order."""
    place = _place(record.run, fabric)
    peers = Peers(record.cases)
    known: dict[tuple[str, int], Bounds | None] = {}
    exact = _is_exact(record.run)
    found = []
    for index, case in enumerate(record.cases):
        if case.outcome != "measured":
            continue
        if case.ranks is None:
            if (said := _too_soon(case)) is not None:
                found.append(Impossible(index, case, said, ASK))
            continue
        key = (case.collective, case.ranks)
        if key not in known:
            known[key] = _bounds(record.run, *key, fabric, place)
        limit = _broken(case, known[key])
        if limit is not None:
            # A time below one flight says nothing of directions and elements, which multiply rates.
            excess = limit[1] if fabric is not None and "flight" not in limit[0] else None
            found.append(Impossible(index, case, limit[0], reason_of(case, peers, excess)))
        elif (said := contradicts(case, exact=exact and case.ranks == len(record.run.ranks))) is not None:
            found.append(Impossible(index, case, said, reason_of(case, peers, None)))
    return found


def _is_exact(run: Run) -> bool:
    """Whether one program printed ranks, times and bandwidths, and nobody else's list stands above its rows."""
    of_time = run.tool.name in ("nccl-tests", "rccl-tests")
    return of_time and bool(run.ranks) and not any(note.startswith("no header line") for note in run.notes)


def _too_soon(case: Case) -> str | None:
    """The flight that is missing where nobody says how many ranks there were; one alone works in place in no time."""
    least = FLIGHT_US["cpu"]
    if case.placement == "in_place" or case.bytes < 1 or case.busbw_GBps == 0 or not case.time_us:
        return None
    if case.time_us >= least:
        return None
    return f"{format_us(case.time_us)} is less than the {least:g} us of one message's flight between two processors"


@dataclass(frozen=True)
class Bounds:
    """What every figure of a sweep on that many ranks must keep: rates below, times above."""

    ranks: int
    limit: Ceiling
    least_us: float


def bounds_of(run: Run, collective: str, ranks: int | None, fabric: Fabric | None = None) -> Bounds | None:
    """The bounds of a collective of that run; None where none can be given."""
    return _bounds(run, collective, ranks, fabric, _place(run, fabric)) if ranks is not None else None


def _bounds(run: Run, collective: str, ranks: int, fabric: Fabric | None, place: Place | None) -> Bounds | None:
    if ranks < 2 or collective == "barrier":
        return None
    limit = Ceiling(_anything(collective, ranks), _ANY)
    if fabric is not None and any(_spans_hosts(rank.device) for rank in run.ranks):
        if fabric.nvlink_GBps:
            one = replace(fabric, gpus=ranks, island=min(ranks, _NVL), switched=True, nics=0)
            limit = ceiling(one, collective, ranks, 1)
    elif fabric is not None and place is not None:
        where = _lies(ranks, fabric, place)
        if where is not None and where[0] <= fabric.gpus:
            limit = ceiling(fabric, collective, *where)
    return Bounds(ranks, limit, _flight_us(run))


def _place(run: Run, fabric: Fabric | None) -> Place | None:
    """Where the ranks lie; of an import that lists none, one node where they all fit into it."""
    return place_of(run) or (Place(fabric.gpus, 0) if fabric is not None and not run.ranks else None)


def _lies(ranks: int, fabric: Fabric, place: Place) -> tuple[int, int] | None:
    """GPUs of a node and nodes of that many ranks; None where a communicator of a part lies nobody knows where."""
    if place.nodes:
        return (place.gpus, place.nodes) if ranks == place.gpus * place.nodes else None
    if ranks <= fabric.gpus:
        return ranks, 1
    return (fabric.gpus, ranks // fabric.gpus) if ranks % fabric.gpus == 0 else None


def _broken(case: Case, bounds: Bounds | None) -> tuple[str, float] | None:
    """The limit that a case breaks, as a sentence's beginning, and how often the limit fits into the figure."""
    if bounds is None or case.bytes < 1:
        return None
    limit, least = bounds.limit, bounds.least_us
    rates = [rate for rate in (case.busbw_GBps, derived_GBps(case)) if rate is not None]
    if rates and max(rates) > limit.GBps * ROUNDED:
        said = (
            f"{max(rates):.4g} GB/s is more than the {limit.GBps:.4g} GB/s that {case.collective} on {case.ranks} ranks"
        )
        return f"{said} can reach: {limit.why}", max(rates) / limit.GBps
    if case.time_us is not None and 0 < case.time_us < least:
        return f"{format_us(case.time_us)} is less than the {least:g} us of one message's flight", least / case.time_us
    return None


def _spans_hosts(device: object) -> bool:
    """Whether NVLink may join GPUs of several hosts (GB200 NVL72 and its like): their own links bound them then."""
    return getattr(device, "name", "").removeprefix("NVIDIA ").startswith(("GB2", "GB3"))


def _flight_us(run: Run) -> float:
    """The least that a message takes between these ranks: that of processors where nobody says what they are."""
    kinds = {rank.device.kind for rank in run.ranks if rank.device is not None}
    if "gpu" in kinds:
        return FLIGHT_US["network" if len({rank.host for rank in run.ranks}) == len(run.ranks) else "gpu"]
    return FLIGHT_US["cpu"]


# -- into the record ------------------------------------------------------------------------------------------------


def marked(record: Record, found: Sequence[Impossible]) -> Record:
    """The record with the sentence in the context of each such case, and one note for all."""
    if not found:
        return record
    cases = list(record.cases)
    for each in found:
        cases[each.index] = replace(each.case, context={**each.case.context, CONTEXT: each.said})
    note = summary(found)
    notes = record.run.notes if note in record.run.notes else (*record.run.notes, note)
    return replace(record, run=replace(record.run, notes=notes), cases=tuple(cases))


def reasons(record: Record, machine: str | None = None) -> dict[int, str]:
    """The sentence for each case that cannot be true, by its place in the record."""
    return {each.index: each.said for each in find(record, fabric_of(record.run, machine))}


def mark_file(path: Path, machine: str | None = None) -> str | None:
    """Mark a complete record where it lies; the summary, or None where every figure can be."""
    try:
        record = read_record(path)
        found = find(record, fabric_of(record.run, machine))
        if not found or record.end is None:
            return None
        save_records([marked(record, found)], path)
    except (UserError, OSError):
        return None  # the measurement stands without it
    return summary(found)


def summary(found: Sequence[Impossible]) -> str:
    """One sentence for a line under a table: how many, and the worst with its reason."""
    worst = max(found, key=lambda each: (each.case.busbw_GBps or 0.0, each.case.bytes))
    figures = "1 figure is" if len(found) == 1 else f"{len(found)} figures are"
    return f"{figures} impossible, such as at {format_bytes(worst.case.bytes)}: {worst.said}"
