"""Ranks that go on calling although nobody else moves: what they call needs no other rank, so the job stands still.

Such calls are messages to itself, refused ones, ones of no bytes, or ones in a group that never ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from busbw.watch.members import (
    PAIRS,
    SHOWN,
    Member,
    Verdict,
    accused,
    ago,
    by_communicator,
    name_of,
    ranks_of,
    sentence,
)
from busbw.watch.processes import RUNNING, Process
from busbw.watch.standing import moved_ns_of

Key = tuple[str, int, int]
_LATELY = 4
"""This part of the threshold."""


def going_alone(processes: Sequence[Process], now_ns: int, least_ns: int) -> frozenset[Key]:
    """Those that have called lately, while all others of their communicators have done nothing for `least_ns`.

    Somebody must wait for them there. Where ranks are not seen nobody is said to be alone.
    """
    groups = by_communicator(processes)
    then = now_ns - least_ns
    moving = {key: [each for each in members if moved_ns_of(each) > then] for key, members in groups.items()}
    # Who came a moment after the others and waits with them has not gone on.
    lately_ns = now_ns - least_ns // _LATELY
    candidates = {
        each.process.key
        for members in moving.values() if len(members) == 1
        for each in members if moved_ns_of(each) > lately_ns and not _is_held(each)
    }  # fmt: skip
    return frozenset(
        key
        for key in candidates
        if all(
            len(moving[identity]) == 1 and len(members) == members[0].row.ranks
            for identity, members in groups.items()
            if any(each.process.key == key for each in moving[identity])
        )
        and any(_is_waited_for(key, members) for members in groups.values())
    )


def _is_held(member: Member) -> bool:
    """Within a call that has not come back, but for those that a group without an end has put off."""
    return member.inside and (member.row.in_group_end or member.row.entered - member.row.returned == 1)


def _is_waited_for(key: Key, members: Sequence[Member]) -> bool:
    """Whether another rank is in a call here, or has called more."""
    mine = [each for each in members if each.process.key == key]
    others = [each for each in members if each.process.key != key]
    least = min((each.row.collectives for each in mine), default=0)
    return bool(mine) and any(each.inside or each.row.collectives > least for each in others)


def last_move_ns(processes: Sequence[Process], lone: Collection[Key]) -> int:
    """When anybody but those last called, came back, or began to make a communicator; 0 where nobody has."""
    rows = [max(row.made_ns, row.entered_ns, row.returned_ns, row.ended_ns)
            for each in processes if each.key not in lone for row in (*each.communicators, *each.over)]  # fmt: skip
    making = [each.making.since_ns for each in processes if each.making and each.key not in lone]
    return max([*rows, *making], default=0)


def goes_on_alone(processes: Sequence[Process], lone: Collection[Key], now_ns: int) -> Verdict | None:
    """Who goes on, where all others wait: then nobody else can be the reason."""
    others = [each for each in processes if each.key not in lone and each.communicators]
    if not lone or not all(_waits(each) for each in others):
        return None
    groups = by_communicator(processes)
    found = [
        (member, key)
        for key, members in groups.items()
        for member in members
        if member.process.key in lone and _is_waited_for(member.process.key, members)
    ]
    # Where it last called it is most likely to be wrong.
    member, key = max(found, key=lambda each: moved_ns_of(each[0]))
    waiting = [each for each in groups[key] if each.process.key not in lone]
    since_ns = max(map(moved_ns_of, waiting))
    text = (
        f"{member} goes on calling, but nothing that another rank has a part in: {_what(member, groups)}. "
        f"All others wait, rank {ranks_of(waiting)} of {name_of(waiting)} since {(now_ns - since_ns) / 1e9:.1f} s"
        f"{_in_what(waiting)}. It last called {ago(now_ns, member.row.entered_ns)}."
    )
    return Verdict("alone", (member.row.rank,), sentence(text), accused([member]))


def _waits(process: Process) -> bool:
    return process.state == RUNNING and any(Member(process, row).waiting for row in process.communicators)


def _what(member: Member, groups: Mapping[int, Sequence[Member]]) -> str:
    """The kind of its newest call, on whichever communicator that was."""
    rows = [each for members in groups.values() for each in members if each.process.key == member.process.key]
    newest = max(rows, key=moved_ns_of)
    row, where = newest.row, "" if newest.row.identity == member.row.identity else f" of {name_of([newest])}"
    open_calls = row.entered - row.returned
    if open_calls > 1 and not row.in_group_end:
        return f"{open_calls:,} calls{where} lie in a group that it has not ended; its ncclGroupEnd is missing"
    if row.last.kind in PAIRS and row.last.root == row.rank:
        return f"its newest are messages{where} to itself, as {row.last}"
    if not row.last.count:
        return f"its newest{where} move nothing, as {row.last}"
    if row.last_error:
        return f"its newest{where} were refused or failed, as {row.last} (NCCL's error {row.last_error})"
    return f"its newest{where} is {row.last}"


def _in_what(waiting: Sequence[Member]) -> str:
    inside = [each for each in waiting if each.inside][:SHOWN]
    kinds = sorted({str(each.row.last) for each in inside})
    return f", in {kinds[0]}" if len(kinds) == 1 else ""
