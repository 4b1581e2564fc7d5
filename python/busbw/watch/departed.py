"""Ranks that have left: they ended their part of a communicator themselves, while the others go on with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.watch.members import SHOWN, Member, Verdict, accused, ago, is_waited_for, name_of, newest, ranks_of, sentence
from busbw.watch.processes import EXITED, GONE, RUNNING, Process
from busbw.watch.recording import Communicator

_LARGE = 4


def departed(processes: Sequence[Process], groups: Mapping[int, Sequence[Member]], now_ns: int) -> Verdict | None:
    """Of a communicator in which ranks wait, those that have ended their part of it."""
    for key, members in groups.items():
        gone = [each for each in _gone(processes, key) if is_waited_for(each, members)]
        if gone and any(member.inside for member in members):
            first = newest(members)
            if more := _called_more(members, gone):
                return more
            waiting = ranks_of(members)
            text = (
                f"{_who(gone, now_ns)}, of {name_of(members)}, while rank {waiting} waits in "
                f"#{first.row.collectives:,}, {first.row.last}, {ago(now_ns, first.row.entered_ns)}."
            )
            return Verdict("departed", tuple(m.row.rank for m in gone), sentence(text), accused(gone))
    return None


def departed_early(processes: Sequence[Process], groups: Mapping[int, Sequence[Member]], now_ns: int) -> Verdict | None:
    """Over NCCL, where calls come back at once: ranks that ended their part after fewer calls than the others made."""
    for key, members in groups.items():
        first = newest(members)
        early = [each for each in _gone(processes, key) if each.row.collectives < first.row.collectives]
        if first.process.gpus and early:
            ahead = [each for each in members if each.row.collectives == first.row.collectives]
            waiting = ranks_of(ahead)
            text = (
                f"{_who(early, now_ns)}, of {name_of(members)}, while rank {waiting} called "
                f"#{first.row.collectives:,}, {first.row.last}, {ago(now_ns, first.row.entered_ns)}."
            )
            return Verdict("departed", tuple(m.row.rank for m in early), sentence(text), accused(early))
    return None


def with_departed(processes: Sequence[Process], members: Sequence[Member]) -> list[Member]:
    """The members, and those that have ended their part and whose newest calls nothing else has taken the place of."""
    gone = [
        each for each in _gone(processes, members[0].row.identity)
        if all(each.row.place != row.place for row in each.process.communicators)
    ]  # fmt: skip
    return [*members, *gone]


def survivors(processes: Sequence[Process], now_ns: int) -> Verdict | None:
    """A job that does not end: some ranks have, after an error of NCCL, and others go on without a communicator."""
    for process in processes:
        for row in process.over:
            # What is over on its last rank too is over.
            others = [
                Member(each, theirs) for each in processes if each is not process
                for theirs in each.communicators if theirs.identity == row.identity
            ]  # fmt: skip
            ended = [each for each in others if each.process.state in {EXITED, GONE}]
            failed = [each for each in ended if has_failed(each.process)]
            gone = [each for each in _gone(processes, row.identity) if each.process.state == RUNNING]
            waits = any(each.entered > each.returned for each in process.communicators)
            if failed and len(ended) == len(others) and gone and not waits:
                ranks = ranks_of(failed)
                have = "has" if len(failed) == 1 else "have"
                when = "in" if newest(failed).row.last_error else "after"
                text = (
                    f"{_who(gone, now_ns)}, of {name_of(others)}, and goes on; rank {ranks} of it got an error of NCCL "
                    f"{when} #{newest(failed).row.collectives:,}, {newest(failed).row.last}, and {have} exited."
                )
                return Verdict("departed", tuple(m.row.rank for m in gone), sentence(text), accused(gone))
    return None


def aborted_first(processes: Sequence[Process]) -> Verdict | None:
    """Of a job that failed: fewer than half of the ranks have aborted a communicator, and NCCL gave only others errors.

    Those may have got theirs in calls of other communicators, at different numbers.
    """
    for identity in dict.fromkeys(row.identity for process in processes for row in process.over):
        gone = _gone(processes, identity)
        others = [Member(each, row) for each in processes for row in each.communicators if row.identity == identity]
        first = [each for each in gone if each.row.ended == "aborted" and not has_error(each.process)]
        rest = [each for each in (*gone, *others) if all(each is not one for one in first)]
        failed = [each for each in rest if has_error(each.process)]
        if first and len(first) < len(rest) and failed and len(failed) == len(rest):
            who = "; ".join(f"{member} aborted its communicator after #{member.row.collectives:,}, {member.row.last}"
                            for member in first[:SHOWN])  # fmt: skip
            text = f"{who}, of {name_of(rest)}, without an error of NCCL; rank {ranks_of(failed)} then got one."
            return Verdict("departed", tuple(m.row.rank for m in first), sentence(text), accused(first))
    return None


def within_open_group(processes: Sequence[Process]) -> Verdict | None:
    """Of a job that failed: a rank that ended in order within a group that it had never ended, and nobody else did."""
    found = [
        (process, row) for process in processes for row in (*process.communicators, *process.over)
        if process.state == EXITED and not row.last_error and row.entered > row.returned and not row.in_group_end
        and process.grouped.get(row.place, 0)
    ]  # fmt: skip
    who = {process.key: Member(process, row) for process, row in reversed(found)}
    failed = [process for process in processes if process.key not in who and has_error(process)]
    if not who or 2 * len(who) > len(processes) or not failed:
        return None
    members = list(who.values())
    text = "; ".join(
        f"{each} exited within a group of calls that it had not ended: {each.row.entered - each.row.returned:,} calls "
        f"of {name_of([each])} never began, the last one {each.row.last}" for each in members[:SHOWN]
    )  # fmt: skip
    text = f"{text}. Its ncclGroupEnd is missing; others got an error of NCCL."
    return Verdict("group", tuple(each.row.rank for each in members), sentence(text), accused(members))


def has_error(process: Process) -> bool:
    """Whether NCCL gave it one, in a call or in the making of a communicator."""
    return process.refused is not None or any(row.last_error for row in (*process.communicators, *process.over))


def left_early(processes: Sequence[Process]) -> Verdict | None:
    """Of a job that failed: ranks that ended a communicator without an error, and before the others' last calls.

    The others may have got their errors in calls of other communicators.
    """
    for identity in dict.fromkeys(row.identity for process in processes for row in process.over):
        gone = _gone(processes, identity)
        others = [Member(each, row) for each in processes for row in each.communicators if row.identity == identity]
        failed = [each for each in others if has_error(each.process)]
        if not failed or len(failed) < len(others):
            continue
        if all(each.row.last_error for each in failed) and (more := _called_more(failed, gone)):
            return more
        most = max(each.row.collectives for each in failed)
        early = [each for each in gone if not each.row.last_error and each.row.collectives < most]
        if early and 2 * len(early) <= len(gone) + len(others):
            who = "; ".join(f"{member} {member.row.ended} it after #{member.row.collectives:,}, {member.row.last}"
                            for member in early[:SHOWN])  # fmt: skip
            ahead = [each for each in failed if each.row.collectives == most]
            got = "got an error of NCCL" if len(ahead) == len(failed) else f"{len(failed)} ranks got an error of NCCL"
            text = f"Of {name_of(others)} {who}, while rank {ranks_of(ahead)} went on to #{most:,} and {got}."
            return Verdict("departed", tuple(m.row.rank for m in early), text, accused(early))
    return None


def _called_more(members: Sequence[Member], gone: Sequence[Member]) -> Verdict | None:
    """Fewer ranks than have destroyed their part after one and the same call went on from there."""
    ends = {(each.row.ended, each.row.collectives, each.row.last_error) for each in gone}
    last = gone[0].row if gone else None
    if len(ends) != 1 or last is None or last.ended != "destroyed" or last.last_error or len(members) >= len(gone):
        return None
    if any(each.row.collectives <= last.collectives for each in members):
        return None
    who = "; ".join(f"{each} called #{each.row.collectives:,}, {each.row.last}" for each in members[:SHOWN])
    text = (
        f"{who}, of {name_of(members)}, which {len(gone)} other ranks have destroyed after #{last.collectives:,}, "
        f"{last.last}."
    )
    return Verdict("more", tuple(each.row.rank for each in members), sentence(text), accused(members))


def has_failed(process: Process) -> bool:
    """Whether NCCL gave it an error before it was through.

    A thread that goes on calling gets one when the first ranks exit: a process that has ended communicators with more
    calls in order was through. Those that were made for few calls are not what the job was about.
    """
    rows = (*process.communicators, *process.over)
    most = max((row.collectives for row in rows if row.last_error), default=-1)
    in_order = sum(
        row.collectives for row in process.over
        if row.ended == "destroyed" and not row.last_error and _LARGE * row.collectives >= most
    )  # fmt: skip
    return 0 <= most >= in_order


def _gone(processes: Sequence[Process], identity: int) -> list[Member]:
    return [Member(process, row) for process in processes for row in process.over if row.identity == identity]


def _who(gone: Sequence[Member], now_ns: int) -> str:
    return "; ".join(f"{member} has {_how(member.row)} after #{member.row.collectives:,}, {member.row.last}, "
                     f"{ago(now_ns, member.row.entered_ns)}" for member in gone[:SHOWN])  # fmt: skip


def _how(row: Communicator) -> str:
    return f"{row.ended} its communicator"
