"""Each fault of a job as a snapshot, and the verdict that it must have."""

from __future__ import annotations

import pytest

from busbw.watch.recording import Communicator, Shape
from busbw.watch.verdict import EXITED, GONE, RUNNING, STOPPED, TRACED, Process, after_the_end, judge, waits

USUAL = Shape("all_reduce", 64, "float32", "sum", None)
NOW = 100_000_000_000


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


@pytest.mark.parametrize("late", range(4))
def test_the_rank_that_did_not_call_is_named(late: int) -> None:
    verdict = judge(waiting(late), NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("missing", (late,))
    assert f"rank {late} (node, pid {1000 + late}) did not call #11, all_reduce of 64 float32, sum" in verdict.text
    assert "#10" in verdict.text
    assert "5.0 s ago" in verdict.text


@pytest.mark.parametrize(
    ("state", "words"),
    [(GONE, "has ended without a word"), (EXITED, "has exited"), (STOPPED, "is stopped"), (TRACED, "is in a debugger")],
)
def test_a_process_that_does_not_run_is_the_cause(state: str, words: str) -> None:
    verdict = judge(waiting(2, state), NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == (state, (2,))
    assert f"rank 2 (node, pid 1002): the process {words}; rank 0, 1, 3 of" in verdict.text


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (Shape("all_gather", 64, "float32", "sum", None), "another collective:"),
        (Shape("all_reduce", 32, "float32", "sum", None), "another count:"),
        (Shape("all_reduce", 64, "int32", "sum", None), "another type:"),
        (Shape("all_reduce", 64, "float32", "max", None), "another operator:"),
    ],
)
def test_a_call_of_another_shape_is_shown_where_it_began(other: Shape, what: str) -> None:
    # The program went on; the ring tells where it went apart.
    processes = [
        process(
            rank, row(rank, 12, inside=True), history={0: {10: USUAL, 11: other if rank == 3 else USUAL, 12: USUAL}}
        )
        for rank in range(4)
    ]
    for verdict in (judge(processes, NOW), after_the_end(processes)):
        assert verdict is not None
        assert (verdict.cause, verdict.ranks) == ("unlike", (3,))
        assert "Call #11" in verdict.text
        assert what in verdict.text


def test_another_root_is_another_shape() -> None:
    roots = [Shape("broadcast", 8, "int8", "sum", 1 if rank == 0 else 0) for rank in range(4)]
    processes = [process(rank, row(rank, 1, inside=True), history={0: {1: roots[rank]}}) for rank in range(4)]
    verdict = judge(processes, NOW)
    assert verdict is not None
    assert (verdict.ranks, "another root:" in verdict.text) == ((0,), True)


def test_ranks_in_another_order_of_communicators_are_named() -> None:
    processes = [
        process(
            rank,
            row(rank, 10 if rank == 1 else 11, inside=rank != 1, identity=1),
            row(rank, 11 if rank == 1 else 10, inside=rank == 1, identity=2),
        )
        for rank in range(4)
    ]
    verdict = judge(processes, NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("order", (1,))
    assert "rank 1 (node, pid 1001) has left out #11" in verdict.text


def test_the_root_of_a_chain_of_waits_is_named() -> None:
    # 0 waits for 1 on the first communicator, 1 for 2 on the second, and 2 computes.
    processes = [
        process(0, row(0, 5, inside=True, identity=1, ranks=2)),
        process(1, row(1, 4, inside=False, identity=1, ranks=2), row(0, 8, inside=True, identity=2, ranks=2)),
        process(2, row(1, 7, inside=False, identity=2, ranks=2)),
    ]
    verdict = judge(processes, NOW)
    assert verdict is not None
    assert verdict.cause == "missing"
    assert "rank 1 (node, pid 1002) did not call #8" in verdict.text


def test_all_called_and_nothing_moves() -> None:
    verdict = judge([process(rank, row(rank, 11, inside=True)) for rank in range(4)], NOW)
    assert verdict is not None
    assert verdict.cause == "stuck"


def test_ranks_of_other_hosts_are_said_to_be_unseen() -> None:
    verdict = judge([process(rank, row(rank, 11, inside=True)) for rank in range(3)], NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("unseen", (3,))


def test_nobody_waits_in_a_job_that_computes() -> None:
    processes = [process(rank, row(rank, 11, inside=False)) for rank in range(4)]
    assert not waits(processes)
    assert judge(processes, NOW) is None
    assert after_the_end(processes) is None


def test_messages_between_two_ranks_are_not_compared() -> None:
    send, recv = Shape("send", 8, "int8", "sum", 1), Shape("recv", 8, "int8", "sum", 0)
    processes = [process(0, row(0, 0, inside=False, last=send)), process(1, row(1, 0, inside=False, last=recv))]
    assert not waits(processes)
