"""How a verdict names a rank."""

from __future__ import annotations

from dataclasses import replace

from snapshots import process, row

from busbw.watch.members import Member
from busbw.watch.recording import Communicator


def in_a_row(name: str, *more: Communicator) -> str:
    """How the second rank of a row of two is named, in a job of eight."""
    of_row = row(1, 10, inside=False, identity=2, ranks=2)
    known = replace(process(5, row(5, 10, inside=False, ranks=8), of_row, *more), name=name)
    return str(Member(known, of_row))


def test_a_rank_is_named_by_its_number_in_the_whole_job_too() -> None:
    assert in_a_row("5") == "rank 1 (node, pid 1005, rank 5 of the job)"
    assert in_a_row("-1") == "rank 1 (node, pid 1005, rank 5 of 8 in its largest communicator)"
    assert in_a_row("-1", row(6, 10, inside=False, identity=3, ranks=8)) == "rank 1 (node, pid 1005)", "two ranks"
    assert in_a_row("1") == "rank 1 (node, pid 1005)"
