"""A job whose ranks have all called: messages that nobody answers, groups that differ, a rank that computes, a link."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from busbw.watch.members import PAIRS, Member, Verdict, accused, ago, elsewhere, last_of, name_of, ranks_of, sentence
from busbw.watch.on_gpu import are_within, known_of
from busbw.watch.processes import RUNNING

_COMPUTES, _TIMES_MORE = 0.03, 4.0
"""A process computes that uses so much of a processor, and so many times what each waiting one uses: those look for
data now and then, and on a machine with much other load nobody gets a processor alone."""
_A_LITTLE, _TURN_S, _TURNS_MORE = 0.002, 1e-3, 20.0
"""Or that uses a little and so much until it gives the processor up by itself, and so many times what the waiting ones
use until then. That holds under any load: who is interrupted does not give up. Measured: 2 s against 6 us."""


def unanswered(groups: Mapping[int, Sequence[Member]], now_ns: int) -> Verdict | None:
    """A rank that waits in a message for one that has called nothing, or each of two for the other."""
    for members in groups.values():
        for member in members:
            if not member.inside or member.row.last.kind not in PAIRS or member.row.last.root is None:
                continue
            peer = next((each for each in members if each.row.rank == member.row.last.root), None)
            # Of a group of messages the newest need not be the one that is waited for.
            if peer is None or peer is member or member.process.grouped.get(member.row.place, 0) > 1:
                continue
            mine = f"{member} waits in {member.row.last} {ago(now_ns, member.row.entered_ns)}"
            if not peer.inside and not elsewhere(groups, peer):
                text = (
                    f"{sentence(mine)}, of {name_of(members)}, but {peer} is in no call. For it, "
                    f"{last_of(peer, now_ns)}."
                )
                return Verdict("message", (peer.row.rank,), text, accused([peer]))
            theirs = next((each for each in members if each is peer and each.inside), None)
            if theirs and theirs.row.last.kind == member.row.last.kind and theirs.row.last.root == member.row.rank:
                other = "receives" if member.row.last.kind == "send" else "sends"
                text = (
                    f"{sentence(mine)}, and {peer} in {peer.row.last}, of {name_of(members)}: "
                    f"both {member.row.last.kind}, and neither {other}."
                )
                ranks = tuple(sorted((member.row.rank, peer.row.rank)))
                return Verdict("message", ranks, text, accused([member, peer]))
    return None


def all_called(groups: Mapping[int, Sequence[Member]], now_ns: int) -> Verdict:
    """The call has not come back on ranks that all made it."""
    members = next((each for each in groups.values() if any(member.inside for member in each)), None)
    members = members or next(iter(groups.values()))
    first = next((member for member in members if member.inside), members[0])
    number = min(member.row.collectives for member in members)
    text = f"All ranks called #{number:,} of {name_of(members)}, {first.row.last}, {ago(now_ns, first.row.entered_ns)}"
    still = f"{text}, and it has not come back: what moves the data stands still."
    if any(member.row.collectives != number for member in members):
        still = (
            f"{sentence(str(first))} waits in #{first.row.collectives:,} of {name_of(members)}, {first.row.last}, "
            f"{ago(now_ns, first.row.entered_ns)}; which rank holds it up could not be told."
        )
    return (
        _of_groups(members, text)
        or _of_one_that_computes(members, text)
        or _of_links(members, text)
        or Verdict("stuck", (), still, accused(members))
    )


def not_known_to_end(members: Sequence[Member], now_ns: int, *, is_long: bool) -> Verdict | None:
    """Over NCCL all ranks called and came back, and nobody has called since: a link, or what is known, if `is_long`."""
    first = members[0]
    text = f"All ranks called #{first.row.collectives:,} of {name_of(members)}, {first.row.last}"
    text += f", {ago(now_ns, max(member.row.entered_ns for member in members))}"
    if found := _of_links(members, text, "and none has called anything since"):
        return found
    if any(member.process.state != RUNNING for member in members):
        return None
    if are_within(members):
        return Verdict(
            "stuck", (),
            f"{text}. All GPUs have begun it, and none has come to its end: what moves the data stands still, or its "
            "kernel finds no room beside another one.", accused(members),
        )  # fmt: skip
    if not is_long:
        return None
    return Verdict(
        "quiet", (),
        f"{text}, and none has called anything since. It does not end on the GPUs, what was queued before it does "
        f"not, or the job does something else for so long.{known_of(members)} The stacks and the GPUs tell which.",
        accused(members),
    )  # fmt: skip


def of_unended_group(members: Sequence[Member], now_ns: int) -> Verdict | None:
    """Ranks whose newest call lies in a group that they have not come to end, while others are in ncclGroupEnd."""
    waiting = [member for member in members if member.inside and member.process.grouped.get(member.row.place, 0)]
    ending = [member for member in waiting if member.row.in_group_end]
    still = [member for member in waiting if not member.row.in_group_end]
    if not ending or not still:
        return None
    who = ", ".join(map(str, still[:8]))
    ranks = ranks_of(ending)
    first = ending[0]
    text = (
        f"{sentence(who)} called #{still[0].row.collectives:,} of {name_of(members)}, {still[0].row.last}, in a group "
        f"that it has not ended, {ago(now_ns, still[0].row.entered_ns)}; rank {ranks} waits in ncclGroupEnd for "
        f"#{first.row.collectives:,}. An ncclGroupEnd is missing or has not come yet."
    )
    return Verdict("groups", tuple(member.row.rank for member in still), text, accused(still))


def of_open_group(members: Sequence[Member], now_ns: int) -> Verdict | None:
    """Over NCCL a call in a group comes back at once, and is made when the group ends: the rank goes on without it.

    It may have called more on other communicators since, for which the ranks that wait here then seem to be late.
    """
    if not all(member.process.gpus for member in members) or len({each.row.collectives for each in members}) > 1:
        return None
    kinds = {member.row.last.kind for member in members}
    outside = [member for member in members if not member.process.grouped.get(member.row.place, 0)]
    if (
        len(kinds) > 1
        or kinds & PAIRS
        or not outside
        or 2 * len(outside) < len(members)
        or len(outside) == len(members)
    ):
        return None
    first = outside[0]
    text = f"All ranks called #{first.row.collectives:,} of {name_of(members)}, {first.row.last}"
    return _of_groups(members, f"{text}, {ago(now_ns, first.row.entered_ns)}", members)


def _of_groups(members: Sequence[Member], text: str, among: Sequence[Member] = ()) -> Verdict | None:
    """The newest call lies in groups of different lengths, as where one rank's ncclGroupEnd is missing."""
    inside = among or [member for member in members if member.inside]
    lengths = {id(member): member.process.grouped.get(member.row.place, 0) for member in inside}
    counts = Counter(lengths.values())
    if len(counts) < 2:
        return None
    usual = 0 if among else counts.most_common(1)[0][0]
    others = [member for member in inside if lengths[id(member)] != usual]

    def of(length: int) -> str:
        return f"in a group of {length} call{'s' * (length != 1)}" if length else "outside of a group"

    who = ", ".join(f"{member} {of(lengths[id(member)])}" for member in others[:8])
    return Verdict(
        "groups", tuple(member.row.rank for member in others),
        f"{text}, but {who}, and {counts[usual]} rank{'s' * (counts[usual] != 1)} {of(usual)}: an ncclGroupEnd is "
        "missing, or the groups of the ranks differ.",
        accused(others),
    )  # fmt: skip


def _of_one_that_computes(members: Sequence[Member], text: str) -> Verdict | None:
    """Fewer than half of the processes compute, and all others are known to wait."""
    if busy := _of_long_turns(members):
        return _computing(busy, text)
    known = [(member, member.process.busy) for member in members if member.process.busy is not None]
    # The median's: ranks that wait are alike.
    usual = sorted(share for _, share in known)[len(known) // 2] if known else 0.0
    busy = [(member, share) for member, share in known if share >= max(_COMPUTES, _TIMES_MORE * usual)]
    rest = [share for member, share in known if not any(member is each for each, _ in busy)]
    if not busy or len(known) < len(members) or 2 * len(busy) >= len(members):
        return None
    if _TIMES_MORE * max(rest) > min(share for _, share in busy):
        return None
    return _computing(busy, text)


def _of_long_turns(members: Sequence[Member]) -> list[tuple[Member, float]]:
    """Fewer than half that never give the processor up, while all others do again and again; else none."""
    known = [(member, member.process.busy, member.process.turn_s) for member in members]
    busy = [
        (member, share)
        for member, share, turn_s in known
        if share is not None and turn_s is not None and share >= _A_LITTLE and turn_s >= _TURN_S
    ]
    rest = [turn_s for member, _, turn_s in known if not any(member is each for each, _ in busy)]
    if not 0 < len(busy) <= _most_of(members):
        return []
    shortest = min(turn_s for member, _, turn_s in known if turn_s is not None and any(member is m for m, _ in busy))
    return busy if all(turn_s is not None and _TURNS_MORE * turn_s <= shortest for turn_s in rest) else []


def _most_of(members: Sequence[Member]) -> int:
    """How many may be the cause: fewer than half, or one of two where calls wait in host memory.

    There a rank that just waits gives the processor up again and again and reads from no connection, which two ranks
    of NCCL may both do.
    """
    if len(members) == 2 and not any(member.process.gpus for member in members):
        return 1
    return (len(members) - 1) // 2


def _computing(busy: Sequence[tuple[Member, float]], text: str) -> Verdict:
    who = ", ".join(f"{member} computes ({100 * share:.0f} % of a processor)" for member, share in busy[:8])
    return Verdict(
        "busy", tuple(member.row.rank for member, _ in busy),
        f"{text}, and it has not come back: in it {who}, while the other ranks wait.", accused([m for m, _ in busy]),
    )  # fmt: skip


def _of_links(members: Sequence[Member], text: str, since: str = "and it has not come back") -> Verdict | None:
    """Connections with data that were not acknowledged; else those that few of the ranks wait for."""
    sent = [member for member in members if any(link.queued or link.again for link in member.process.links)]
    found = sent or [member for member in members if member.process.links]
    if not found or (not sent and len(found) > _most_of(members)):
        return None
    who = "; ".join(f"{member}: {member.process.links[0]}" for member in found[:8])
    return Verdict(
        "link", tuple(member.row.rank for member in found),
        f"{text}, {since}. Connections stand still: {who}.", accused(found),
    )  # fmt: skip
