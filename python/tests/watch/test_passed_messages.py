"""A message that is missing, where all ranks soon wait on communicators of rows: by whom, not who waits for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from snapshots import NOW, process, row

from busbw.watch.members import Verdict
from busbw.watch.messages import Messages
from busbw.watch.processes import Process
from busbw.watch.recording import Shape
from busbw.watch.verdict import judge

RANKS = 8
ALL, EVEN, ODD = 1, 2, 3


def ring(rank: int, step: int, sent: int, received: int, newest: int = 2) -> Messages:
    """So many to the next rank and from the one before, and a collective of all after each."""
    after, before = (rank + 1) % RANKS, (rank - 1) % RANKS
    calls = {
        (0, after): tuple((3 * at, Shape("send", 64, "float32", "sum", after)) for at in range(sent)),
    }
    came = {(0, before): tuple((3 * at + 1, Shape("recv", 64, "float32", "sum", before)) for at in range(received))}
    return Messages(True, calls, came, {0: {at: 3 * at + 2 for at in range(step)}}, 3 * step + newest)


def job(faulty: int, *, sends: int, receives: int) -> list[Process]:
    """At step 11 a rank sent or received less; the next one waits for its message, its row for that one, all for it."""
    found = []
    for rank in range(RANKS):
        waits = rank == (faulty + 1) % RANKS
        same_row = not waits and rank % 2 == (faulty + 1) % 2
        message = Shape("recv", 64, "float32", "sum", faulty)
        every = row(rank, 10 if waits or same_row else 11, inside=not same_row, ranks=RANKS,
                    **({"last": message} if waits else {}))  # fmt: skip
        mine = row(rank // 2, 10 if waits else 11, inside=same_row, identity=EVEN + rank % 2, ranks=RANKS // 2)
        messages = ring(rank, 10, *((sends, receives) if rank == faulty else (11, 11)))
        found.append(replace(process(rank, every, replace(mine, place=1)), messages=messages))
    return found


def said(processes: list[Process]) -> Verdict:
    verdict = judge(processes, NOW)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize("faulty", range(RANKS))
@pytest.mark.parametrize(("sends", "receives"), [(10, 10), (10, 11)], ids=["both left out", "not sent"])
def test_who_left_its_messages_out_is_named(faulty: int, sends: int, receives: int) -> None:
    verdict = said(job(faulty, sends=sends, receives=receives))
    assert verdict.accused == (("node", 1000 + faulty),), verdict.text
    assert f"has sent 10 to rank {(faulty + 1) % RANKS} " in verdict.text


def test_who_has_not_come_to_the_message_yet_did_not_leave_it_out() -> None:
    """Rank 1 waits in a collective of all, which the rank that waits for its message has left out."""
    processes = job(1, sends=10, receives=10)
    processes[1] = replace(processes[1], messages=ring(1, 10, 10, 10, newest=-1))
    verdict = said(processes)
    assert "do not match" not in verdict.text
    assert verdict.accused == (("node", 1002),), verdict.text
