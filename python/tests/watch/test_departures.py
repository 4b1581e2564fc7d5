"""Who left first, and who died or stands still where a communicator is made: verdicts on made snapshots."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from made_recordings import Made, Row, write
from snapshots import NOW
from test_strange_verdicts import SECOND, judged, making, process, row

from busbw.watch import containers, processes
from busbw.watch.containers import Numbers, boot_here, hash_of
from busbw.watch.departed import has_failed
from busbw.watch.generations import generations
from busbw.watch.live import Follower, Watcher
from busbw.watch.members import Verdict
from busbw.watch.messages import Messages
from busbw.watch.processes import EXITED, GONE, RUNNING, STOPPED, Process, snapshot
from busbw.watch.recording import Communicator, Recording, Shape
from busbw.watch.summary import summarise, who_waits
from busbw.watch.verdict import after_the_end, judge


@pytest.mark.parametrize(("state", "words"), [(STOPPED, "which is stopped"), (GONE, "which has ended without a word")])
@pytest.mark.parametrize("how", ["split", "init"])
def test_a_rank_that_is_stopped_or_dies_within_the_making_is_named(how: str, state: str, words: str) -> None:
    identity = 1 if how == "split" else 9
    ranks = [replace(process(at, row(at, 40)), making=making(how, identity, at, 4)) for at in range(4)]
    ranks[2] = replace(ranks[2], state=state)
    verdict = judged(ranks)
    assert (verdict.cause, verdict.ranks, verdict.accused) == ("making", (2,), (("node", 1002),))
    assert verdict.text.startswith(f"Rank 2 (node, pid 1002, {words}) had come to ncclComm")
    assert "in which rank 0, 1, 3 wait." in verdict.text
    # Nobody waits for it where all are stopped.
    assert judge([replace(each, state=state) for each in ranks], NOW, is_long=True) is None


def test_who_died_in_one_making_is_missing_in_another_and_the_others_are_not() -> None:
    ranks = [replace(process(at, row(at, 40)), making=making("init", 9, at, 4)) for at in range(4)]
    dead = replace(ranks[2], making=replace(making("split", 1), since_ns=NOW - 9 * SECOND), state=GONE)
    verdict = judged([*ranks[:2], dead, ranks[3]])
    assert (verdict.cause, verdict.ranks, verdict.accused) == ("making", (2,), (("node", 1002),))


def part(*numbers: int) -> list[Process]:
    """Eight ranks, of which these make a communicator of ranks 4 to 7; the others call nothing."""
    makers = {number: making("init", 9, number - 4, 4) for number in numbers}
    return [replace(process(at, row(at, 40, ranks=8)), making=makers.get(at)) for at in range(8)]


def test_of_a_part_of_the_job_the_missing_rank_is_named_by_the_numbers_of_its_neighbours() -> None:
    verdict = judged(part(4, 5, 7))
    assert (verdict.ranks, verdict.accused) == ((6,), (("node", 1006),))
    assert verdict.text.startswith("Rank 2 (node, pid 1006, rank 6 of the job) has not come to ncclCommInitRank")
    # Its other ranks have the numbers of that communicator too.
    assert "in which rank 0, 1, 3 wait" in verdict.text
    # Of every second rank of the job three may be the missing one.
    odd = {1: 0, 3: 1, 7: 3}
    several = [
        replace(each, making=making("init", 9, odd[at], 4) if at in odd else None) for at, each in enumerate(part())
    ]
    assert judged(several).accused == ()
    # At the end it may be anybody.
    verdict = judged(part(4, 5, 6))
    assert verdict.accused == () and verdict.text.startswith("Rank 3, of which nothing was seen")


def test_the_missing_ranks_of_a_split_are_told_with_the_communicator_and_without_a_call_that_was_none() -> None:
    ranks = [replace(process(at, row(at, 0)), making=making("split", 1) if at != 2 else None) for at in range(4)]
    verdict = judged(ranks)
    assert "which has called nothing there, has not come to ncclCommSplit" in verdict.text
    assert "of the communicator of 4 ranks that was made as init (0000000000000001)" in verdict.text


def failed(at: int, *rows: Communicator) -> Process:
    return replace(process(at, *rows), state=EXITED)


def test_who_aborted_without_an_error_is_named_though_the_others_failed_in_different_calls() -> None:
    aborted = failed(2)
    aborted = replace(
        aborted, over=(replace(row(2, 40), ended="aborted"), replace(row(2, 9, identity=2), ended="aborted"))
    )
    # The others failed on two communicators, at different numbers.
    others = [failed(at, replace(row(at, 40), last_error=6 * (at % 2)),
                     replace(row(at, 9, identity=2), last_error=6 * (1 - at % 2))) for at in (0, 1, 3)]  # fmt: skip
    verdict = after_the_end([*others, aborted])
    assert verdict is not None and (verdict.cause, verdict.ranks) == ("departed", (2,))
    assert "aborted its communicator after #40" in verdict.text and "rank 0, 1, 3 then got one" in verdict.text
    # A handler of errors that aborts is no cause.
    with_error = replace(aborted, over=(replace(aborted.over[0], last_error=6), *aborted.over[1:]))
    verdict = after_the_end([*others, with_error])
    assert verdict is None or verdict.ranks != (2,) or verdict.cause != "departed"


def test_where_as_many_aborted_as_failed_none_of_them_is_named_for_it() -> None:
    aborted = [replace(failed(at), over=(replace(row(at, 40), ended="aborted"),)) for at in (0, 1)]
    others = [failed(at, replace(row(at, 40), last_error=6)) for at in (2, 3)]
    verdict = after_the_end([*aborted, *others])
    assert verdict is None or verdict.cause != "departed"


def test_who_ended_early_is_named_though_the_others_failed_in_other_communicators() -> None:
    early = replace(failed(2), over=(replace(row(2, 40), ended="destroyed"),))
    others = [failed(at, row(at, 40 + (at == 3)), replace(row(at, 9, identity=2), last_error=6)) for at in (0, 1, 3)]
    verdict = after_the_end([*others, early])
    assert verdict is not None and (verdict.cause, verdict.ranks) == ("departed", (2,))
    assert verdict.text.endswith("while rank 3 went on to #41 and 3 ranks got an error of NCCL.")


def test_who_aborted_one_of_its_communicators_is_named_before_those_that_exited_by_it() -> None:
    stays = replace(process(2, row(2, 40)), over=(replace(row(2, 9, identity=2), ended="aborted"),))
    others = [failed(at, row(at, 40 + (at == 3)), replace(row(at, 10, identity=2), last_error=6)) for at in (0, 1, 3)]
    verdict = judged([*others, stays])
    assert (verdict.cause, verdict.ranks) == ("departed", (2,))


def test_who_aborted_and_goes_on_is_named_where_others_ended_by_errors_in_other_communicators() -> None:
    stays = replace(process(2), over=(replace(row(2, 40), ended="aborted"),))
    others = [failed(at, replace(row(at, 40), last_error=6 if at == 3 else 0),
                     replace(row(at, 9, identity=2), last_error=0 if at == 3 else 6)) for at in (0, 1, 3)]  # fmt: skip
    verdict = judged([*others, stays])
    assert (verdict.cause, verdict.ranks) == ("departed", (2,))
    assert "and goes on" in verdict.text


def test_an_exit_within_an_open_group_is_named() -> None:
    inside = replace(row(2, 90, inside=True), returned=40)
    within = replace(failed(2, inside), grouped={0: 50})
    others = [failed(at, replace(row(at, 41), last_error=6)) for at in (0, 1, 3)]
    verdict = after_the_end([*others, within])
    assert verdict is not None and (verdict.cause, verdict.ranks) == ("group", (2,))
    assert "exited within a group of calls that it had not ended: 50 calls" in verdict.text
    # So too where it has destroyed the communicator, but not where the library was at the group's end.
    ended = replace(failed(2), over=(replace(inside, ended="destroyed"),), grouped={0: 50})
    verdict = after_the_end([*others, ended])
    assert verdict is not None and verdict.cause == "group"
    ending = replace(within, communicators=(replace(inside, in_group_end=True),))
    verdict = after_the_end([*others, ending])
    assert verdict is None or verdict.cause != "group"


def test_communicators_of_few_calls_that_ended_do_not_hide_an_error() -> None:
    few = tuple(replace(row(0, 1, identity=10 + at), ended="destroyed") for at in range(64))
    assert has_failed(replace(process(0, replace(row(0, 40), last_error=6)), over=few))
    was_through = replace(row(0, 400, identity=9), ended="destroyed")
    assert not has_failed(replace(process(0, replace(row(0, 40), last_error=6)), over=(*few, was_through)))


def test_what_ended_last_is_kept_of_many_communicators(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processes, "MOST_OVER", 8)
    path = write(tmp_path, 0, [Row(0, 2, identity=at + 1) for at in range(32)], [Made(0)], ended=False)
    raw = bytearray(path.read_bytes())
    for place in range(32):
        # ended_ns and ended; the first one is aborted at last.
        struct.pack_into("<QI", raw, 4096 + 128 * place + 48, 10**9 if place == 0 else place, 2 if place == 0 else 1)
    path.write_bytes(raw)
    with Recording(path) as recording:
        (found,) = snapshot([recording])
    assert [each.place for each in found.over] == [0, 31, 30, 29, 28, 27, 26, 25]


def test_a_row_that_changes_is_read_anew_and_a_lost_one_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, 0, [Row(0, 2, identity=at + 1) for at in range(32)], [Made(0)], ended=False)
    with Recording(path) as recording:
        before = recording.communicators()
        raw = bytearray(path.read_bytes())
        struct.pack_into("<i", raw, 4096 + 128 * 31 + 16, 1)
        # Of those that found no place the header counts.
        struct.pack_into("<Q", raw, 208, 3)
        path.write_bytes(raw)
        after = recording.communicators()
    assert (before[31].rank, after[31].rank) == (0, 1) and before[:31] == after[:31]
    assert "3 communicators found no place in the table" in summarise([path]).text()


def test_of_those_that_called_least_only_who_got_no_error_is_named() -> None:
    # Ranks 0 and 3 failed in another communicator, or in the making of one, as rank 2 had gone.
    other = replace(row(0, 9, identity=2), last_error=6)
    ranks = [
        failed(0, row(0, 40), other),
        failed(1, replace(row(1, 41), last_error=6)),
        replace(failed(2, row(2, 40)), state=GONE),
        replace(failed(3, row(3, 40)), refused=making("split", 1)),
    ]
    verdict = after_the_end(ranks)
    assert verdict is not None and (verdict.cause, verdict.ranks) == ("ended", (2,))
    # Where a communicator's late ranks have all failed elsewhere another one tells more.
    later = [replace(row(at, 5 + (at != 2), identity=3, ranks=4), made_ns=9) for at in range(4)]
    ranks = [replace(each, communicators=(*each.communicators, later[at])) for at, each in enumerate(ranks)]
    ranks[2] = replace(ranks[2], communicators=(row(2, 41), later[2]))
    verdict = after_the_end(ranks)
    assert verdict is not None and verdict.ranks == (2,) and "(0000000000000003)" in verdict.text


def attempt(number: int, *, faulty: int, state: str = EXITED) -> list[Process]:
    """Ranks of which one made a call less; each attempt has a communicator and processes of its own."""
    made = NOW - (90 - 20 * number) * SECOND
    found = []
    for at in range(4):
        mine = replace(
            row(at, 40 + (at != faulty), identity=number), made_ns=made, entered_ns=made + SECOND, returned_ns=made
        )
        found.append(replace(process(at, mine), state=state, pid=1000 * number + at, start=number))
    return found


def test_attempts_of_a_job_are_told_apart_and_the_newest_comes_first() -> None:
    first, second = attempt(1, faulty=2), attempt(2, faulty=1)
    assert generations([*second, *first]) == [second, first]
    # Two halves that run beside each other are one attempt, and so is what goes on while another part begins.
    beside = [replace(each, communicators=(replace(each.communicators[0], identity=9),)) for each in first]
    assert [len(each) for each in generations([*first, *beside])] == [8]
    assert [len(each) for each in generations([*attempt(1, faulty=2, state=RUNNING), *second])] == [8]
    # What has no communicator yet belongs to the newest.
    late = replace(process(7), state=EXITED)
    assert generations([*first, *second, late]) == [[*second, late], first]
    assert generations([late]) == [[late]] and generations([]) == []


def test_of_a_job_that_failed_anew_the_newest_attempt_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher(tmp_path)
    monkeypatch.setattr(watcher, "_with_history", lambda: [*attempt(1, faulty=2), *attempt(2, faulty=1)])
    verdict = watcher.after_the_end()
    assert verdict is not None and verdict.accused == (("node", 2001),)
    watcher.close()


def test_recordings_of_a_job_that_was_over_before_are_left_alone(tmp_path: Path) -> None:
    over = write(tmp_path, 0, [Row(0, 2)], [Made(0)], host=os.uname().nodename)
    elsewhere = write(tmp_path, 1, [Row(1, 2)], [Made(0)], host="other", ended=False)
    watcher = Watcher(tmp_path)
    watcher.leave_former()
    # Of one that runs on another host it is not known.
    assert watcher.former == {over} and list(watcher.recordings) == [elsewhere]
    new = write(tmp_path, 2, [Row(0, 2)], [Made(0)], host=os.uname().nodename)
    watcher.look_once_more()
    assert sorted(watcher.recordings) == sorted([elsewhere, new])
    watcher.close()


def test_a_part_of_the_collectives_without_an_end_does_not_hide_the_others(tmp_path: Path) -> None:
    def said(groups: int) -> str:
        calls = [Made(10_000 * at, group=at if at <= groups else 0) for at in range(1, 9)]
        paths = [write(tmp_path, at, [Row(at, 2)], calls) for at in range(2)]
        follower = Follower(1.0, newest=None)
        recordings = [Recording(path) for path in paths]
        follower.read_all(recordings)
        for each in recordings:
            each.close()
        return who_waits(follower.stragglers, follower.lates)

    assert "8 collectives with all ranks; of the time in them" in said(0)
    assert (
        "8 collectives with all ranks (3 of them, as those in groups, told when they were called, and no more); of"
        in said(3)
    )
    assert "8 collectives with all ranks, by the host's calls" in said(8)


def test_a_file_that_was_cut_off_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, 0, [Row(0, 2)], [Made(1000 * at) for at in range(64)])
    assert "not there" not in summarise([path]).text()
    path.write_bytes(path.read_bytes()[: -24 * 32])
    assert "24 calls are not there: files were cut off" in summarise([path]).text()


def exchange(at: int, sent: int, received: int, peers: tuple[int, int], calls: Communicator) -> Process:
    """It sends to one peer and receives from another, on its second communicator."""
    shape = Shape("send", 16, "float32", "sum", peers[0])
    messages = Messages(
        True,
        {(1, peers[0]): tuple((number, shape) for number in range(sent))},
        {(1, peers[1]): tuple((number, replace(shape, kind="recv", root=peers[1])) for number in range(received))},
        {},
    )
    many = sent + received
    second = replace(row(at, 0, identity=2), entered=many, returned=many, collectives=0)
    if calls.returned == calls.entered:
        second = replace(second, returned=many - 2, last=replace(shape, kind="recv", root=peers[1]))
    return replace(process(at, calls, second), messages=messages, grouped={1: 2})


def test_who_left_a_collective_out_is_named_and_not_its_peer_in_the_next_messages() -> None:
    # A ring of messages: rank 2 is there, and the others wait for it in call 41 of the first communicator.
    ranks = [exchange(at, 7, 7, ((at + 1) % 4, (at + 3) % 4), row(at, 41, inside=True)) for at in range(4)]
    ranks[2] = exchange(2, 8, 8, (3, 1), row(2, 40))
    verdict: Verdict = judged(ranks)
    assert (verdict.cause, verdict.ranks) == ("order", (2,))
    assert "Rank 2 (node, pid 1002) has left out #41" in verdict.text and "It waits in recv of 16" in verdict.text
    # Where one alone is ahead of the others it is that one that left the messages out.
    ranks = [exchange(at, 8, 8, ((at + 1) % 4, (at + 3) % 4), row(at, 40)) for at in range(4)]
    ranks[2] = exchange(2, 7, 7, (3, 1), row(2, 41, inside=True))
    verdict = judged(ranks)
    assert (verdict.cause, verdict.accused) == ("message", (("node", 1002),))


def test_who_left_one_message_out_and_went_on_is_named_and_not_who_waits_for_it() -> None:
    # Rank 1 received in the round and did not send; rank 2 waits for that message, and all others for rank 2.
    ranks = [exchange(at, 8, 8, ((at + 1) % 4, (at + 3) % 4), row(at, 41, inside=True)) for at in range(4)]
    ranks[1] = exchange(1, 7, 8, (2, 0), row(1, 41, inside=True))
    ranks[2] = exchange(2, 8, 8, (3, 1), row(2, 40))
    verdict = judged(ranks)
    assert (verdict.cause, verdict.accused) == ("message", (("node", 1001),))


def test_the_machines_start_is_hashed_as_the_recorder_does() -> None:
    # By libstdc++'s std::hash.
    known: Mapping[bytes, int] = {
        b"": 6142509188972423790,
        b"a": 4993892634952068459,
        b"01234567": 17577775539208015928,
        b"f3b3a8ce-7c1f-4b52-9d0e-2a5b8d1c4e6f": 4490847342515569325,
    }
    assert {word: hash_of(word) for word in known} == known
    assert boot_here() != 0


def test_a_process_of_this_machine_that_no_number_can_be_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, boot = tmp_path / "other-1-1.busbwrec", boot_here()
    monkeypatch.setattr(containers, "_INITIAL", containers._namespace_of("self"))
    assert Numbers().here(file, "another-name", 5, 999_999, 7, boot) == 999_999
    assert Numbers().here(file, "another-name", 5, 999_999, 7, boot + 1) is None, "of another machine"
    assert Numbers().here(file, "another-name", 5, 999_999, 7, 0) is None
    # One of that number, with that start, may be it: in a namespace that is not read.
    me = os.getpid()
    assert Numbers().here(file, "another-name", 5, me, containers.begun_at(me) or 0, boot) is None
    monkeypatch.setattr(containers, "_INITIAL", 1)
    assert Numbers().here(file, "another-name", 5, 999_999, 7, boot) is None, "not all processes are seen"


def test_processes_that_called_nothing_are_not_taken_for_a_program_without_nccl(tmp_path: Path) -> None:
    paths = [write(tmp_path, rank, [Row(rank, 3)] if rank else [], []) for rank in range(3)]
    said = summarise(paths).text()
    made = "no call was recorded: 3 processes began to make a communicator, and 2 ranks came to the end of that"
    assert said == made
    assert summarise([]).text().startswith("no call of NCCL was recorded")
