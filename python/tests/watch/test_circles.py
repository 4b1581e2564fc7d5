"""Waits without one root: who is in the circle, and whose message has no other half."""

from __future__ import annotations

from dataclasses import replace

from snapshots import NOW, USUAL, process, row

from busbw.watch.circles import circle
from busbw.watch.members import behind_of, by_communicator
from busbw.watch.processes import Process
from busbw.watch.recording import Shape
from busbw.watch.verdict import judge


def messenger(rank: int, kind: str, peer: int, ranks: int) -> Process:
    """A rank in its first message."""
    one = row(rank, 0, inside=False, ranks=ranks, last=Shape(kind, 8, "int8", "sum", peer))
    return process(rank, replace(one, entered=1))


def test_a_late_rank_that_waits_nowhere_does_not_hide_a_circle() -> None:
    """Rank 0 computes; ranks 1 and 2 wait for each other in two further communicators."""
    processes = [
        process(0, row(0, 4, inside=False, identity=1)),
        process(
            1,
            row(1, 5, inside=False, identity=1),
            row(1, 8, inside=True, identity=2),
            row(1, 6, inside=False, identity=3),
        ),
        process(
            2,
            row(2, 5, inside=False, identity=1),
            row(2, 7, inside=False, identity=2),
            row(2, 7, inside=True, identity=3),
        ),
    ]
    groups = by_communicator(processes)
    behind = {key: behind_of(members) for key, members in groups.items()}
    assert [each.row.rank for each in behind[1]] == [0]
    verdict = circle(groups, behind)
    assert verdict is not None
    assert (verdict.cause, sorted(verdict.ranks)) == ("circle", [1, 2])
    assert USUAL.kind in verdict.text


def test_a_message_of_the_other_kind_to_a_third_rank_is_no_answer() -> None:
    """Each sends or receives, and none of them to or from the one that waits for it."""
    three = [messenger(0, "send", 1, 4), messenger(1, "recv", 2, 4), messenger(2, "send", 3, 4)]
    verdict = judge([*three, messenger(3, "recv", 0, 4)], NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("message", (0, 1, 2, 3))
    # The peer of the first one does answer somebody; it stays out of what is said.
    pair = [messenger(0, "send", 1, 3), messenger(1, "recv", 2, 3), messenger(2, "send", 1, 3)]
    verdict = judge(pair, NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("message", (0, 1))
    assert "Rank 0 (node, pid 1000) waits in send of 8 int8, peer 1" in verdict.text
