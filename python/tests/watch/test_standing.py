"""Communicators that stand still while others go on: which of them hang, and which are just used seldom."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from made_recordings import Made, Row, write
from snapshots import SECOND, process, row

from busbw.watch.following import spoken
from busbw.watch.live import Watcher
from busbw.watch.processes import Process
from busbw.watch.recording import Communicator
from busbw.watch.standing import Paces, Still

RANKS = 4
TRAINING, HEART, STORE, PAIR = 1, 2, 3, 4
T = 4 * SECOND


def a_row(rank: int, calls: int, at_s: float, *, identity: int = TRAINING, inside: bool = False) -> Communicator:
    """The last call began at that moment, and came back at once unless the rank is inside."""
    made = row(rank, calls, inside=inside, identity=identity, ranks=2 if identity == PAIR else RANKS)
    at_ns = int(at_s * SECOND)
    return replace(made, made_ns=identity, entered_ns=at_ns, returned_ns=at_ns - inside)


def job(*of_rank: tuple[Communicator, ...], gpus: bool = False) -> list[Process]:
    return [replace(process(rank, *rows), gpus=gpus) for rank, rows in enumerate(of_rank)]


def trained(
    seconds: float, now_s: float, *, hangs: bool = True, gpus: bool = False, beats: bool = True
) -> list[Process]:
    """So long at 20 calls a second; then rank 2 does not come, while a heart beats twice a second."""
    at_s = min(seconds, now_s) if hangs else now_s
    calls, waits = int(20 * at_s), hangs and now_s > seconds
    return job(
        *(
            (
                a_row(rank, calls + (waits and rank != 2), at_s, inside=waits and rank != 2 and not gpus),
                *([a_row(rank, int(2 * now_s), int(2 * now_s) / 2, identity=HEART)] if beats else []),
            )
            for rank in range(RANKS)
        ),
        gpus=gpus,
    )


def told(seconds: float, end_s: float, most_s: float | None = None, **more: bool) -> Still | None:
    """Seen five times a second."""
    paces = Paces()
    for look in range(1, int(5 * end_s) + 1):
        now = trained(seconds, look / 5, **more)
        paces.see(now, look * SECOND // 5)
    return paces.still(now, int(end_s * SECOND), T, None if most_s is None else int(most_s * SECOND))


def test_a_thread_that_goes_on_calling_does_not_hide_a_hang() -> None:
    for gpus in (False, True):
        found = told(10.0, 14.5, gpus=gpus)
        assert found is not None
        assert found.identities == {TRAINING}
        assert "communicator of 4 ranks" in found.beside and "2)" in found.beside
        assert 4 * SECOND < found.quiet_ns < 5 * SECOND
        assert told(10.0, 13.0, gpus=gpus) is None, "not before the threshold"
    assert told(10.0, 14.5, hangs=False) is None
    assert told(10.0, 14.5, beats=False) is None, "where nothing goes on the whole job is judged"


def test_a_communicator_that_stopped_a_moment_later_does_not_go_on() -> None:
    """Its rank had to wait for a processor; the whole job stands still, and is judged a moment later."""
    for later_s, hangs in ((0.1, False), (2.0, True)):
        paces = Paces()
        for look in range(1, 100):
            at_s = look / 5
            now = [
                replace(each, communicators=(
                    each.communicators[0],
                    a_row(rank, int(20 * min(at_s, 10 + later_s)), min(at_s, 10 + later_s), identity=STORE),
                ))
                for rank, each in enumerate(trained(10.0, at_s, beats=False))
            ]  # fmt: skip
            paces.see(now, look * SECOND // 5)
            if look == 71:
                assert (paces.still(now, int(14.05 * SECOND), T, None) is not None) == hangs


def test_only_the_communicators_that_hang_are_judged() -> None:
    found = told(10.0, 14.5)
    assert found is not None
    left = found.only(trained(10.0, 14.5))
    assert {each.identity for process in left for each in process.communicators} == {TRAINING}


def test_where_nobody_gave_a_time_a_wait_is_long_by_the_communicators_own_pauses() -> None:
    paces = Paces()
    for look in range(1, 60):
        # A pause of 2 s.
        at_s = look / 5 if look < 20 or look > 30 else 4.0
        paces.see(trained(at_s, at_s), look * SECOND // 5)
    hangs = trained(11.8, 20.0)
    assert paces.still(hangs, 20 * SECOND, T, None) is not None
    assert paces.still(hangs, 20 * SECOND, T, 600 * SECOND) is None
    assert paces.still(trained(11.8, 34.0), 34 * SECOND, T, 600 * SECOND) is not None


def saving(now_s: float) -> list[Process]:
    """Training goes on, while threads wait until rank 0 has written a checkpoint."""
    return job(*(
        (a_row(rank, int(20 * now_s), now_s),
         a_row(rank, 12 + (rank != 0), 2.0, identity=STORE, inside=rank != 0))
        for rank in range(RANKS)
    ))  # fmt: skip


def test_a_checkpoint_that_is_saved_beside_the_training_is_no_hang() -> None:
    paces = Paces()
    for look in range(1, 100):
        paces.see(saving(look / 5)[: RANKS if look > 8 else 0], look * SECOND // 5)
    assert paces.still(saving(20.0), 20 * SECOND, T, None) is None


def evaluating(now_s: float, stops_s: float = 1e9) -> list[Process]:
    """Ranks 0 and 1 evaluate on their own, and the others wait for them."""
    pair_s = min(now_s, stops_s)
    return job(*(
        (a_row(rank, 200 + (rank > 1), 10.0, inside=rank > 1),
         *([a_row(rank, int(5 * pair_s), pair_s, identity=PAIR)] if rank < 2 else []),
         # Nothing but a heart.
         a_row(rank, int(2 * now_s), now_s, identity=HEART))
        for rank in range(RANKS)
    ))  # fmt: skip


def test_ranks_that_go_on_by_themselves_are_waited_for() -> None:
    paces = Paces()
    for look in range(1, 51):
        paces.see(trained(10.0, look / 5), look * SECOND // 5)
    for look in range(51, 150):
        paces.see(evaluating(look / 5), look * SECOND // 5)
    assert paces.still(evaluating(30.0), 30 * SECOND, T, None) is None
    # Until they no longer do.
    assert paces.still(evaluating(30.0, 25.0), 30 * SECOND, T, None) is not None


def replicas(now_s: float) -> list[Process]:
    """Two that have nothing to do with each other; in the first one rank 1 does not come since 10 s."""
    first = [a_row(rank, 100 + (rank == 0), min(now_s, 10.0), identity=PAIR, inside=rank == 0) for rank in range(2)]
    others = [a_row(rank, int(10 * now_s), now_s, identity=5) for rank in range(2)]
    if now_s < 10:
        first = [a_row(rank, int(10 * now_s), now_s, identity=PAIR) for rank in range(2)]
    return job(*((each,) for each in first + others))


def test_where_other_ranks_go_on_a_wait_has_to_be_ten_times_as_long() -> None:
    paces = Paces()
    for look in range(1, 300):
        paces.see(replicas(look / 5), look * SECOND // 5)
    assert paces.still(replicas(30.0), 30 * SECOND, T, None) is None, "as actors that wait for others' work"
    found = paces.still(replicas(51.0), 51 * SECOND, T, None)
    assert found is not None and found.identities == {PAIR}
    assert paces.still(replicas(60.0), 60 * SECOND, T, 600 * SECOND) is None, "nobody gave a time"
    assert paces.still(replicas(611.0), 611 * SECOND, T, 600 * SECOND) is not None


def test_who_is_waited_for_may_wait_for_a_checkpoint() -> None:
    """Then the root is what waits there."""
    now = [
        replace(each, communicators=(*each.communicators, a_row(rank, 2, 10.0, identity=STORE, inside=rank == 2)))
        for rank, each in enumerate(trained(10.0, 15.0))
    ]
    paces = Paces()
    for look in range(1, 51):
        paces.see(trained(10.0, look / 5), look * SECOND // 5)
    assert paces.still(trained(10.0, 15.0), 15 * SECOND, T, None) is not None
    assert paces.still(now, 15 * SECOND, T, None) is None


def phases(now_s: float) -> list[Process]:
    """Answers for 5 s, then training, in which threads wait for the next prompt of rank 0."""
    trains = now_s > 5.0
    return job(*(
        (a_row(rank, int(10 * max(0.0, now_s - 5.0)) + 4, now_s if trains else 0.1),
         a_row(rank, int(40 * min(now_s, 5.0)) + (trains and rank > 0), min(now_s, 5.0), identity=STORE,
               inside=trains and rank > 0))
        for rank in range(RANKS)
    ))  # fmt: skip


def test_a_new_phase_of_the_job_is_no_thread_beside_the_old_one() -> None:
    paces = Paces()
    for look in range(1, 100):
        paces.see(phases(look / 5), look * SECOND // 5)
    assert paces.still(phases(19.8), 198 * SECOND // 10, T, None) is None
    # What went on all the while is a thread.
    paces = Paces()
    for look in range(1, 100):
        rows = [
            (a_row(rank, int(look / 5) + 4, look / 5), each.communicators[1])
            for rank, each in enumerate(phases(look / 5))
        ]
        paces.see(job(*rows), look * SECOND // 5)
    found = paces.still(job(*rows), 198 * SECOND // 10, T, None)
    assert found is not None and found.identities == {STORE}


def short(training: int, beats: int, now_s: float) -> list[Process]:
    """So many calls within a second, then rank 2 does not come; a heart goes on."""
    stops = now_s > 1.0
    return job(*(
        (a_row(rank, training + (stops and rank != 2), min(now_s, 1.0), inside=stops and rank != 2),
         a_row(rank, beats + int(now_s), now_s, identity=HEART))
        for rank in range(RANKS)
    ))  # fmt: skip


def test_before_a_communicator_has_a_pace_its_calls_tell_whether_the_job_is_about_it() -> None:
    for training, beats, hangs in ((200, 2, True), (40, 2, False), (200, 100, False)):
        paces = Paces()
        for look in range(1, 40):
            paces.see(short(training, beats, look / 5), look * SECOND // 5)
        found = paces.still(short(training, beats, 8.0), 8 * SECOND, T, None)
        assert (found is not None) == hangs, (training, beats)


def test_a_watcher_says_it_once_with_the_rank_and_where_calls_go_on(tmp_path: Path) -> None:
    """Over NCCL: rank 1 does not come to #71, and a heart beats in both."""
    found = []
    watcher = Watcher(tmp_path, 4.0)
    for second in range(1, 16):
        for rank in range(2):
            calls = [Made(at * SECOND // 10) for at in range(min(10 * second, 71 - rank))]
            beats = [Made(at * SECOND, place=1, count=1) for at in range(second)]
            write(
                tmp_path, rank, [Row(rank, 2), Row(rank, 2, identity=8)], calls + beats, ended=False, synchronous=False
            )
        found.append(watcher.poll(10**12 + second * SECOND))
    watcher.close()
    verdicts = [(second, each) for second, each in enumerate(found, 1) if each]
    assert len(verdicts) == 1
    second, verdict = verdicts[0]
    assert second == 12, "4 s after the last call"
    assert (verdict.cause, verdict.ranks) == ("missing", (1,))
    assert "did not call #71, " in verdict.text and "(0000000000000007)" in verdict.text
    assert "(0000000000000008)" in verdict.beside
    assert "no progress for 5 s, but in the communicator of 2 ranks" in spoken(verdict, 4.0)
    assert spoken(replace(verdict, beside=""), 4.0).startswith("no progress for 4 s. ")


def test_however_long_its_pauses_were_a_communicator_hangs_after_the_most() -> None:
    """Ten times a pause of 3 s is 30 s: without a bound it would take so long."""

    def seen(end_s: float, most_s: float) -> Still | None:
        paces = Paces()
        for look in range(1, int(5 * end_s) + 1):
            at_s = look / 5
            # 20 calls a second, with a rest from 10 to 13 s.
            moved_s = min(at_s, 10.0) if at_s < 13 else min(at_s, 20.0)
            calls, waits = int(20 * moved_s), at_s > 20
            now = job(*(
                (a_row(rank, calls + (waits and rank != 2), moved_s, inside=waits and rank != 2),
                 a_row(rank, int(2 * at_s), int(2 * at_s) / 2, identity=HEART))
                for rank in range(RANKS)
            ))  # fmt: skip
            paces.see(now, look * SECOND // 5)
        return paces.still(now, int(end_s * SECOND), T, int(most_s * SECOND))

    assert seen(20 + 7, 8) is None
    assert seen(20 + 9, 8) is not None
    assert seen(20 + 9, 1000) is None


def test_nothing_hangs_where_who_is_waited_for_goes_on_with_others() -> None:
    """Rank 2 serves a fifth process meanwhile, as an evaluation on some ranks that takes ten times the threshold."""

    def seen(serves: bool) -> Still | None:
        paces = Paces()
        for look in range(1, 5 * 70 + 1):
            at_s = look / 5
            moved_s, waits = min(at_s, 20.0), at_s > 20
            calls = int(20 * moved_s)
            training = [
                a_row(rank, calls + (waits and rank != 2), moved_s, inside=waits and rank != 2) for rank in range(RANKS)
            ]
            pair = [a_row(rank, int(10 * at_s), at_s, identity=PAIR) for rank in range(2)]
            rows = [(each,) for each in training]
            rows[2] = (training[2], pair[0]) if serves else rows[2]
            now = job(*rows, (pair[1],)) if serves else job(*rows, (a_row(0, int(10 * at_s), at_s, identity=PAIR),))
            paces.see(now, look * SECOND // 5)
        return paces.still(now, 70 * SECOND, T, None)

    assert seen(serves=False) is not None
    assert seen(serves=True) is None
