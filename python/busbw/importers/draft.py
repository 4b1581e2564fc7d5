"""A sweep on its way to a record: the figures of one format, the surroundings, and what follows from both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from busbw.base.effort import EFFORT
from busbw.base.secrets import hide
from busbw.importers.context import Surroundings, machine_named
from busbw.importers.nccl_messages import NcclSaid
from busbw.importers.shape import Said, decide
from busbw.importers.work_limit import PER_CASE
from busbw.records import Case, Collective, End, Library, Rank, Record, Run, Source, Tool, content_run_id
from busbw.records.alike import RunLines, end_to_json
from busbw.records.model import place, place_end
from busbw.records.writer import record_lines


class Figures(Protocol):
    """Cases that have not been made yet: without `run`, `case` and `ranks`."""

    def cases(self) -> list[Case]:
        """As cases."""

    def lines(self, run: str, ranks: int | None) -> Iterator[str]:
        """As lines of JSON: what the writer gives for the cases, and faster."""

    def fastest(self) -> list[Case]:
        """The cases of the row with the largest algorithm bandwidth."""

    def keep(self, most_rate: float, least_us: float, ranks: int) -> bool:
        """Whether all rates (GB/s, printed and by size over time) are at most, all times at least as given."""

    def agree(self) -> bool:
        """Whether each row surely follows from its size, time and bandwidths; False sends them to a closer look."""

    def __len__(self) -> int: ...

    @property
    def collective(self) -> Collective:
        """What all of them measure."""


class Cases(list[Case]):
    """Cases that pay as they are added: a table of any length ends where the sum of the call does, not behind it."""

    def __init__(self, cases: Iterable[Case] = (), paid: int = 0) -> None:
        super().__init__(cases)
        self.paid = paid
        """How many of them are paid for."""

    def append(self, case: Case) -> None:
        """One more."""
        pay_for_case()
        self.paid += 1
        super().append(case)


def pay_for_case() -> None:
    """A case is made, and will be examined where somebody asked for that."""
    EFFORT.left -= PER_CASE + EFFORT.per_case


@dataclass
class Draft:
    """What a format knows of one sweep; `complete` adds the surroundings."""

    format: str
    tool: Tool
    line: int
    collective: Collective | None = None
    cases: list[Case] = field(default_factory=Cases)
    figures: Figures | None = None
    """The cases of a format that keeps them as text until they are asked for; then `cases` is empty."""
    rows: int = 0
    rows_paid: bool = False
    """Whether each row was paid for as it was read, and what will be examined of it."""
    content: list[str] = field(default_factory=list)
    ranks: tuple[Rank, ...] = ()
    size: int | None = None
    """Ranks of one communicator, where the format names them."""
    counted: int | None = None
    """Ranks by exact arithmetic on what the format prints, such as size over count."""
    asking: str | None = None
    """Where the collective is not known: the sentence that asks for it."""
    library: Library | None = None
    program: str | None = None
    arguments: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    started: str | None = None
    processes: int | None = None
    threads_per_process: int | None = None
    devices_per_thread: int | None = None
    machine: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    tags: tuple[str, ...] = ()
    end: End | None = None

    @property
    def paid(self) -> int:
        """How many of the cases are paid for."""
        return self.cases.paid if isinstance(self.cases, Cases) else 0


class Collector(Protocol):
    """Gathers one sweep from the lines of several ranks."""

    def __init__(self, sink: Sink) -> None: ...

    def close(self) -> None:
        """The file ends."""


Collected = TypeVar("Collected", bound=Collector)


class Sink(Protocol):
    """Where the driver of a file takes finished sweeps and complaints."""

    @property
    def collective(self) -> Collective | None:
        """What the user says was measured, for sweeps where nothing else says it."""

    @property
    def who(self) -> str:
        """The rank or host whose lines these are; "" where no prefix names one."""

    def problem(self, line: int | None, why: str) -> None:
        """A line that should have been read and was not."""

    def sweep_starts(self) -> Surroundings:
        """A sweep starts at this line: the context as of here."""

    def above(self) -> list[str]:
        """The last lines that are no results, the nearest last: the title of a table may be among them."""

    def shared(self, kind: type[Collected]) -> Collected:
        """The file's one collector of that kind."""

    def sweep_ends(self, draft: Draft, surroundings: Surroundings) -> None:
        """The sweep is complete."""

    def stops_before(self, line: int | None) -> None:
        """Reading ends before that line, as it costs too much."""


def is_enough(sink: Sink, line: int | None = None) -> bool:
    """Whether the call has cost what it may, for readers of documents between two rows; tells so."""
    if EFFORT.is_spent:
        sink.stops_before(line)
    return EFFORT.is_spent


@dataclass(frozen=True)
class Origin:
    """The file that a sweep comes from, and which sweep of it this is."""

    file: str
    url: str | None
    ordinal: int


_RUN_LINES = RunLines()


@dataclass(frozen=True)
class ImportedSweep:
    """A complete sweep: as a record, or as its lines of JSON, which large logs become without objects in between."""

    run: Run
    end: End | None
    ranks: int | None
    figures: Figures | None
    drafted: list[Case]

    def record(self) -> Record:
        """The record, with every case."""
        cases = self.figures.cases() if self.figures else self.drafted
        for index, case in enumerate(cases):
            if case.run:
                break  # a record that was imported as it is
            place(case, self.run.run, index, self.ranks)
        return Record(self.run, tuple(cases), self.end)

    def lines(self) -> Iterator[str]:
        """The record's lines of JSON, each with its newline."""
        if self.figures is None:
            yield from record_lines(self.record())
            return
        # One text for all: whoever writes them takes as long for each text as for a row.
        end = f"{end_to_json(self.end)}\n" if self.end is not None else ""
        yield "".join([_RUN_LINES.of(self.run), "\n", *self.figures.lines(self.run.run, self.ranks), end])

    def __len__(self) -> int:
        """How many cases there are."""
        return len(self.figures if self.figures is not None else self.drafted)

    @property
    def collectives(self) -> list[str]:
        """The collectives that were measured, in their order."""
        if self.figures:
            return [self.figures.collective]
        return list(dict.fromkeys(case.collective for case in self.drafted))


def complete(draft: Draft, around: Surroundings, said: NcclSaid, origin: Origin) -> ImportedSweep:
    """The record of a sweep. The caller has made sure that the collective is known."""
    notes = list(draft.notes)
    size = _size(draft, around, said, notes)
    run_id = content_run_id(
        f"{draft.tool.name}-{origin.file}", "\n".join([str(origin.ordinal), *draft.content]).encode()
    )
    run = Run(
        run=run_id,
        started=draft.started,
        tool=draft.tool,
        library=_library(draft, around, said),
        ranks=draft.ranks,
        environment={**around.environment, **said.environment, **draft.environment},
        program=draft.program,
        arguments=draft.arguments,
        options=draft.options,
        processes=draft.processes,
        threads_per_process=draft.threads_per_process,
        devices_per_thread=draft.devices_per_thread,
        machine=_machine(draft, around, said, notes),
        system=said.network,
        conf=said.by_plugin,
        tags=draft.tags,
        notes=tuple(notes),
        source=Source(
            file=origin.file,
            format=draft.format,
            line=draft.line,
            heading=hide(around.heading) if around.heading else None,
            command=around.command.text if around.command else None,
            url=hide(origin.url) if origin.url else None,
        ),
    )  # fmt: skip
    count = len(draft.figures) if draft.figures else len(draft.cases)
    end = draft.end or End("", "completed", 0)
    place_end(end, run_id, count)
    return ImportedSweep(run, end, size, draft.figures, draft.cases)


def _size(draft: Draft, around: Surroundings, said: NcclSaid, notes: list[str]) -> int | None:
    """Ranks of one communicator, from the surest source that names them."""
    sources = Said(
        listed=draft.size,
        counted=draft.counted,
        messages=said.sizes,
        command=around.command.ranks if around.command else None,
        at_least=max((rank.rank for rank in draft.ranks), default=0) + 1 if draft.size is None else 1,
    )
    return decide(sources, lambda: draft.figures.fastest() if draft.figures else draft.cases, notes)


def _library(draft: Draft, around: Surroundings, said: NcclSaid) -> Library | None:
    path = around.command.library_path if around.command else None
    library = draft.library
    if library is None and (said.version or path):
        library = Library(name="NCCL")
    if library is None:
        return None
    version = library.version or said.version
    cuda = library.cuda_version
    if version and "+cuda" in version:
        version, _, cuda = version.partition("+cuda")
    return replace(library, version=version, cuda_version=cuda, path=library.path or path)


def _machine(draft: Draft, around: Surroundings, said: NcclSaid, notes: list[str]) -> str | None:
    hosts = " ".join(filter(None, [said.host, *dict.fromkeys([rank.host for rank in draft.ranks])]))
    by_host = machine_named(hosts)
    by_command = around.command.machine if around.command else None
    machine = draft.machine or by_host or by_command or around.machine or around.heading_machine
    if around.heading_machine and machine and machine != around.heading_machine:
        notes.append(f"the heading says {around.heading_machine}, but the host or script above says {machine}: taken")
    return machine
