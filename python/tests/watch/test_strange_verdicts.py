"""Verdicts on ranks that left, that do not come to a new communicator, or that wait for each other without one root."""

from __future__ import annotations

import mmap
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.watch.departed import has_failed
from busbw.watch.links import Link
from busbw.watch.makings import Making
from busbw.watch.members import Verdict
from busbw.watch.processes import EXITED, GONE, REPLACED, RUNNING, Process, progress, snapshot
from busbw.watch.recording import Communicator, Recording, Shape
from busbw.watch.share import Summary, decode, encode, shifted
from busbw.watch.verdict import after_the_end, judge, may_wait, waits

USUAL = Shape("all_reduce", 64, "float32", "sum", None)
SECOND = 1_000_000_000
NOW = 100 * SECOND


def row(rank: int, calls: int, *, inside: bool = False, identity: int = 1, ranks: int = 4) -> Communicator:
    return Communicator(
        place=identity - 1, identity=identity, parent=0, rank=rank, ranks=ranks, device=rank, made="init", color=0,
        last_error=0, made_ns=identity, ended="alive", entered=calls, returned=calls - inside, collectives=calls,
        entered_ns=NOW - 5 * SECOND, returned_ns=NOW - 6 * SECOND, last=USUAL,
    )  # fmt: skip


def process(rank: int, *rows: Communicator) -> Process:
    return Process(str(rank), 1000 + rank, "node", RUNNING, rows)


def message(rank: int, kind: str, peer: int) -> Communicator:
    shape = Shape(kind, 64, "float32", "sum", peer)
    return replace(row(rank, 40, inside=True), entered=41, returned=40, last=shape)


def making(how: str, identity: int, rank: int = -1, ranks: int = -1) -> Making:
    return Making(how, identity, NOW - 5 * SECOND, rank, ranks)


def judged(processes: list[Process]) -> Verdict:
    verdict = judge(processes, NOW, is_long=True)
    assert verdict is not None
    return verdict


def test_the_rank_that_does_not_come_to_a_split_is_named_once_that_is_long() -> None:
    ranks = [
        replace(process(rank, row(rank, 40)), making=making("split", 1) if rank != 2 else None) for rank in range(4)
    ]
    assert not waits(ranks)
    assert may_wait(ranks)
    assert judge(ranks, NOW) is None, "others may load their model for minutes"
    verdict = judged(ranks)
    assert (verdict.cause, verdict.ranks, verdict.accused) == ("making", (2,), (("node", 1002),))
    assert verdict.text.startswith(
        "Rank 2 (node, pid 1002), its last call there #40, all_reduce of 64 float32, sum, has"
    )
    assert "to ncclCommSplit, of the communicator of 4 ranks" in verdict.text
    assert "in which rank 0, 1, 3 wait, the first since 5.0 s." in verdict.text


def test_the_missing_rank_is_named_though_it_waits_in_a_call_that_the_others_left_out() -> None:
    ranks = [replace(process(rank, row(rank, 40)), making=making("split", 1)) for rank in range(3)]
    verdict = judged([*ranks, process(3, row(3, 41, inside=True))])
    assert (verdict.cause, verdict.ranks) == ("making", (3,))
    # And the one that makes a communicator alone, while the others wait for it, is late there.
    alone = [process(rank, row(rank, 41, inside=True)) for rank in range(3)]
    verdict = judged([*alone, replace(process(3, row(3, 40)), making=making("init", 9, 0, 2))])
    assert (verdict.cause, verdict.ranks) == ("missing", (3,))
    assert "It is in the making of another communicator (init)." in verdict.text


def test_who_keeps_the_late_rank_in_a_split_is_named_with_it() -> None:
    """Half of the ranks have a communicator, which one of them splits while the other goes on with all."""
    half = [row(at, 1, inside=False, identity=5, ranks=2) for at in range(2)]
    others = [process(rank, row(rank, 41, inside=True)) for rank in range(2)]
    splits = replace(process(2, row(2, 40, inside=False), half[0]), making=making("split", 5))
    verdict = judged([*others, splits, process(3, row(3, 41, inside=True), half[1])])
    assert (verdict.cause, verdict.ranks) == ("missing", (2,))
    assert "(split), to which rank 1 (node, pid 1003, rank 3 of the job) has not come." in verdict.text
    # Where most ranks do not come it is the one that splits.
    of_all = replace(splits, making=making("split", 1))
    assert "(split)." in judged([*others, of_all, process(3, row(3, 41, inside=True), half[1])]).text


@pytest.mark.parametrize(("state", "words"), [(RUNNING, ""), (GONE, ", which has ended without a word")])
def test_the_rank_that_does_not_come_to_the_first_communicator_is_named(state: str, words: str) -> None:
    ranks = [replace(process(rank), making=making("init", 7, rank, 4)) for rank in range(3)]
    verdict = judged([*ranks, replace(process(3), state=state)])
    assert (verdict.cause, verdict.ranks) == ("making", (3,))
    assert f"rank 3 (node, pid 1003{words}) has not come to ncclCommInitRank".lower() in verdict.text.lower()
    # A process that never called NCCL records nothing.
    unseen = judged(ranks)
    assert unseen.text.startswith("Rank 3, of which nothing was seen on this host, has not come to ncclCommInitRank")
    assert unseen.accused == ()
    whole = [replace(process(rank), making=making("init", 7, rank, 4)) for rank in range(4)]
    assert judge(whole, NOW, is_long=True) is None, "all have come"


def test_the_wait_for_a_communicator_counts_from_the_first_that_came() -> None:
    came = [replace(making("init", 7, rank, 4), since_ns=NOW - (3 + rank) * SECOND) for rank in range(3)]
    verdict = judged([*(replace(process(rank), making=came[rank]) for rank in range(3)), process(3)])
    assert "the first since 5.0 s." in verdict.text


def test_of_a_part_of_the_job_nobody_is_named_where_several_may_be_the_missing_one() -> None:
    """Ranks 0 and 3 of the job make a communicator of three; 1 or 2 of the job is its other one."""
    made = [replace(process(at), making=making("init", 7, rank, 3)) for rank, at in ((0, 0), (2, 3))]
    verdict = judged([*made, process(1), process(2)])
    assert verdict.accused == ()
    assert verdict.text.startswith("Rank 1, of which nothing was seen")
    # With one between them it is that one.
    assert judged([*made, process(1)]).accused == (("node", 1001),)


@pytest.mark.parametrize("how", ["destroyed", "aborted"])
def test_a_rank_that_has_left_its_communicator_is_named_where_others_wait_in_it(how: str) -> None:
    left = replace(process(2), over=(replace(row(2, 40), ended=how),))
    verdict = judged([process(0, row(0, 41, inside=True)), process(1, row(1, 41, inside=True)), left,
                      process(3, row(3, 41, inside=True))])  # fmt: skip
    assert (verdict.cause, verdict.ranks) == ("departed", (2,))
    assert f"Rank 2 (node, pid 1002) has {how} its communicator after #40" in verdict.text
    assert "while rank 0, 1, 3 waits in #41" in verdict.text


def test_a_rank_that_goes_on_alone_is_named_where_the_others_ended_by_its_leaving() -> None:
    left = replace(process(2), over=(replace(row(2, 40), ended="destroyed"),))
    failed = [replace(process(rank, replace(row(rank, 41), last_error=6)), state=EXITED) for rank in (0, 1, 3)]
    assert may_wait([*failed, left])
    verdict = judged([*failed, left])
    assert (verdict.cause, verdict.ranks) == ("departed", (2,))
    assert "and goes on; rank 0, 1, 3 of it got an error of NCCL in #41" in verdict.text
    # A job that tears its communicators down in turn is healthy.
    fine = [replace(process(rank), over=(replace(row(rank, 40), ended="destroyed"),)) for rank in range(4)]
    assert judge(fine, NOW, is_long=True) is None
    assert judge([*fine[:3], process(3, row(3, 40))], NOW, is_long=True) is None


def test_of_two_communicators_the_one_on_which_only_the_late_rank_is_late_is_told() -> None:
    # Ranks 2 to 5 have a communicator of their own, to which rank 2 does not come; 0 and 1 wait for all of them.
    ranks = [process(rank, row(rank, 41, inside=True, ranks=6)) for rank in range(2)]
    for rank in range(2, 6):
        own = row(rank - 2, 2 - (rank == 2), inside=rank != 2, identity=2)
        ranks.append(process(rank, row(rank, 40, ranks=6), own))
    verdict = judged(ranks)
    assert (verdict.cause, verdict.ranks, verdict.accused) == ("missing", (0,), (("node", 1002),))
    assert "did not call #2, all_reduce of 64 float32, sum, of the communicator of 4 ranks" in verdict.text
    assert "nor did" not in verdict.text


def test_ranks_that_wait_in_a_circle_are_named() -> None:
    # Ranks 0, 1 and 2 have a communicator for each two of them, and each calls that with the next one first.
    def pair(identity: int, first: int, rank: int, calls: int) -> Communicator:
        mine = 0 if rank == first else 1
        return row(mine, calls, inside=calls > 0, identity=identity, ranks=2)

    ranks = [
        process(0, pair(2, 0, 0, 1), pair(4, 2, 0, 0)),
        process(1, pair(2, 0, 1, 0), pair(3, 1, 1, 1)),
        process(2, pair(3, 1, 2, 0), pair(4, 2, 2, 1)),
    ]
    verdict = judged(ranks)
    assert verdict.cause == "circle"
    assert sorted(verdict.accused) == [("node", 1000), ("node", 1001), ("node", 1002)]
    assert "Ranks wait for each other in a circle: " in verdict.text


def test_a_message_whose_peer_is_in_another_call_is_named() -> None:
    ranks = [process(rank, row(rank, 41, inside=True)) for rank in range(4)]
    ranks[1] = process(1, message(1, "send", 2))
    verdict = judged(ranks)
    assert (verdict.cause, verdict.ranks) == ("message", (1, 2))
    assert "rank 2 (node, pid 1002) waits in #41, all_reduce of 64 float32, sum" in verdict.text
    # Rank 2 waits for a wrong peer: that is nearer to the root than rank 1, which waits for rank 2.
    ranks[2] = process(2, message(2, "recv", 0))
    assert judged(ranks).text.startswith("Rank 2 (node, pid 1002) waits in recv of 64 float32, peer 0")


def exchanging(rank: int, peer: int) -> Process:
    """In a group of messages, as of tokens for experts; the newest one is with `peer`."""
    return replace(process(rank, message(rank, "recv", peer)), grouped={0: 6})


def test_the_rank_that_is_in_no_exchange_is_named_though_the_newest_messages_are_with_another() -> None:
    out = process(2, row(2, 40), row(2, 9, inside=True, identity=2))
    verdict = judged([exchanging(0, 3), exchanging(1, 3), out, exchanging(3, 3)])
    assert (verdict.cause, verdict.ranks) == ("message", (2,))
    assert verdict.text.startswith("Rank 0, 1, 3 wait in groups of messages of ")
    assert "but rank 2 (node, pid 1002) waits in #9, all_reduce" in verdict.text


def test_a_rank_alone_in_an_exchange_is_not_said_to_wait_for_the_newest_messages_peer() -> None:
    verdict = judged([process(0, row(0, 40)), process(1, row(1, 40)), exchanging(2, 2), process(3, row(3, 40))])
    assert verdict.ranks == (2,)
    assert "one of its messages has no other half" in verdict.text
    assert "peer" not in verdict.text


def test_a_job_whose_root_is_not_known_is_not_told_that_all_called() -> None:
    ranks = [process(rank, row(rank, 41, inside=True)) for rank in range(3)]
    ranks.append(process(3, message(3, "send", 3)))
    verdict = judged(ranks)
    assert "All ranks called" not in verdict.text


@pytest.mark.parametrize(
    ("turns", "gpus", "named"),
    [((6e-6, 2.0), False, (1,)), ((2.0, 2.0), False, ()), ((6e-6, 2.0), True, ()), ((None, 2.0), False, ())],
)
def test_of_two_ranks_the_one_that_never_gives_the_processor_up_is_named(
    turns: tuple[float | None, float], gpus: bool, named: tuple[int, ...]
) -> None:
    ranks = [
        replace(process(rank, row(rank, 11, inside=True, ranks=2)), busy=0.4, turn_s=turns[rank], gpus=gpus)
        for rank in range(2)
    ]
    assert judged(ranks).ranks == named


@pytest.mark.parametrize(("gpus", "both", "named"), [(False, False, (1,)), (True, False, ()), (False, True, ())])
def test_of_two_ranks_the_one_that_waits_for_a_connection_is_named(
    gpus: bool, both: bool, named: tuple[int, ...]
) -> None:
    link = (Link("10.0.0.1:1", "10.0.0.2:2", is_waited_for=True),)
    ranks = [
        replace(process(rank, row(rank, 11, inside=True, ranks=2)), gpus=gpus, links=link if rank or both else ())
        for rank in range(2)
    ]
    assert judged(ranks).ranks == named


def test_a_failed_job_says_that_the_rank_behind_has_exited() -> None:
    ranks = [process(rank, row(rank, 40 if rank == 2 else 41)) for rank in range(4)]
    assert after_the_end(ranks) is None, "all of them go on: their launcher has ended"
    elsewhere = [replace(each, is_here=False) for each in ranks]
    assert after_the_end(elsewhere) is not None, "of another host that is not known"
    for state, words in ((EXITED, ", which has exited,"), (GONE, ", which has ended without a word,"), (RUNNING, "")):
        ranks[2] = replace(ranks[2], state=state)
        ranks[0] = replace(ranks[0], state=EXITED)
        verdict = after_the_end(ranks)
        assert verdict is not None
        assert f"Rank 2 (node, pid 1002){words} called #40" in verdict.text


def test_a_failed_job_names_the_rank_that_had_one_call_less_and_left() -> None:
    fewer = replace(process(2), over=(replace(row(2, 59), ended="destroyed"),), state=EXITED)
    failed = [replace(process(rank, replace(row(rank, 60), last_error=6)), state=EXITED) for rank in (0, 1, 3)]
    verdict = after_the_end([*failed, fewer])
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("departed", (2,))
    assert "rank 2 (node, pid 1002) destroyed it after #59" in verdict.text
    assert "while rank 0, 1, 3 went on to #60 and got an error of NCCL." in verdict.text
    # Of those that made the same calls the last one to leave is not accused.
    assert after_the_end([*failed, replace(fewer, over=(replace(row(2, 60), ended="destroyed"),))]) is None


def test_other_hosts_are_told_of_what_is_made_and_what_is_over() -> None:
    mine = replace(process(2, row(2, 40)), over=(replace(row(2, 3, identity=5), ended="aborted"),),
                   making=making("split", 1))  # fmt: skip
    [read] = decode(encode(Summary(NOW, 0, False, "", (mine,)))).processes
    assert (read.making, read.over) == (mine.making, mine.over)
    later = shifted(read, SECOND, 0.0)
    assert later.making is not None
    assert later.making.since_ns == NOW - 4 * SECOND
    assert progress([read]) != progress([replace(read, making=None)])
    assert progress([read]) != progress([replace(read, over=())])


def test_a_process_that_no_longer_has_its_recording_in_memory_has_called_exec(tmp_path: Path) -> None:
    me = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    path = write(tmp_path, 0, [Row(0, 2)], [Made(0)], host=socket.gethostname(), pid=os.getpid(), ended=False)
    raw = bytearray(path.read_bytes())
    raw[72:80] = int(me[19]).to_bytes(8, "little")
    path.write_bytes(raw)
    with Recording(path) as recording:
        assert snapshot([recording], with_history=True)[0].state == RUNNING, "it does not say where it was"
    raw[312:320] = (1 << 40).to_bytes(8, "little")
    path.write_bytes(raw)
    with Recording(path) as recording:
        assert snapshot([recording])[0].state == RUNNING, "looked at for a verdict only"
        assert snapshot([recording], with_history=True)[0].state == REPLACED
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as memory:
            assert memory[:8] == b"BUSBWREC"
            assert snapshot([recording], with_history=True)[0].state == RUNNING


def test_a_thread_whose_call_fails_as_other_ranks_exit_is_no_failure() -> None:
    heart = replace(row(0, 30, identity=2), last_error=6)
    through = replace(process(0, heart), over=(replace(row(0, 40), ended="destroyed"),))
    assert not has_failed(through)
    assert has_failed(process(0, row(0, 40), heart)), "what it was about has not ended"
    assert has_failed(replace(through, over=(replace(row(0, 40), ended="destroyed", last_error=6),)))
    assert has_failed(replace(through, over=(replace(row(0, 3), ended="destroyed"),))), "that was not the work"
    assert not has_failed(process(0, row(0, 40)))


def test_two_processes_of_one_number_are_named_in_the_making_and_when_nccl_refused_it() -> None:
    numbers = [0, 1, 2, 2]
    ranks = [
        replace(process(at, row(at, 40)), making=making("init", 9, number, 4)) for at, number in enumerate(numbers)
    ]
    verdict = judged(ranks)
    assert (verdict.cause, verdict.ranks, verdict.accused) == ("making", (2,), (("node", 1002), ("node", 1003)))
    assert verdict.text.startswith(
        "Rank 2 (node, pid 1002) and rank 2 (node, pid 1003, rank 3 of the job) say the same number, of a communicator"
    )
    assert verdict.text.endswith("(0000000000000009, ncclCommInitRank), and nobody says 3.")
    refused = [replace(each, making=None, refused=each.making, state=EXITED) for each in ranks]
    failed = after_the_end(refused)
    assert failed is not None and failed.text == verdict.text
    # One of the two has made it.
    made = replace(process(2, row(2, 1, identity=9)), communicators=(replace(row(2, 1, identity=9), last_error=5),))
    one = after_the_end([replace(made, state=EXITED), refused[3]])
    assert one is not None and "Rank 2 (node, pid 1003, rank 3 of the job) and rank 2 (node, pid 1002) say" in one.text
    # A process that tries again says its number twice.
    again = [replace(each, refused=making("init", 9, at, 4)) for at, each in enumerate(ranks[:3])]
    assert "the same number" not in judged([*again, process(3, row(3, 40))]).text


def test_of_ranks_that_wait_for_each_other_on_two_communicators_the_fewer_ones_left_a_call_out() -> None:
    """Also where the others' call follows what it never followed, as its communicator is used seldom."""
    seldom = [
        replace(
            process(rank, row(rank, 40), row(rank, 4, inside=True, identity=2)), is_new_turn=True
        )
        for rank in (0, 1, 3)
    ]  # fmt: skip
    here = process(2, row(2, 41, inside=True), row(2, 3, identity=2))
    verdict = judged([*seldom, here])
    assert (verdict.cause, verdict.ranks) == ("order", (2,))
    # Of as many it is the one that did what it never did.
    pair = [replace(each, is_new_turn=each is seldom[0]) for each in (*seldom[:1], here)]
    verdict = judged(pair)
    assert (verdict.cause, verdict.ranks) == ("order", (0,))


def test_of_ranks_that_are_late_when_the_job_failed_all_are_named_unless_all_ended_without_a_word() -> None:
    """The first of those that ended so may have drawn the others with it; one that exited was not drawn."""
    on = [replace(process(rank, row(rank, 41)), state=GONE) for rank in (0, 3)]
    late = [replace(process(1, row(1, 40)), state=GONE), replace(process(2, row(2, 40)), state=EXITED)]
    mixed = [*on, *late]
    verdict = after_the_end(mixed)
    assert verdict is not None and (verdict.cause, set(verdict.ranks)) == ("ended", {1, 2})
    ended_ns = {mixed[2].key: NOW - SECOND, mixed[3].key: NOW}
    verdict = after_the_end([*mixed[:3], replace(mixed[3], state=GONE)], ended_ns)
    assert verdict is not None and (verdict.cause, verdict.ranks) == ("ended", (1,))
