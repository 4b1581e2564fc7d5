"""Who waits for whom: from the processes of a job at one moment, which rank holds it up, and why.

A snapshot is a value and a verdict a pure function of it, so that every fault can be written down as a test.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from busbw.watch.circles import circle, unmatched
from busbw.watch.departed import (
    aborted_first,
    departed,
    departed_early,
    has_error,
    has_failed,
    left_early,
    survivors,
    with_departed,
    within_open_group,
)
from busbw.watch.ends import died, ended_first, first_of, left, refused
from busbw.watch.exchanges import (
    left_out_before_messages,
    messages_to_itself,
    passed_messages,
    uneven_messages,
    unlike_messages,
)
from busbw.watch.lingering import not_ended, stays
from busbw.watch.making import in_making, twice_the_same, unlike_sizes, who_has_not_come
from busbw.watch.members import (  # fmt: skip
    PAIRS,
    Member,
    Verdict,
    accused,
    ago,
    behind_of,
    by_communicator,
    elsewhere,
    is_waited_for,
    last_of,
    name_of,
    newest,
    ranks_of,
    sentence,
)
from busbw.watch.on_gpu import blocked, have_ended, in_error, pulse_of
from busbw.watch.processes import EXITED, GONE, RUNNING, STOPPED, TRACED, Process
from busbw.watch.stuck import all_called, not_known_to_end, of_open_group, of_unended_group, unanswered
from busbw.watch.unlike import unlike

_UNKNOWN: Mapping[Hashable, int] = {}


def waits(processes: Sequence[Process]) -> bool:
    """Whether some rank waits for another: is inside a call, or has called more than another rank."""
    return any(_holds(members) for members in _in_use(processes).values())


def may_wait(processes: Sequence[Process]) -> bool:
    """Whether ranks may wait for each other: on the GPU, where NCCL's calls run after they have come back, or for a
    communicator, or for the end of a rank that goes on alone."""
    if any(process.making for process in processes) or survivors(processes, 0):
        return True
    if not_ended(processes, 0) or stays(processes, 0, is_longest=True, is_use_known=False):
        return True
    return any(_may_hold(members) or _has_messages(members) for members in _in_use(processes).values())


def _in_use(processes: Sequence[Process]) -> dict[int, list[Member]]:
    """Communicators but those whose processes have all ended, as of a job that was begun anew: nobody waits in them."""
    return {
        key: members
        for key, members in by_communicator(processes).items()
        if any(member.process.state not in {GONE, EXITED} for member in members)
    }


def judge(
    processes: Sequence[Process],
    now_ns: int,
    where: str = "on this host",
    *,
    is_long: bool = False,
    is_longest: bool = False,
) -> Verdict | None:
    """The root of a wait, or None where nobody waits; `now_ns` by the host's monotonic clock.

    `where` says in which place ranks were looked for; `is_long`, that no job is quiet for so long unless it hangs;
    `is_longest`, that nobody saves a model for so long either.
    """
    every = _in_use(processes)
    groups = {key: members for key, members in every.items() if _holds(members)}
    new = in_making(processes, now_ns, where) if is_long else None
    if not groups:
        return (
            new
            or survivors(processes, now_ns)
            or (not_ended(processes, now_ns) if is_long else None)
            or (stays(processes, now_ns, is_longest=is_longest) if is_long else None)
            or _first(unlike(with_departed(processes, members)) for members in every.values())
            or departed_early(processes, every, now_ns)
            or _messages_on_the_gpu({key: members for key, members in every.items() if _has_messages(members)})
            or _on_the_gpu([members for members in every.values() if _may_hold(members)], now_ns, is_long=is_long)
        )
    # Over NCCL the ranks with unlike calls may have gone on to another communicator.
    compared = [members for key, members in every.items() if key in groups or members[0].process.gpus]
    found = (
        survivors(processes, now_ns) or _of_processes(groups, now_ns) or _first(unlike(members) for members in compared)
    )
    found = found or unlike_messages(compared) or messages_to_itself(compared)
    found = found or _first(of_unended_group(members, now_ns) for members in compared)
    found = found or _first(of_open_group(members, now_ns) for members in compared)
    found = found or departed(processes, groups, now_ns) or in_error(every)
    if found:
        return found
    if new and sum(process.making is not None for process in processes) > _inside(groups):
        return new
    behind = {key: behind_of(members) for key, members in groups.items()}
    return (
        passed_messages(groups)
        or _crossed(groups, behind, now_ns)
        or blocked(every, now_ns)
        or _late(groups, behind, now_ns)
        or unanswered(groups, now_ns)
        or left_out_before_messages(groups, behind, now_ns)
        or circle(groups, behind)
        or uneven_messages(groups)
        or unmatched(groups, now_ns)
        or new
        or _of_all(groups, now_ns, where)
    )


def after_the_end(processes: Sequence[Process], ended_ns: Mapping[Hashable, int] = _UNKNOWN) -> Verdict | None:
    """Why a job that failed did, as far as its calls tell, and by whose end came first; else None."""
    groups = by_communicator(processes)
    found = _first(unlike(members) for members in groups.values()) or unlike_messages(groups.values())
    found = found or messages_to_itself(groups.values()) or unlike_sizes(processes) or twice_the_same(processes)
    found = found or within_open_group(processes) or left_early(processes) or aborted_first(processes)
    if found:
        return found
    failed = {each.key for each in processes if has_failed(each) or each.refused}
    behind = {key: _ended_first_of(behind_of(members), ended_ns) for key, members in groups.items()}
    # Who was late here as NCCL failed in another of its communicators is not the root.
    for key, late in sorted(behind.items(), key=lambda each: any(one.process.key in failed for one in each[1])):
        members = groups[key]
        # Who is late and runs may come yet: it is the launcher that failed.
        if late and len(members) > 1 and not _all_go_on(members):
            first = newest(members)
            who = ", ".join(f"{member}{_end_of(member)}" for member in late[:8])
            who += "," * bool(_end_of(late[:8][-1]))
            text = (
                f"{who} called #{late[0].row.collectives:,} of {name_of(members)} as the last one, {late[0].row.last}; "
                f"rank {first.row.rank} went on to #{first.row.collectives:,}, {first.row.last}."
            )
            return Verdict("ended", tuple(member.row.rank for member in late), sentence(text), accused(late))
    found = _first(
        refused(members)
        or left(members, ended_ns)
        or died(members, processes, ended_ns)
        or ended_first(members, processes, ended_ns)
        for members in groups.values()
    )
    with_over = {key: with_departed(processes, members) for key, members in groups.items()}
    found = found or _first(died(members, processes, ended_ns) for members in with_over.values())
    return found or uneven_messages(with_over, have_failed=True)


def _ended_first_of(late: Sequence[Member], ended_ns: Mapping[Hashable, int]) -> Sequence[Member]:
    """Of ranks of which NCCL gave an error to some, those that got none: the others failed by their end.

    Of ranks that have all ended without a word the first one: a launcher that lost it ended the others.
    """
    late = [each for each in late if not has_error(each.process)] or late
    if any(member.process.state != GONE for member in late):
        return late
    first, _ = first_of(late, ended_ns)
    return [first] if first else late


def _all_go_on(members: Sequence[Member]) -> bool:
    return all(
        member.process.state == RUNNING and member.process.is_here and not member.row.last_error for member in members
    )


def _end_of(member: Member) -> str:
    if member.row.last_error or member.process.state not in {GONE, EXITED}:
        return ""
    return ", which has exited" if member.process.state == EXITED else ", which has ended without a word"


def _first(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    return next((verdict for verdict in verdicts if verdict), None)


def _of_processes(groups: Mapping[int, Sequence[Member]], now_ns: int) -> Verdict | None:
    """A process that is gone or stopped holds up whatever it takes part in.

    Of several the one to which NCCL gave no error, and that is furthest behind: the others went because of it.
    """
    found = [
        (member.row.last_error != 0, member.row.collectives - newest(members).row.collectives, key, member.row.rank)
        for key, members in groups.items()
        for member in members
        if member.process.state != RUNNING and is_waited_for(member, members)
    ]
    if not found:
        return None
    *_, key, rank = min(found)
    return _not_running(next(member for member in groups[key] if member.row.rank == rank), groups[key], now_ns)


def _late(
    groups: Mapping[int, Sequence[Member]], behind: Mapping[int, Sequence[Member]], now_ns: int
) -> Verdict | None:
    """Where the late rank itself waits on another communicator, that one is nearer to the root.

    So is the one for which the fewest are late: on the others those are late too that wait for it there.
    """
    for key, late in sorted(behind.items(), key=lambda item: len(item[1])):
        for member in late:
            if not member.inside and not elsewhere(groups, member):
                return _did_not_call(member, groups, key, late, now_ns)
    return None


def _of_all(groups: Mapping[int, Sequence[Member]], now_ns: int, where: str) -> Verdict:
    for members in groups.values():
        if len(members) < members[0].row.ranks:
            return _unseen(members, now_ns, where)
    return all_called(groups, now_ns)


def _inside(groups: Mapping[int, Sequence[Member]]) -> int:
    """How many processes wait in a call."""
    return len({member.process.key for members in groups.values() for member in members if member.inside})


def _holds(members: Sequence[Member]) -> bool:
    if any(member.inside for member in members) or len({member.row.collectives for member in members}) > 1:
        return True
    # Calls of NCCL come back before they have run: what a killed or stopped process called need not have ended.
    states = {member.process.state for member in members if member.process.gpus}
    return RUNNING in states and bool(states & {GONE, STOPPED, TRACED})


def _may_hold(members: Sequence[Member]) -> bool:
    return len(members) > 1 and all(member.process.gpus and member.row.collectives for member in members)


def _has_messages(members: Sequence[Member]) -> bool:
    return len(members) > 1 and all(
        member.process.gpus and member.row.entered > member.row.collectives for member in members
    )


def _messages_on_the_gpu(groups: Mapping[int, Sequence[Member]]) -> Verdict | None:
    """Over NCCL messages come back at once, and who waits for another is not known but by their numbers."""
    return unlike_messages(groups.values()) or messages_to_itself(groups.values()) or uneven_messages(groups)


def _on_the_gpu(groups: Sequence[Sequence[Member]], now_ns: int, *, is_long: bool) -> Verdict | None:
    """All ranks have called the same number of calls, which have come back; whether they have run is not known."""
    found = _first(unlike(members) for members in groups) or _first(of_open_group(each, now_ns) for each in groups)
    every = {members[0].row.identity: members for members in groups}
    found = found or in_error(every) or blocked(every, now_ns)
    if found or not groups or have_ended(every):
        return found
    last = max(groups, key=lambda members: max(member.row.entered_ns for member in members))
    return not_known_to_end(last, now_ns, is_long=is_long)


def _not_running(member: Member, members: Sequence[Member], now_ns: int) -> Verdict:
    state = member.process.state
    waiting = [str(other.row.rank) for other in members if other is not member and other.process.state == RUNNING]
    how = {GONE: "has ended without a word", EXITED: "has exited"}.get(state, f"is {state}")
    then = f"; rank {', '.join(waiting)} of {name_of(members)} waits" if waiting else ""
    return Verdict(
        state,
        (member.row.rank,),
        f"{member}: the process {how}{then}. {sentence(last_of(member, now_ns))}.",
        accused([member]),
    )


def _crossed(
    groups: Mapping[int, Sequence[Member]], behind: Mapping[int, Sequence[Member]], now_ns: int
) -> Verdict | None:
    """Two processes, each inside a call on the communicator for which the other one is late.

    Of those that may have left a call out it is the one that did what it never did before, where most ranks that wait
    did not. Else it is the fewer ones, and of as many such a one.
    """
    found = sorted(_crossings(groups, behind, now_ns), key=lambda each: each[2])
    new = [verdict for member, verdict, _ in found if member.process.is_new_turn]
    waiting = {m.process.key: m.process.is_new_turn for members in groups.values() for m in members if m.waiting}
    if new and 2 * sum(waiting.values()) < len(waiting):
        return new[0]
    fewest = [(member, verdict) for member, verdict, late in found if late == found[0][2]]
    return next((verdict for member, verdict in fewest if member.process.is_new_turn), found[0][1] if found else None)


def _crossings(
    groups: Mapping[int, Sequence[Member]], behind: Mapping[int, Sequence[Member]], now_ns: int
) -> Iterator[tuple[Member, Verdict, tuple[int, bool]]]:
    """Who may have left a call out, what that is, how many are late for it, and whether it waits for none of those."""
    for key, late in sorted(behind.items(), key=lambda item: len(item[1])):
        for member in late:
            for other_key, other_late in behind.items():
                mine = _waits_on(groups, member, other_key)
                theirs = [m for m in groups[key] if m.waiting and any(m.process is o.process for o in other_late)]
                if other_key == key or mine is None or not theirs:
                    continue
                wanted = member.row.collectives + 1
                text = (
                    f"{member} has left out #{wanted:,} of {name_of(groups[key])}, or calls in another order than the "
                    f"others. It waits in #{mine.row.collectives:,} of {name_of(groups[other_key])}, {mine.row.last}, "
                    f"while rank {ranks_of(theirs)} waits in #{wanted:,} of the former, "
                    f"{theirs[0].row.last}. {sentence(last_of(member, now_ns))}."
                )
                # The others that are late wait for this one somewhere else.
                alike = [each for each in late if each is member or _waits_on(groups, each, other_key)]
                verdict = Verdict("order", tuple(m.row.rank for m in alike), text, accused(alike))
                yield member, verdict, (len(late), _waits_for_another(mine, groups[other_key], theirs))


def _waits_for_another(member: Member, members: Sequence[Member], waiting: Sequence[Member]) -> bool:
    """Whether it is in a message with a rank that is none of those that wait: then these are not its reason."""
    peer = next((each for each in members if each.row.rank == member.row.last.root), None)
    if member.row.last.kind not in PAIRS or peer is None:
        return False
    return not any(each.process is peer.process for each in waiting)


def _waits_on(groups: Mapping[int, Sequence[Member]], member: Member, key: int) -> Member | None:
    """This rank in a call of another communicator."""
    return next((each for each in elsewhere(groups, member, newest_too=True) if each.row.identity == key), None)


def _did_not_call(
    member: Member, groups: Mapping[int, Sequence[Member]], key: int, late: Sequence[Member], now_ns: int
) -> Verdict:
    members = groups[key]
    first = newest(members)
    also = [str(other.row.rank) for other in late if other is not member]
    more = f" (nor did rank {', '.join(also)})" if also else ""
    wanted = member.row.collectives + 1
    shape = f", {first.row.last}" if first.row.collectives == wanted else ""
    text = (
        f"{member} did not call #{wanted:,}{shape}, of {name_of(members)}{more}; "
        f"rank {first.row.rank} called #{first.row.collectives:,} {ago(now_ns, first.row.entered_ns)}. "
        f"{sentence(last_of(member, now_ns))}.{_gpu_of(member)}{_use(member, groups)}"
    )
    return Verdict("missing", tuple(other.row.rank for other in late), text, accused(late))


def _gpu_of(member: Member) -> str:
    pulse = pulse_of(member)
    return f" Its GPU has not begun #{pulse.not_begun:,} there." if pulse and pulse.not_begun else ""


def _use(member: Member, groups: Mapping[int, Sequence[Member]]) -> str:
    busy, making = member.process.busy, member.process.making
    if making:
        every = {each.process.key: each.process for members in groups.values() for each in members}
        missing = who_has_not_come(list(every.values()), making)
        return f" It is in the making of another communicator ({making.how}){missing}."
    return "" if busy is None else f" Since then it has used {100 * busy:.0f} % of a processor."


def _unseen(members: Sequence[Member], now_ns: int, where: str) -> Verdict:
    there = {member.row.rank for member in members}
    missing = [rank for rank in range(min(members[0].row.ranks, 1 << 20)) if rank not in there]
    shown = ", ".join(map(str, missing[:8])) + (" and more" if len(missing) > 8 else "")
    first = newest(members)
    text = (
        f"All ranks seen here called #{first.row.collectives:,} of {name_of(members)}, the last one "
        f"{ago(now_ns, first.row.entered_ns)}; rank {shown} was not seen {where}."
    )
    return Verdict("unseen", tuple(missing[:1024]), text)
