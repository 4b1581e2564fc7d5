"""Each fault of a job as a snapshot, and the verdict that it must have."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from made_recordings import Made, Row, write
from snapshots import NOW, USUAL, process, row, stuck, waiting

from busbw.watch import memory
from busbw.watch.links import Link, links_of
from busbw.watch.makings import Making
from busbw.watch.members import Verdict
from busbw.watch.processes import EXITED, GONE, RUNNING, STOPPED, TRACED, Process, snapshot, turns
from busbw.watch.recording import Recording, Shape, find
from busbw.watch.verdict import after_the_end, judge, waits


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


def test_of_several_that_have_ended_the_first_is_named() -> None:
    # Rank 2 left; the others got an error from NCCL by it, and one has gone through its exit already.
    ended = [replace(row(rank, 10 if rank == 2 else 11, inside=False), last_error=6 * (rank != 2)) for rank in range(4)]
    states = (EXITED, RUNNING, EXITED, RUNNING)
    verdict = judge([process(rank, ended[rank], state=states[rank]) for rank in range(4)], NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == (EXITED, (2,))


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
    assert "rank 1 (node, pid 1002, rank 2 of the job) did not call #8" in verdict.text


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


def test_a_rank_is_a_thread_of_a_process_that_has_several() -> None:
    # One process with a GPU for each rank; rank 2 does not call, and the others are within the call.
    rows = [row(rank, 10 if rank == 2 else 11, inside=rank != 2) for rank in range(4)]
    verdict = judge([process(0, *rows)], NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("missing", (2,))
    # That a neighbour's thread waits elsewhere says nothing of this rank's.
    beside = replace(row(0, 5, inside=True, identity=2, ranks=2), device=3, place=4)
    verdict = judge([process(0, *rows, beside), process(9, row(1, 4, inside=False, identity=2, ranks=2))], NOW)
    assert verdict is not None
    assert (verdict.ranks, verdict.accused) == ((2,), (("node", 1000),))
    # Here it waits on a communicator of its GPU with another process that does not call.
    second = [replace(row(0, 5, inside=True, identity=2, ranks=2), device=2, place=4)]
    chain = [process(0, *rows, *second), process(9, row(1, 4, inside=False, identity=2, ranks=2))]
    verdict = judge(chain, NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks, verdict.accused) == ("missing", (1,), (("node", 1009),))


def test_what_a_process_recorded_before_exec_is_over(tmp_path: Path) -> None:
    for name, moment in (("before", 10**12), ("after", 2 * 10**12)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, 0, [Row(0, 2)], [Made(0)], monotonic_ns=moment, ended=False)
    read = [Recording(path) for path in (*find(tmp_path / "after"), *find(tmp_path / "before"))]
    (found,) = snapshot(read)
    assert found.communicators[0].made_ns == 2 * 10**12


def test_a_call_in_a_group_that_was_not_closed_is_named() -> None:
    verdict = stuck(grouped={2: {0: 2}})
    assert (verdict.cause, verdict.ranks) == ("groups", (2,))
    assert "rank 2 (node, pid 1002) in a group of 2 calls, and 3 ranks outside of a group" in verdict.text
    assert stuck(grouped={rank: {0: 2} for rank in range(4)}).cause == "stuck"
    short = stuck(grouped={rank: {0: 1 if rank == 1 else 3} for rank in range(4)})
    assert "rank 1 (node, pid 1001) in a group of 1 call, and 3 ranks in a group of 3 calls" in short.text


@pytest.mark.parametrize(
    ("shares", "cause"),
    [
        ((0.01, 0.0, 0.9, 0.02), "busy"),
        ((0.004, 0.004, 0.05, 0.006), "busy"),
        ((0.9, 0.9, 0.9, 0.9), "stuck"),
        ((0.02, 0.02, 0.07, 0.02), "stuck"),
        ((0.9, 0.9, 0.01, 0.01), "stuck"),
        ((0.01, 0.01, 0.9, 0.5), "stuck"),
        ((None, 0.01, 0.9, 0.01), "stuck"),
    ],
)
def test_a_rank_that_computes_within_the_call_is_named_where_all_others_wait(
    shares: tuple[float | None, ...], cause: str
) -> None:
    verdict = stuck(busy=dict(enumerate(shares)))
    assert (verdict.cause, verdict.ranks) == (cause, (2,) if cause == "busy" else ())


@pytest.mark.parametrize(
    ("turns", "share", "cause"),
    [
        ((6e-6, 5e-6, 2.0, 7e-6), 0.02, "busy"),
        ((6e-6, 0.0, 2e-3, 7e-6), 0.01, "busy"),
        ((6e-6, 5e-6, 2.0, 7e-6), 0.001, "stuck"),
        ((6e-6, 5e-6, 4e-4, 7e-6), 0.02, "stuck"),
        ((6e-6, 0.5, 2.0, 7e-6), 0.02, "stuck"),
        ((6e-6, 9e-4, 2e-3, 7e-6), 0.02, "stuck"),  # not so much longer than another one's
        ((2.0, 2.0, 2.0, 7e-6), 0.02, "stuck"),
        ((6e-6, None, 2.0, 7e-6), 0.02, "stuck"),
    ],
)
def test_a_rank_that_never_gives_the_processor_up_computes_under_any_load(
    turns: tuple[float | None, ...], share: float, cause: str
) -> None:
    # All get as little of a processor, as on a machine with many other programs.
    verdict = stuck(busy=dict.fromkeys(range(4), share), turn_s=dict(enumerate(turns)))
    assert (verdict.cause, verdict.ranks) == (cause, (2,) if cause == "busy" else ())


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this kernel has no /proc/PID/schedstat")
def test_turns_of_a_process_tell_computing_from_waiting() -> None:
    before = turns(os.getpid())
    begun_s = time.process_time()
    while time.process_time() < begun_s + 0.05:
        sum(range(1000))
    computed = turns(os.getpid())
    for _ in range(20):
        time.sleep(0.0005)
    waited = turns(os.getpid())
    assert before and computed and waited
    assert computed[0] > before[0]
    assert waited[1] >= computed[1] + 20
    assert turns((1 << 22) + 1) is None


def test_a_connection_without_acknowledgements_is_named_before_those_that_are_waited_for() -> None:
    waited = (Link("10.0.0.1:1", "10.0.0.2:2", is_waited_for=True),)
    full = (Link("10.0.0.3:1", "10.0.0.4:2", 4096, 5),)
    verdict = stuck(links={0: waited, 3: full})
    assert (verdict.cause, verdict.ranks) == ("link", (3,))
    assert "10.0.0.3:1 to 10.0.0.4:2 holds 4,096 bytes that were not acknowledged, sent again 5 times" in verdict.text
    assert stuck(links={0: waited}).ranks == (0,)
    # All wait for data where the link is behind them all.
    assert stuck(links=dict.fromkeys(range(4), waited)).cause == "stuck"


def message(kind: str, peer: int) -> Shape:
    return Shape(kind, 8, "int8", "sum", peer)


def test_a_message_that_nobody_answers_names_who_should() -> None:
    waiting = process(0, row(0, 0, inside=False, ranks=3, last=message("recv", 1)))
    waiting = replace(waiting, communicators=(replace(waiting.communicators[0], entered=1),))
    idle = [process(rank, row(rank, 0, inside=False, ranks=3)) for rank in (1, 2)]
    verdict = judge([waiting, *idle], NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks, verdict.accused) == ("message", (1,), (("node", 1001),))
    assert "waits in recv of 8 int8, peer 1" in verdict.text


def test_two_ranks_that_both_receive_from_each_other_are_named() -> None:
    both = [process(rank, row(rank, 0, inside=False, ranks=2, last=message("recv", 1 - rank))) for rank in range(2)]
    both = [replace(each, communicators=(replace(each.communicators[0], entered=1),)) for each in both]
    verdict = judge(both, NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("message", (0, 1))
    assert "neither sends" in verdict.text


def after(*states: str, errors: tuple[int, ...] = (0, 0, 0, 0)) -> Verdict | None:
    return after_the_end([
        process(rank, replace(row(rank, 11, inside=state == GONE), last_error=errors[rank]), state=state)
        for rank, state in enumerate(states)
    ])  # fmt: skip


def test_a_process_that_was_killed_within_the_call_is_named_after_the_end() -> None:
    verdict = after(EXITED, EXITED, GONE, EXITED)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == (GONE, (2,))
    assert "Rank 2 (node, pid 1002) ended without a word, its last call #11" in verdict.text
    # A launcher ends all of them so: that tells nothing.
    assert after(GONE, GONE, GONE, EXITED) is None


def test_of_two_processes_the_one_that_ended_without_a_word_is_named_if_nccl_told_the_other() -> None:
    verdict = after(EXITED, GONE, errors=(6, 0))
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == (GONE, (1,))
    # The one may have been ended by its own watchdog after the other had left.
    assert after(EXITED, GONE) is None


def test_of_two_processes_the_one_that_exited_is_named_if_nccl_told_the_other_that_its_peer_is_gone() -> None:
    for end in (EXITED, GONE):
        verdict = after(EXITED, end, errors=(0, 6))
        assert verdict is not None and (verdict.cause, verdict.ranks) == (EXITED, (0,))
    assert after(EXITED, EXITED, errors=(0, 4)) is None, "it may have failed by itself"


def test_a_process_that_left_without_an_error_of_its_own_is_named_after_the_end() -> None:
    verdict = after(EXITED, EXITED, EXITED, EXITED, errors=(6, 6, 6, 0))
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == (EXITED, (3,))
    assert after(EXITED, EXITED, EXITED, EXITED, errors=(6, 6, 0, 0)) is None
    assert after(EXITED, EXITED, EXITED, EXITED) is None


def test_the_length_of_the_newest_group_of_each_communicator_is_read(tmp_path: Path) -> None:
    groups = [(0, 5), (1, 5), (0, 0), (1, 5), (0, 5), (0, 5)]
    calls = [Made(n * 1000, place=place, group=group) for n, (place, group) in enumerate(groups)]
    write(tmp_path, 0, [Row(0, 2), Row(0, 2, identity=8)], calls, ended=False)
    (path,) = find(tmp_path)
    with Recording(path) as recording:
        (found,) = snapshot([recording], with_history=True)
    assert found.grouped == {0: 3, 1: 3}
    assert sorted(found.history[0]) == [1, 2, 3, 4]


def test_a_connection_to_one_that_reads_no_more_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as link:
        end, _ = door.accept()
        with end:
            assert not links_of(os.getpid())
            link.setblocking(False)
            with suppress(BlockingIOError):
                while link.send(bytes(1 << 16)):
                    pass
            found = [each for each in links_of(os.getpid()) if each.queued]
            assert [each.remote for each in found] == [f"127.0.0.1:{door.getsockname()[1]}"]
            assert "not acknowledged" in str(found[0])


def test_the_kernel_counts_processes_that_it_ended_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (tmp_path / "cgroup").write_text("0::/job\n")
    monkeypatch.setattr(memory, "ROOT", tmp_path)
    monkeypatch.setattr(memory, "PROC", tmp_path / "cgroup")
    assert memory.kills() == 2
    (tmp_path / "cgroup").write_text("nothing\n")
    assert memory.kills() == 0


def test_the_first_of_several_calls_that_differ_is_the_root() -> None:
    """After it the ranks are apart, and all later numbers differ too."""
    other = Shape("broadcast", 8, "float32", "sum", 0)
    histories = [{9: USUAL, 10: other if rank == 1 else USUAL, 11: USUAL if rank == 1 else other} for rank in range(4)]
    verdict = judge([process(rank, row(rank, 11, inside=True), history={0: histories[rank]}) for rank in range(4)], NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("unlike", (1,))
    assert "Call #10 of" in verdict.text


def in_group(rank: int, *, ending: bool) -> Process:
    found = replace(row(rank, 11, inside=True), in_group_end=ending)
    return replace(process(rank, found), grouped={0: 1})


def test_a_group_that_a_rank_does_not_end_is_named_while_others_are_at_its_end() -> None:
    verdict = judge([in_group(rank, ending=rank != 2) for rank in range(4)], NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("groups", (2,))
    assert "in a group that it has not ended, 5.0 s ago; rank 0, 1, 3 waits in ncclGroupEnd for #11" in verdict.text
    # Recorders before this one never say so.
    older = judge([in_group(rank, ending=False) for rank in range(4)], NOW)
    assert older is not None and older.cause == "stuck"


def test_ranks_that_disagree_on_the_size_of_a_communicator_are_named() -> None:
    made = [Making("init", 77, 0, rank, 3 if rank == 2 else 4) for rank in range(4)]
    ranks = [process(rank, row(rank, 11, inside=False)) for rank in range(4)]
    failed = after_the_end([replace(each, refused=made[at], state=EXITED) for at, each in enumerate(ranks)])
    hangs = judge([replace(each, making=made[at]) for at, each in enumerate(ranks)], NOW, is_long=True)
    for verdict in (failed, hangs):
        assert verdict is not None
        assert (verdict.cause, verdict.ranks, verdict.accused) == ("making", (2,), (("node", 1002),))
        assert "rank 2 (node, pid 1002) says 3; 3 say 4." in verdict.text
    alike = [replace(each, refused=replace(made[0], rank=at), state=EXITED) for at, each in enumerate(ranks)]
    assert after_the_end(alike) is None


def test_of_two_ranks_the_one_that_died_is_named_where_nccl_gave_the_other_an_error() -> None:
    rows = [replace(row(rank, 11, inside=False, ranks=2), last_error=6 * (rank == 0)) for rank in range(2)]
    pair = [process(0, rows[0], state=EXITED), process(1, rows[1], state=GONE)]
    verdict = after_the_end(pair)
    assert verdict is not None and (verdict.cause, verdict.ranks) == (GONE, (1,))
    # Else the other may have failed by itself, and a launcher killed this one.
    assert after_the_end([replace(pair[0], communicators=(replace(rows[0], last_error=0),)), pair[1]]) is None


def test_ranks_that_ended_a_communicator_are_named_before_those_that_failed_by_it() -> None:
    """Rank 2 ends its second communicator and goes on in the first; the others get errors in the second."""
    second = [replace(row(rank, 11, inside=False, identity=2), last_error=6) for rank in range(4)]
    over = replace(row(2, 10, inside=False, identity=2), ended="destroyed")
    ranks = [process(rank, row(rank, 11 if rank != 2 else 12, inside=False), second[rank], state=EXITED)
             for rank in range(4)]  # fmt: skip
    ranks[2] = replace(ranks[2], communicators=ranks[2].communicators[:1], over=(over,))
    verdict = after_the_end(ranks)
    assert verdict is not None and (verdict.cause, verdict.ranks) == ("departed", (2,))
