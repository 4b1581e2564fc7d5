"""Messages that do not match: of which size, how many, and by whom; also where the ring has lost the first ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from made_recordings import Made, Row, write
from snapshots import NOW

from busbw.watch.exchanges import _Pair
from busbw.watch.members import Member, Verdict
from busbw.watch.messages import MOST_MARKS, Messages
from busbw.watch.processes import EXITED, Process, snapshot
from busbw.watch.recording import Recording, Shape
from busbw.watch.share import Summary, decode, encode
from busbw.watch.verdict import after_the_end, judge, may_wait

RANKS = 4


def calls(rank: int, rounds: int, table: Sequence[Sequence[int]], before: int = 0) -> list[Made]:
    """Rounds of an all-reduce and a group in which everybody sends to everybody as the table says; 0 is no message."""
    made = [Made(at) for at in range(before)]
    for at in range(rounds):
        made.append(Made(100 + at))
        for peer in range(RANKS):
            for kind, count in (("send", table[rank][peer]), ("recv", table[peer][rank])):
                if count:
                    made.append(Made(100 + at, kind=kind, count=count, root=peer, group=1 + at % 100))
    return made


TABLE = [[4 + (rank + peer) % 3 for peer in range(RANKS)] for rank in range(RANKS)]


def job(
    folder: Path,
    *,
    wrong: dict[int, list[Made]] | None = None,
    inside: Sequence[int] = (),
    rounds: int = 6,
    capacity: int = 0,
    before: int = 0,
    gpus: bool = False,
) -> list[Process]:
    """Ranks of which some made other calls at the end, and some wait in their last one."""
    found = []
    for rank in range(RANKS):
        made = calls(rank, rounds, TABLE, before)
        made += (wrong or {}).get(rank, calls(rank, 1, TABLE))
        path = write(folder, rank, [Row(rank, RANKS)], made, capacity=capacity, ended=False, synchronous=not gpus)
        with Recording(path) as recording:
            each = snapshot([recording], with_history=True)[0]
        row = each.communicators[0]
        collectives = sum(call.kind == "all_reduce" for call in made)
        last = next(shape for _, shape in reversed(sorted_calls(each.messages)))
        row = replace(
            row, collectives=collectives, returned=row.entered - (rank in inside), entered_ns=NOW - 5 * 10**9, last=last
        )
        found.append(replace(each, communicators=(row,)))
    return found


def sorted_calls(messages: Messages) -> list[tuple[int, object]]:
    return sorted(
        (call for side in (messages.sent, messages.received) for found in side.values() for call in found),
        key=lambda call: call[0],
    )


def other(rank: int, **changes: object) -> list[Made]:
    """The last round, in which a message to a peer or from it is another one, or none."""
    made = calls(rank, 1, TABLE)
    kind, peer, count = changes["kind"], changes["peer"], changes.get("count")
    at = next(at for at, each in enumerate(made) if (each.kind, each.root) == (kind, peer))
    return [*made[:at], *([replace(made[at], count=count)] if count else []), *made[at + 1 :]]


def judged(processes: list[Process]) -> Verdict:
    verdict = judge(processes, NOW)
    assert verdict is not None
    return verdict


def test_two_sizes_of_one_message_are_named_with_both_ranks(tmp_path: Path) -> None:
    processes = job(tmp_path, wrong={2: other(2, kind="send", peer=1, count=2)}, inside=[1])
    verdict = judged(processes)
    assert (verdict.cause, verdict.ranks) == ("message", (2, 1))
    assert "rank 2 (node, pid 1002) sends 2 float32 (8 bytes) to rank 1 (node, pid 1001), which receives 4 f" in (
        verdict.text
    )
    assert "message #7 between them" in verdict.text
    # As many bytes of another type are the same message.
    same = [replace(each, count=16, type="int8") if each.root == 1 else each for each in calls(2, 1, TABLE)]
    assert "sends" not in judged(job(tmp_path, wrong={2: same}, inside=[1])).text


def test_two_sizes_are_told_when_the_job_has_failed_by_them(tmp_path: Path) -> None:
    processes = job(tmp_path, wrong={2: other(2, kind="send", peer=1, count=2)})
    ended = [replace(each, state=EXITED) for each in processes]
    verdict = after_the_end(ended)
    assert verdict is not None and verdict.ranks == (2, 1)
    assert after_the_end([replace(each, state=EXITED) for each in job(tmp_path)]) is None


def test_a_message_that_one_rank_leaves_out_is_named_with_who_waits_for_it(tmp_path: Path) -> None:
    verdict = judged(job(tmp_path, wrong={2: other(2, kind="send", peer=3)}, inside=[3]))
    assert (verdict.cause, verdict.accused) == ("message", (("node", 1002),))
    assert "has sent 6 to rank 3 (node, pid 1003), which has called 7 receives from it" in verdict.text
    # And of a receive, by several ranks.
    wrong = [each for each in calls(2, 1, TABLE) if each.kind != "recv" or each.root not in {0, 1}]
    verdict = judged(job(tmp_path, wrong={2: wrong}, inside=[0, 1]))
    assert verdict.accused == (("node", 1002),)
    assert "has called 6 receives from rank 0 (node, pid 1000), which has sent 7; has called 6 receives" in verdict.text


def test_what_the_ring_has_lost_is_not_missed(tmp_path: Path) -> None:
    """Then calls are laid side by side by a collective of both."""
    more = {"rounds": 20, "capacity": 64, "before": 10}
    verdict = judged(job(tmp_path, wrong={2: other(2, kind="send", peer=3)}, inside=[3], **more))
    assert verdict.accused == (("node", 1002),)
    assert "has sent 1 fewer to rank 3 (node, pid 1003) than that receives" in verdict.text
    wrong = other(1, kind="recv", peer=3, count=9)
    verdict = judged(job(tmp_path, wrong={1: wrong}, inside=[1], **more))
    assert "rank 3 (node, pid 1003) sends 5 float32 (20 bytes) to rank 1" in verdict.text
    assert "which receives 9 float32 (36 bytes) (one of their newest messages)" in verdict.text


def test_messages_that_may_be_laid_beside_others_than_theirs_tell_no_size(tmp_path: Path) -> None:
    first, second = (Member(each, each.communicators[0]) for each in job(tmp_path)[:2])
    sent = tuple((at, Shape("send", 4 + at, "float32", "sum", 1)) for at in range(8))

    def unlike_at(from_: int, *, is_whole: bool, many: int = 8) -> int | None:
        received = tuple((at, Shape("recv", 4 + at + (at >= from_), "float32", "sum", 0)) for at in range(many))
        return _Pair(first, second, sent[:many], received, is_whole).unlike_at

    assert [unlike_at(at, is_whole=True) for at in (0, 2, 6)] == [0, 2, 6]
    # With fewer than four alike before them they may be shifted.
    assert [unlike_at(at, is_whole=False, many=4) for at in (0, 2, 3)] == [None, None, None]
    assert [unlike_at(at, is_whole=False) for at in (0, 2, 4, 6)] == [None, None, 4, 6]


def test_a_rank_that_sends_to_itself_alone_is_named(tmp_path: Path) -> None:
    wrong = [replace(each, root=2) if (each.kind, each.root) == ("send", 3) else each for each in calls(2, 1, TABLE)]
    processes = job(tmp_path, wrong={2: wrong}, inside=[3])
    verdict = judged(processes)
    assert verdict.ranks == (2,)
    assert verdict.text.startswith("Rank 2 (node, pid 1002) has sent 8 to itself and received 7 from itself, of the")
    failed = after_the_end([replace(each, state=EXITED) for each in processes])
    assert failed is not None and failed.ranks == (2,)


def test_ranks_that_wait_in_a_chain_are_not_said_to_be_its_root(tmp_path: Path) -> None:
    """Rank 1 lacks a message of 0, and 3 one of 2: no rank has a part in both."""
    wrong = {0: other(0, kind="send", peer=1), 2: other(2, kind="send", peer=3)}
    assert "do not match" not in judged(job(tmp_path, wrong=wrong, inside=[1, 3])).text


def test_over_nccl_messages_are_counted_though_nobody_is_in_a_call(tmp_path: Path) -> None:
    processes = job(tmp_path, wrong={2: other(2, kind="send", peer=3)}, gpus=True)
    assert may_wait(processes)
    verdict = judged(processes)
    assert (verdict.cause, verdict.accused) == ("message", (("node", 1002),))
    assert judge(job(tmp_path, gpus=True), NOW) is None
    # A pipeline may have no collectives at all.
    rows = [replace(each.communicators[0], collectives=0) for each in processes]
    alone = [replace(each, communicators=(row,)) for each, row in zip(processes, rows, strict=True)]
    assert may_wait(alone) and judged(alone).accused == (("node", 1002),)


def test_messages_come_back_from_another_host_as_they_were(tmp_path: Path) -> None:
    made = job(tmp_path, rounds=100)[0]
    assert not made.messages.is_whole or len(made.messages.marks[0]) <= MOST_MARKS
    sent = decode(encode(Summary(1, 2, False, "", (replace(made, is_here=False),))))
    assert sent.processes[0].messages == made.messages
