"""A rank that goes on calling what no other rank has a part in: the others wait for it all the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from snapshots import NOW, SECOND, process, row

from busbw.watch import live
from busbw.watch.alone import goes_on_alone, going_alone, last_move_ns
from busbw.watch.live import Watcher
from busbw.watch.makings import Making
from busbw.watch.processes import Process, progress
from busbw.watch.recording import Communicator, Shape

TO_ITSELF = Shape("send", 4, "float32", "sum", 2)
T = 4 * SECOND


def lone_row(last: Shape, *, ago_s: float = 0.1, opened: int = 0, error: int = 0) -> Communicator:
    """Rank 2, which called just now."""
    at = NOW - int(ago_s * SECOND)
    made = row(2, 10, inside=False, last=last)
    return replace(made, entered=90 + opened, returned=90, entered_ns=at, returned_ns=at, last_error=error)


def job(lone: Communicator, *, waits: bool = True, without: int = -1) -> list[Process]:
    """Four ranks of which the others have waited in #11 for 5 s."""
    rows = [row(rank, 11 if waits else 10, inside=waits) if rank != 2 else lone for rank in range(4)]
    return [process(each.rank, each) for each in rows if each.rank != without]


def told(lone: Communicator) -> str:
    processes = job(lone)
    found = going_alone(processes, NOW, T)
    verdict = goes_on_alone(processes, found, NOW)
    assert verdict is not None
    assert verdict.ranks == (2,)
    assert last_move_ns(processes, found) == NOW - 5 * SECOND
    return verdict.text


@pytest.mark.parametrize(
    ("lone", "what"),
    [
        (lone_row(TO_ITSELF), "its newest are messages to itself, as send of 4 float32, peer 2"),
        (lone_row(Shape("all_reduce", 1, "float32", "sum", None), error=4), "were refused or failed"),
        (lone_row(Shape("all_reduce", 9, "float32", "sum", None), opened=40), "40 calls lie in a group"),
        (lone_row(Shape("broadcast", 0, "float32", "sum", 0)), "its newest move nothing"),
    ],
)
def test_what_it_calls_is_said(lone: Communicator, what: str) -> None:
    text = told(lone)
    assert text.startswith("Rank 2 (node, pid 1002) goes on calling, but nothing that another rank has a part in: ")
    assert what in text
    assert "All others wait, rank 0, 1, 3 of the communicator of 4 ranks" in text


@pytest.mark.parametrize(
    "processes",
    [
        job(lone_row(TO_ITSELF), waits=False),
        job(lone_row(TO_ITSELF), without=3),
        job(lone_row(TO_ITSELF, ago_s=5)),
        job(lone_row(TO_ITSELF, ago_s=3.9)),
        job(replace(lone_row(TO_ITSELF), entered=91)),
        [replace(each, communicators=(replace(each.communicators[0], entered_ns=NOW - SECOND),)) if each.pid == 1000
         else each for each in job(lone_row(TO_ITSELF))],
    ],
    ids=["nobody waits", "a rank is not seen", "it is quiet", "it came a moment later", "it waits", "another moves"],
)  # fmt: skip
def test_nobody_is_alone_where(processes: list[Process]) -> None:
    assert not going_alone(processes, NOW, T)


def test_who_moves_with_one_other_in_a_communicator_of_two_is_not_alone() -> None:
    pair = [replace(lone_row(TO_ITSELF), identity=2, place=1, rank=at, ranks=2) for at in range(2)]
    processes = job(lone_row(TO_ITSELF))
    processes = [replace(each, communicators=(*each.communicators, pair[each.pid - 1002])) if each.pid in {1002, 1003}
                 else each for each in processes]  # fmt: skip
    assert not going_alone(processes, NOW, T)


def test_where_another_rank_may_be_the_reason_nobody_is_named() -> None:
    processes = job(lone_row(TO_ITSELF))
    processes[3] = process(3, row(3, 10, inside=False))
    assert goes_on_alone(processes, going_alone(processes, NOW, T), NOW) is None


def test_a_communicator_of_one_rank_that_is_made_again_and_again_is_no_progress() -> None:
    def at(second: int, ranks: int) -> object:
        return progress(
            [replace(each, making=Making("init", 7, second, 0, ranks)) for each in job(lone_row(TO_ITSELF))]
        )

    assert at(1, 1) == at(2, 1)
    assert at(1, 4) != at(2, 4)


def test_a_watcher_says_it_once_while_the_rank_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, now = [], [0]

    def at_that_moment(*_: object, **__: object) -> list[Process]:
        lone = replace(lone_row(TO_ITSELF), entered=now[0] // SECOND, entered_ns=now[0], returned_ns=now[0])
        return job(lone)

    monkeypatch.setattr(live, "snapshot", at_that_moment)
    watcher = Watcher(tmp_path, 4.0)
    for second in range(-4, 12):
        now[0] = NOW + second * SECOND
        found.append(watcher.poll(now[0]))
    watcher.close()
    verdicts = [(second, each) for second, each in enumerate(found, -4) if each]
    assert [(second, each.cause, each.ranks) for second, each in verdicts] == [(-1, "alone", (2,))]
