"""Verdicts over NCCL, whose calls come back before they have run: by the calls alone, and by what the GPUs say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from snapshots import NOW, USUAL, on_gpu, process, row

from busbw.watch.links import Link
from busbw.watch.processes import EXITED, GONE, RUNNING, STOPPED, TRACED, Process
from busbw.watch.pulses import Pulse
from busbw.watch.recording import Communicator, Shape
from busbw.watch.verdict import judge, may_wait, waits


def over_nccl(rank: int, *rows: Communicator, grouped: dict[int, int] | None = None) -> Process:
    return replace(process(rank, *rows), gpus=True, grouped=grouped or {})


def test_over_nccl_a_rank_with_an_open_group_goes_on_to_other_communicators() -> None:
    here = over_nccl(0, row(0, 11, inside=False, ranks=2), row(0, 10, inside=False, identity=2, ranks=2))
    gone_on = over_nccl(
        1, row(1, 11, inside=False, ranks=2), row(1, 11, inside=False, identity=2, ranks=2), grouped={0: 1, 1: 2}
    )
    verdict = judge([here, gone_on], NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("groups", (1,))
    assert "GPU 1) in a group of 1 call, and 1 rank outside of a group" in verdict.text
    # Messages come in groups on some ranks and not on others.
    send = Shape("send", 64, "float32", "none", 1)
    peer = over_nccl(
        1, row(1, 11, inside=False, ranks=2, last=send), row(1, 11, inside=False, identity=2, ranks=2), grouped={0: 1}
    )
    other = judge([here, peer], NOW)
    assert other is not None
    assert other.cause != "groups"


def test_a_killed_process_is_the_cause_where_all_called_and_calls_come_back_at_once() -> None:
    ranks = [on_gpu(rank, row(rank, 11, inside=False), state=GONE if rank == 2 else RUNNING) for rank in range(4)]
    assert waits(ranks)
    verdict = judge(ranks, NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == (GONE, (2,))
    assert not waits([replace(each, state=GONE) for each in ranks]), "nobody is left to wait"
    assert not waits([replace(each, gpus=False) for each in ranks]), "where calls return when done, this one was"


@pytest.mark.parametrize("state", [STOPPED, TRACED])
def test_a_stopped_process_is_the_cause_where_all_called_and_calls_come_back_at_once(state: str) -> None:
    ranks = [on_gpu(rank, row(rank, 11, inside=False), state=state if rank == 2 else RUNNING) for rank in range(4)]
    assert waits(ranks)
    verdict = judge(ranks, NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == (state, (2,))
    assert f"GPU 2): the process is {state}; rank 0, 1, 3 of" in verdict.text


def test_where_all_called_over_nccl_unlike_calls_are_named_though_nobody_is_late() -> None:
    other = Shape("broadcast", 64, "float32", "none", 0)
    ranks = [
        on_gpu(rank, row(rank, 11, inside=False), history={0: {11: other if rank == 2 else USUAL}}) for rank in range(4)
    ]
    assert not waits(ranks)
    assert may_wait(ranks)
    verdict = judge(ranks, NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("unlike", (2,))
    assert not may_wait([replace(each, gpus=False) for each in ranks]), "where calls return when done, all have run"


def test_a_job_that_is_quiet_after_calls_over_nccl_is_accused_of_nothing_until_that_is_long() -> None:
    ranks = [on_gpu(rank, row(rank, 11, inside=False)) for rank in range(4)]
    assert judge(ranks, NOW) is None
    verdict = judge(ranks, NOW, is_long=True)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("quiet", ())
    assert "All ranks called #11 of" in verdict.text and "none has called anything since" in verdict.text
    # One that has exited is done; the others may well do without it.
    exited = [*ranks[:3], replace(ranks[3], state=EXITED)]
    assert judge(exited, NOW, is_long=True) is None
    queued = [replace(ranks[0], links=(Link("10.0.0.1:1", "10.0.0.2:2", queued=9),)), *ranks[1:]]
    link = judge(queued, NOW)
    assert link is not None
    assert (link.cause, link.ranks) == ("link", (0,))
    assert "has called anything since. Connections stand still: rank 0" in link.text


def test_calls_in_another_order_over_nccl_are_told_by_the_newest_call() -> None:
    later = NOW - 4_000_000_000
    late, usual = Shape("all_reduce", 32, "float32", "sum", None), USUAL
    ranks = [
        on_gpu(
            0, replace(row(0, 5, inside=False, ranks=2), entered_ns=later), row(0, 4, inside=False, identity=2, ranks=2)
        ),
        on_gpu(
            1, row(1, 4, inside=False, ranks=2), replace(row(1, 5, inside=False, identity=2, ranks=2), entered_ns=later)
        ),
    ]
    verdict = judge(ranks, NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("order", (1,))
    assert "rank 1 (node, pid 1001, GPU 1) has left out #5" in verdict.text
    # The same with another count in a call that both made before: that is the root.
    unlike = [
        replace(each, history={0: {2: usual, 3: usual, 4: late if each.pid == 1001 else usual}}) for each in ranks
    ]
    verdict = judge(unlike, NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("unlike", (1,))


def test_unlike_calls_are_found_on_a_communicator_where_nobody_waits_over_nccl() -> None:
    other = Shape("all_reduce", 32, "float32", "sum", None)
    ranks = [
        on_gpu(rank, row(rank, 5, inside=False, ranks=2), row(rank, 4 + rank, inside=False, identity=2, ranks=2),
               history={0: {5: other if rank else USUAL}})
        for rank in range(2)
    ]  # fmt: skip
    verdict = judge(ranks, NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("unlike", (0, 1)), "of two that differ, with nothing before"
    assert verdict.text.endswith("As many called one as the other: which is right is not known.")


def pulse(
    place: int = 0, *, begun: int = 0, not_begun: int = 0, ended: int = 0, not_ended: int = 0, error: int = 0
) -> Pulse:
    return Pulse(place, 0x3FA2, error, begun, not_begun, ended, not_ended, 11)


INSIDE = pulse(begun=11, ended=10, not_ended=11)
BEFORE = pulse(begun=10, not_begun=11, ended=10, not_ended=11)
DONE = pulse(begun=11, ended=11)


def with_pulses(*pulses: Pulse | None, count: int = 4) -> list[Process]:
    """All ranks have called #11, which came back to the host."""
    ranks = [on_gpu(rank, row(rank, 11, inside=False, ranks=count)) for rank in range(count)]
    return [replace(each, pulses={0: p} if p else {}) for each, p in zip(ranks, pulses, strict=True)]


def test_a_rank_whose_gpu_has_not_begun_what_others_have_is_named() -> None:
    verdict = judge(with_pulses(INSIDE, INSIDE, BEFORE, INSIDE), NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks, verdict.accused) == ("blocked", (2,), (("node", 1002),))
    assert "#11 of the communicator of 4 ranks" in verdict.text and "all_reduce of 64 float32" in verdict.text
    assert "rank 2 (node, pid 1002, GPU 2) called it, but its GPU has not begun it: work before it" in verdict.text
    assert "in its stream (3fa2) does not end. The GPU of rank 0, 1, 3 has begun it." in verdict.text


def test_several_ranks_that_have_not_begun_are_all_named() -> None:
    verdict = judge(with_pulses(BEFORE, INSIDE, BEFORE, BEFORE), NOW)
    assert verdict is not None and verdict.ranks == (0, 2, 3)


def test_of_a_rank_that_ran_ahead_on_the_host_the_gpu_tells() -> None:
    # Rank 1 does not wait for its results: the others seem to be late.
    ranks = with_pulses(INSIDE, pulse(begun=10, not_begun=11, ended=10, not_ended=11), count=2)
    ahead = replace(ranks[1], communicators=(row(1, 14, inside=False, ranks=2),))
    verdict = judge([ranks[0], ahead], NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("blocked", (1,))
    assert "#11 of" in verdict.text


def test_a_rank_that_did_not_call_is_named_as_before_whatever_the_gpus_say() -> None:
    ranks = with_pulses(INSIDE, INSIDE, DONE, INSIDE)
    late = replace(ranks[2], communicators=(row(2, 10, inside=False),), pulses={0: pulse(begun=10, ended=10)})
    verdict = judge([*ranks[:2], late, ranks[3]], NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("missing", (2,))


def test_a_gpu_that_waits_in_another_communicator_is_not_the_cause() -> None:
    """Rank 1 has not begun #11 here as it waits there for rank 2, whose GPU never begins that."""
    here = [on_gpu(rank, row(rank, 11, inside=False, ranks=2)) for rank in range(2)]
    there = [replace(row(rank, 11, inside=False, ranks=2, identity=2), device=rank + 1) for rank in range(2)]
    one = replace(here[0], pulses={0: INSIDE})
    two = replace(here[1], communicators=(*here[1].communicators, there[0]),
                  pulses={0: BEFORE, 1: replace(INSIDE, place=1)})  # fmt: skip
    three = replace(on_gpu(2, there[1]), pulses={1: replace(BEFORE, place=1)})
    verdict = judge([one, two, three], NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.accused) == ("blocked", (("node", 1002),))


def test_all_gpus_within_the_call_are_told_at_the_threshold() -> None:
    verdict = judge(with_pulses(INSIDE, INSIDE, INSIDE, INSIDE), NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("stuck", ())
    assert "All GPUs have begun it, and none has come to its end" in verdict.text


@pytest.mark.parametrize("is_long", [False, True])
def test_a_job_whose_gpus_have_ended_all_calls_hangs_in_none_of_them(is_long: bool) -> None:
    assert judge(with_pulses(DONE, DONE, DONE, DONE), NOW, is_long=is_long) is None


def test_where_a_gpu_was_not_asked_silence_is_told_with_what_is_known() -> None:
    assert judge(with_pulses(DONE, DONE, None, DONE), NOW) is None
    verdict = judge(with_pulses(DONE, DONE, None, pulse(begun=9, ended=9, not_ended=10)), NOW, is_long=True)
    assert verdict is not None and verdict.cause == "quiet"
    assert "It has ended on the GPU of rank 0, 1, not on that of 3." in verdict.text


def test_calls_that_nobody_marked_name_nobody() -> None:
    """The newest call that was looked at had ended everywhere; what came after it is not known."""
    verdict = judge(with_pulses(*[pulse(begun=8, ended=8)] * 4), NOW, is_long=True)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("quiet", ())


def test_a_gpu_that_answers_with_an_error_is_named() -> None:
    verdict = judge(with_pulses(INSIDE, INSIDE, INSIDE, pulse(error=719)), NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("gpu", (3,))
    assert "rank 3 (node, pid 1003, GPU 3): CUDA's error 719" in verdict.text


def test_a_gpu_that_alone_was_asked_about_the_newest_call_is_named_as_such() -> None:
    verdict = judge(with_pulses(None, pulse(begun=8, ended=8), BEFORE, None), NOW)
    assert verdict is not None
    assert (verdict.cause, verdict.ranks) == ("blocked", (2,))
    assert "Those of the others were not asked about this one." in verdict.text
    # Where more of them wait so, or a call before it may, the cause may lie elsewhere.
    assert judge(with_pulses(BEFORE, BEFORE, None, None), NOW) is None
    assert judge(with_pulses(None, None, pulse(begun=9, ended=9, not_begun=11, not_ended=11), None), NOW) is None


def left_after(calls: int, history: dict[int, Shape] | None = None) -> list[Process]:
    """Ranks 0 and 2 have called #17, which came back; rank 1 has ended its communicator and its process."""
    rows = [replace(row(rank, 17 if rank != 1 else calls, inside=False, ranks=3), returned=17) for rank in range(3)]
    ranks = [over_nccl(rank, rows[rank]) for rank in range(3)]
    known = {0: {16: USUAL, 17: USUAL}}
    ranks[1] = replace(ranks[1], communicators=(), over=(replace(rows[1], ended="destroyed"),), state=EXITED)
    return [replace(each, history={0: history} if history and not each.communicators else known) for each in ranks]


def test_a_rank_that_ended_its_communicator_too_early_is_named_though_calls_have_come_back() -> None:
    verdict = judge(left_after(16), NOW)
    assert verdict is not None and (verdict.cause, verdict.ranks) == ("departed", (1,))
    assert "has destroyed its communicator after #16" in verdict.text and "rank 0, 2 called #17" in verdict.text


def test_a_rank_that_ended_its_communicator_after_the_last_call_is_not_accused() -> None:
    verdict = judge(left_after(17), NOW)
    assert verdict is None or not verdict.ranks


def test_what_a_rank_called_before_it_ended_its_communicator_is_compared() -> None:
    verdict = judge(left_after(16, {16: Shape("all_gather", 12, "float32", "none", None)}), NOW)
    assert verdict is not None and (verdict.cause, verdict.ranks) == ("unlike", (1,))
    assert "Call #16" in verdict.text
