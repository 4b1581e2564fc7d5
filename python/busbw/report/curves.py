"""What one side measured of one piece of work, with the facts that may name its column: library, nodes, settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from busbw.analysis.differences import tells
from busbw.analysis.samples import Figure
from busbw.base.text import clean
from busbw.records import Case, Record
from busbw.records.derive import completed

TITLES = {
    "all_reduce": "AllReduce", "all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "alltoall": "AllToAll",
    "alltoallv": "AllToAllv", "broadcast": "Broadcast", "reduce": "Reduce", "gather": "Gather", "scatter": "Scatter",
    "sendrecv": "SendRecv", "hypercube": "HyperCube", "barrier": "Barrier",
}  # fmt: skip
_NUMBERS = {"single": 1, "one": 1, "two": 2, "three": 3, "four": 4, "eight": 8, "sixteen": 16}
_NODES = re.compile(rf"\b(\d{{1,6}}|{'|'.join(_NUMBERS)})[ -]nodes?\b(?:, (\d{{1,4}}) gpus?/node)?", re.IGNORECASE)


@dataclass(frozen=True)
class NamedRun:
    """A run and what the user called it."""

    name: str
    record: Record


@dataclass(frozen=True)
class Curve:
    """One side's cases of one collective, type, operation, number of ranks and named variant.

    `facts` name it; a fact that is not known is missing. `settings` are its environment and its options.
    """

    name: str
    records: tuple[Record, ...]
    collective: str
    ranks: int | None
    cases: tuple[Case, ...]
    facts: Mapping[str, str]
    settings: Mapping[str, str]

    @property
    def placements(self) -> tuple[str | None, ...]:
        found = {case.placement for case in self.cases}
        return tuple(each for each in ("out_of_place", "in_place", None) if each in found)

    def figures(self, placement: str | None) -> dict[int, Figure]:
        """By size, every case of this placement."""
        found: dict[int, list[Case]] = {}
        for case in self.cases:
            if case.placement == placement:
                found.setdefault(case.bytes, []).append(case)
        return {size: Figure(tuple(found[size])) for size in sorted(found)}


def make_curves(runs: Sequence[NamedRun], ranks: int | None = None, only: str | None = None) -> list[Curve]:
    """Every curve of the runs, in their order; runs of one name repeat each other and are one side.

    `ranks` is how many a run had in which nothing says it; `only` the one collective that is wanted.
    """
    found: dict[tuple[object, ...], list[tuple[Record, Case]]] = {}
    for run in runs:
        for read in run.record.cases:
            if read.outcome == "measured" and only in (None, read.collective):
                case = read if read.ranks else replace(read, ranks=ranks)
                root = None if case.root is None or case.root < 0 else case.root
                key = (run.name, case.collective, case.type, case.op, root, case.ranks, case.variant)
                found.setdefault(key, []).append((run.record, completed(case)))
    curves = []
    for (name, *_), members in found.items():
        records = tuple({id(record): record for record, _ in members}.values())
        cases = tuple(case for _, case in members)
        settings = {k: clean(v) for k, v in records[0].run.settings.items() if tells(k)}
        options = {k: clean(v) for k, v in records[0].run.options.items() if tells(k) and v not in (None, "")}
        facts = _facts(records[0], cases, str(name))
        curves.append(
            Curve(str(name), records, cases[0].collective, cases[0].ranks, cases, facts, {**options, **settings})
        )
    return curves


def _facts(record: Record, cases: Sequence[Case], name: str) -> dict[str, str]:
    run, first = record.run, cases[0]
    library, heading = run.library, (run.source.heading if run.source else None) or ""
    algorithms = {case.algorithm for case in cases} - {None}
    work = [TITLES.get(first.collective, first.collective), first.type, first.op]
    tags = [tag for tag in run.tags if tag != "published"]
    known = {
        "library": library.name if library else None,
        "version": library.version if library and (library.version or "") not in library.name else None,
        "collective": work[0],
        "type": " ".join(word for word in work[1:] if word),
        "root": f"root {first.root}" if first.root is not None and first.root >= 0 else None,
        "algorithm": first.variant or (str(algorithms.pop()) if len(algorithms) == 1 else None),
        "nodes": node_shape(record, first.ranks),
        "ranks": None if first.ranks is None else f"{first.ranks} rank{'s' if first.ranks != 1 else ''}",
        "cluster": run.machine or _place(heading),
        "processes": None if run.processes is None else f"{run.processes} process{'es' if run.processes != 1 else ''}",
        "tool": run.tool.name,
        "tag": ", ".join(tags),
        "heading": _plain(heading.rpartition(" / ")[2]),
        "date": (run.started or "")[:10],
        "run": _called(name),
    }  # fmt: skip
    return {key: clean(value) for key, value in known.items() if value}


def node_shape(record: Record, ranks: int | None) -> str | None:
    """`2 nodes of 8 GPUs` where hosts or the heading of a page say it, else the number of ranks, else None."""
    hosts = {rank.host for rank in record.run.ranks}
    heading = (record.run.source.heading if record.run.source else None) or ""
    said = list(_NODES.finditer(heading))
    if hosts and len(record.run.ranks) == ranks:
        nodes = len(hosts)
        each = ranks // nodes if ranks % nodes == 0 else None
    elif said:
        nodes = _NUMBERS.get(said[-1][1].lower()) or int(said[-1][1])
        per = int(said[-1][2]) if said[-1][2] else None
        each = per or (ranks // nodes if ranks and nodes and ranks % nodes == 0 else None)
    else:
        return None if ranks is None else f"{ranks} rank{'s' if ranks != 1 else ''}"
    kinds = {rank.device.kind for rank in record.run.ranks if rank.device}
    what = "rank" if "cpu" in kinds else "GPU"
    text = f"{nodes} node{'s' if nodes != 1 else ''}"
    return text if each is None else f"{text} of {each} {what}{'s' if each != 1 else ''}"


def _place(heading: str) -> str | None:
    """What a heading calls the machines, where nothing else does: of `4 nodes A100 80GB`, the last two words."""
    last = _plain(heading.rpartition(" / ")[2])
    return " ".join(_NODES.sub("", last).split()) or None if _NODES.search(last) else None


def _plain(heading: str) -> str:
    return heading.replace("`", "").strip(" #*")


def _called(name: str) -> str:
    """A run of several in one file is named by its place there: `2nd in page.md`."""
    file, _, number = name.rpartition("#")
    return f"{ordinal(int(number))} in {file}" if file and number.isdecimal() and len(number) < 7 else name


def ordinal(number: int) -> str:
    """`1st`, `2nd`, `11th`."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
