"""What a run should have delivered: the line under the table, and the expected figure in every case of its record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from busbw.analysis.units import format_bytes
from busbw.base.errors import UserError
from busbw.expect import machines
from busbw.expect.fabric import Fabric, of_machine, pcie_of_sm
from busbw.expect.model import predict
from busbw.expect.question import Prediction, Question
from busbw.expect.terms import general
from busbw.machine.topology.model import Machine
from busbw.machine.topology.names import is_part, product
from busbw.machine.topology.rates import nccl_nvlink_GBps
from busbw.records import Case, Record, Run, read_record, save_records

TELLING_BYTES = 64 << 20
"""Below this size latency has a say, and a figure says little about the fabric."""


_MESH = re.compile(r"\b[VP]100-SXM2")
"""Boards whose NVLinks run from GPU to GPU, without a switch."""


@dataclass(frozen=True)
class Place:
    """How the ranks of a run lie: equally many GPUs on each host."""

    gpus: int
    nodes: int


def place_of(run: Run) -> Place | None:
    """The place of a run's ranks; None where they are no GPUs, or not equally many on each host."""
    if len(run.ranks) < 2 or any(rank.device is None or rank.device.kind != "gpu" for rank in run.ranks):
        return None
    hosts = Counter(rank.host for rank in run.ranks)
    counts = set(hosts.values())
    return Place(counts.pop(), len(hosts)) if len(counts) == 1 else None


def fabric_of(run: Run, read_machine: Callable[[], Machine | None]) -> Fabric | None:
    """The fabric of the machine that measured: by its type's name, by its GPUs' names, or from the live machine.

    Boards that always have their NVLinks are known by name, and reading a live machine takes seconds: that is kept for
    several hosts, whose NICs have no name here, and for GPUs whose links differ from board to board.
    """
    place = place_of(run)
    if place is None:
        return None
    named = machines.find(run.machine)
    if named is not None and named.gpus >= place.gpus:
        return named
    known = by_name(run, place)
    if place.nodes == 1 and known is not None and known.nvlink_GBps:
        return known
    machine = read_machine()
    try:
        if machine is not None and len(machine.gpus) >= place.gpus:
            return of_machine(machine, whole=True)
    except UserError:
        return None
    return known


def by_name(run: Run, place: Place) -> Fabric | None:
    """The GPUs of a run by their product's name, without NICs; None where boards of that name differ in their links."""
    names = {rank.device.name for rank in run.ranks if rank.device}
    name = names.pop()
    known = product(name) if not names and not is_part(name) else None
    if known is None or known.nvlinks is None:
        return None
    links = (nccl_nvlink_GBps(known.sm) or 0.0) * known.nvlinks
    return Fabric(
        name=run.machine or f"{place.gpus} x {name}", gpus=place.gpus, sm=known.sm, nvlink_GBps=links,
        island=place.gpus if links else 1, switched=place.gpus > 2 and bool(links) and not _MESH.search(name),
        pcie_GBps=pcie_of_sm(known.sm),
    )  # fmt: skip


def multicast(environment: Mapping[str, str]) -> bool:
    """Whether NCCL may use NVLink SHARP under these variables."""
    algorithms = environment.get("NCCL_ALGO", "").lower()
    if algorithms and not algorithms.startswith("^") and "nvls" not in algorithms:
        return False
    return environment.get("NCCL_NVLS_ENABLE", "1") != "0" and "^nvls" not in algorithms


def expected(record: Record, fabric: Fabric, place: Place | None = None) -> dict[int, Prediction]:
    """The prediction of each measured case, by its position; a case for which there is none has none.

    `place` is how the ranks lie, where the record does not say it.
    """
    place = place or place_of(record.run)
    found: dict[int, Prediction] = {}
    if place is None:
        return found
    terms, sharp = general(fabric.sm), multicast(record.run.settings)
    for index, case in enumerate(record.cases):
        # A communicator of a part of the ranks (--split) lies somewhere that nobody recorded.
        if case.outcome != "measured" or case.bytes < 1 or case.ranks != place.gpus * place.nodes:
            continue
        try:
            question = Question(case.collective, case.bytes, place.gpus, place.nodes, sharp)
            found[index] = predict(question, fabric, terms)
        except UserError:
            continue
    return found


def annotated(record: Record, predictions: Mapping[int, Prediction]) -> Record:
    """The record with `expected_busbw_GBps` and its range in the context of each case that has a prediction."""
    cases = list(record.cases)
    for index, found in predictions.items():
        rate = found.busbw_GBps
        added: dict[str, Any] = {
            "expected_busbw_GBps": round(rate.value, 4),
            "expected_range_GBps": [round(rate.low, 4), round(rate.high, 4)],
        }
        cases[index] = replace(cases[index], context={**cases[index].context, **added})
    return replace(record, cases=tuple(cases))


def line(record: Record, predictions: Mapping[int, Prediction], fabric: Fabric) -> str | None:
    """One line: the share of what is expected at the largest size, out of place where that was measured."""
    judged = [(record.cases[index], found) for index, found in predictions.items() if record.cases[index].busbw_GBps]
    if not judged:
        return None
    case, found = max(judged, key=lambda each: (each[0].bytes, each[0].placement == "out_of_place"))
    return _said(case, found, fabric)


def _said(case: Case, found: Prediction, fabric: Fabric) -> str:
    rate, measured = found.busbw_GBps, case.busbw_GBps or 0.0
    said = (
        f"{measured / rate.value:.0%} of the {rate.value:.3g} GB/s expected at {format_bytes(case.bytes)} "
        f"(range {rate.low:.3g} to {rate.high:.3g}, {fabric.name})"
    )
    if measured < rate.low and case.bytes >= TELLING_BYTES:
        return f"{said}; `busbw doctor` looks for the reason"
    return said


def explain(path: Path, read_machine: Callable[[], Machine | None] | None = None) -> str | None:
    """Write what was expected into a record and return the line; None where nothing can be expected of the run."""
    try:
        record = read_record(path)
        fabric = fabric_of(record.run, read_machine or _live)
        predictions = expected(record, fabric) if fabric else {}
        if not fabric or not predictions or record.end is None:
            return None
        save_records([annotated(record, predictions)], path)
    except (UserError, OSError):
        return None  # the measurement stands without it
    return line(record, predictions, fabric)


def _live() -> Machine | None:
    from busbw.machine.topology.live import read_live

    # Where the ranks ran elsewhere (a queue's nodes), this machine says nothing about them.
    return read_live().machine if Path("/dev/nvidiactl").exists() else None
