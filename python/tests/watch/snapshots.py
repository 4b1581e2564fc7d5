"""Snapshots of jobs for tests of verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from busbw.watch.members import Verdict
from busbw.watch.processes import RUNNING, Process
from busbw.watch.recording import Communicator, Shape
from busbw.watch.verdict import judge

USUAL = Shape("all_reduce", 64, "float32", "sum", None)
NOW = 100_000_000_000
SECOND = 1_000_000_000


def row(rank: int, calls: int, *, inside: bool, identity: int = 1, last: Shape = USUAL, ranks: int = 4) -> Communicator:
    return Communicator(
        place=identity - 1, identity=identity, parent=0, rank=rank, ranks=ranks, device=rank, made="init", color=0,
        last_error=0, made_ns=identity, ended="alive", entered=calls, returned=calls - inside, collectives=calls,
        entered_ns=NOW - 5_000_000_000, returned_ns=NOW - 6_000_000_000, last=last,
    )  # fmt: skip


def process(
    rank: int, *rows: Communicator, state: str = RUNNING, history: dict[int, dict[int, Shape]] | None = None
) -> Process:
    return Process(str(rank), 1000 + rank, "node", state, rows, history or {})


def waiting(late: int, state: str = RUNNING) -> list[Process]:
    """Four ranks of which one has not called #11."""
    return [
        process(
            rank, row(rank, 10 if rank == late else 11, inside=rank != late), state=state if rank == late else RUNNING
        )
        for rank in range(4)
    ]


def stuck(**more: Mapping[int, object]) -> Verdict:
    """Four ranks in #11, of which some differ: by name of a field of Process, the values of ranks."""
    processes = [
        replace(
            process(rank, row(rank, 11, inside=True)),
            **{name: values[rank] for name, values in more.items() if rank in values},  # type: ignore[arg-type]
        )
        for rank in range(4)
    ]
    verdict = judge(processes, NOW)
    assert verdict is not None
    return verdict


def on_gpu(
    rank: int, *rows: Communicator, state: str = RUNNING, history: dict[int, dict[int, Shape]] | None = None
) -> Process:
    """Over NCCL, whose calls come back at once."""
    return replace(process(rank, *rows, state=state, history=history), gpus=True)
