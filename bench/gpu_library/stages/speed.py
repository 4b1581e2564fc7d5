"""Ours beside every peer: one measuring program, all libraries alive at once and in turn, several rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_library.contest import Outcome, Player, as_json, play, scratch
from gpu_library.figures import plain
from gpu_library.machine import REPOSITORY, Machine
from gpu_library.peers import BANDS, Band, contestants, engine_argv, engine_environment, has_symm_mem
from gpu_library.program import Command
from gpu_library.session import Result, Session, Wanted, in_turn
from gpu_library.sizes import within, words

SYMM_MEM = "torch symm_mem"
_PROGRAM = REPOSITORY / "bench" / "gpu_library" / "programs" / "symm_mem.py"


@dataclass(frozen=True)
class Table:
    """What one contest measures: a collective on so many GPUs over a band of sizes."""

    collective: str
    gpus: int
    band: Band

    @property
    def label(self) -> str:
        sizes = f"{words(self.band.first)} to {words(self.band.last)}"
        return f"{self.collective}, {self.gpus} GPUs, {self.band.name}, {sizes}"


def tables(machine: Machine, wanted: Wanted) -> list[Table]:
    """All-reduce first and all GPUs first: what runs out of time is missed least at the end."""
    found = []
    for gpus in sorted(machine.counts, reverse=True):
        for band in BANDS:
            for collective in wanted.collectives:
                cut = _cut(machine, wanted, collective, band)
                if cut:
                    found.append(Table(collective, gpus, cut))
    # Graphs of the small sizes on all GPUs, then the rest in the order of what people ask about.
    return sorted(found, key=lambda t: (t.gpus != machine.gpus, t.band.name != "graph", t.band.first))


def _cut(machine: Machine, wanted: Wanted, collective: str, band: Band) -> Band | None:
    """The part of a band that was asked for. Beyond 1 GiB only where buffers are shared out between ranks."""
    most = 4 << 30 if collective in {"all_gather", "alltoall"} else 1 << 30
    part = within(band.first, min(band.last, most), wanted.smallest, wanted.largest)
    if part is None:
        return None
    cut = replace(band, first=part[0], last=part[1])
    return replace(cut, graph_launches=0, iterations=5, warmup=1) if machine.host else cut


def players(session: Session, table: Table, folder: Path) -> Iterator[Player]:
    machine, wanted = session.machine, session.wanted
    # -T: a library that hangs gives its turn to the others.
    shared = ("-N", str(wanted.cycles), "-T", "25", "-c", "1", *table.band.words())
    for number, peer in enumerate(contestants(machine, table.collective, table.band)):
        record = folder / f"{number}.jsonl"
        argv = engine_argv(machine, peer, table.collective, table.gpus, shared, str(record))
        changes = (engine_environment(machine, session.base), peer.environment)
        yield Player(peer.name, Command(argv, session.environment(*changes)), record)
    if has_symm_mem(machine, table.collective, table.band):
        record = folder / "symm_mem.jsonl"
        yield Player(SYMM_MEM, Command(symm_mem_argv(machine, table, wanted, record), session.environment()), record)


def symm_mem_argv(machine: Machine, table: Table, wanted: Wanted, record: Path) -> tuple[str, ...]:
    band = table.band
    return (
        *(machine.python, str(_PROGRAM), "--ranks", str(table.gpus), "--record", str(record)),
        *("--first", str(band.first), "--last", str(min(band.last, 256 << 20)), "--factor", str(band.factor)),
        *("--calls", str(band.iterations), "--launches", str(band.graph_launches), "--cycles", str(wanted.cycles)),
    )


def as_results(table: Table, number: int, outcomes: Sequence[Outcome]) -> list[Result]:
    return [
        {
            "collective": table.collective, "gpus": table.gpus, "band": table.band.name, "round": number,
            **as_json(outcome), "samples": [plain(sample) for sample in outcome.samples],
        }
        for outcome in outcomes
    ]  # fmt: skip


def stage(session: Session) -> list[Result]:
    """Round after round over all tables."""
    found = tables(session.machine, session.wanted)
    results: list[Result] = []
    for number, position in in_turn(session.wanted.rounds, len(found)):
        table = found[position]
        if not session.fits(table.label, 15):
            continue
        limit = session.deadline.limit(session.wanted.per_run_limit_s)
        left = session.deadline.left()
        with scratch() as folder:
            outcomes = play(list(players(session, table, Path(folder))), limit, session.log, table.label)
        seconds = left - session.deadline.left()
        session.deadline.took(table.label, seconds)
        _tell(table, outcomes, seconds)
        results += as_results(table, number, outcomes)
    return results


def _tell(table: Table, outcomes: Sequence[Outcome], seconds: float) -> None:
    measured = sum(bool(outcome.samples) for outcome in outcomes)
    print(f"{table.label}: {measured} of {len(outcomes)} libraries, {seconds:.1f} s", flush=True)
    for outcome in outcomes:
        if outcome.code != 0:
            print(f"    {outcome.name}: exit {outcome.code}: {outcome.reason}", flush=True)
