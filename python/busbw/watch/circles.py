"""Waits without one root: ranks that wait for each other in a circle, and messages that have no other half."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.watch.members import PAIRS, SHOWN, Member, Verdict, accused, ago, elsewhere, name_of, ranks_of, sentence


def circle(groups: Mapping[int, Sequence[Member]], behind: Mapping[int, Sequence[Member]]) -> Verdict | None:
    """Each is late for one communicator because it waits in another, for which the next one is late."""
    for late in behind.values():
        for start in late:
            path: list[Member] = []
            member: Member | None = start
            while member is not None and not any(member.process is each.process for each in path):
                path.append(member)
                member = _next(groups, behind, member)
            if member is None:
                continue
            first = next(at for at, each in enumerate(path) if each.process is member.process)
            around = path[first:]
            if len(around) > 1:
                return _told(groups, around)
    return None


def _waits_in(groups: Mapping[int, Sequence[Member]], member: Member) -> Member | None:
    if member.inside:
        return member
    return next(iter(elsewhere(groups, member)), None)


def _next(
    groups: Mapping[int, Sequence[Member]], behind: Mapping[int, Sequence[Member]], member: Member
) -> Member | None:
    """For whom it waits, in the call that it is in."""
    there = _waits_in(groups, member)
    if there is None or there.row.last.kind in PAIRS:
        return None
    late = [each for each in behind.get(there.row.identity, ()) if each.process is not member.process]
    return next((each for each in late if _waits_in(groups, each)), None)


def _told(groups: Mapping[int, Sequence[Member]], around: Sequence[Member]) -> Verdict:
    parts = []
    for member, then in zip(around, [*around[1:], around[0]], strict=True):
        there = _waits_in(groups, member)
        assert there is not None
        parts.append(f"{member} waits in #{there.row.collectives:,} of {name_of(groups[there.row.identity])}, "
                     f"{there.row.last}, for pid {then.process.pid}")  # fmt: skip
    more = f", and {len(parts) - SHOWN} further ones" if len(parts) > SHOWN else ""
    text = f"Ranks wait for each other in a circle: {'; '.join(parts[:SHOWN])}{more}. They call in different orders."
    return Verdict("circle", tuple(member.row.rank for member in around), text, accused(around))


def unmatched(groups: Mapping[int, Sequence[Member]], now_ns: int) -> Verdict | None:
    """Ranks that wait in messages while their peers wait in something else, so that nobody answers."""
    for members in groups.values():
        waiting = [each for each in members if each.inside and each.row.last.kind in PAIRS]
        if found := _of_exchange(groups, members, waiting, now_ns):
            return found
        pairs = [(each, next((m for m in members if m.row.rank == each.row.last.root), None)) for each in waiting]
        lonely = [(each, peer) for each, peer in pairs if peer is not None and not _answers(peer, each)]
        if not lonely:
            continue
        # Whose peer is in a collective is nearest to the root.
        lonely.sort(key=lambda pair: pair[1] is not None and pair[1].inside and pair[1].row.last.kind in PAIRS)
        parts = [f"{each} waits in {each.row.last} {ago(now_ns, each.row.entered_ns)}, but {_doing(groups, peer)}"
                 for each, peer in lonely[:SHOWN] if peer]  # fmt: skip
        text = (
            f"{sentence('; '.join(parts))}, of {name_of(members)}: a send or receive is missing, comes later, or "
            "names another peer."
        )
        known = [member for pair in lonely for member in pair if member is not None]
        ranks = tuple(sorted({member.row.rank for member in known}))
        return Verdict("message", ranks, text, accused(known))
    return None


def _of_exchange(
    groups: Mapping[int, Sequence[Member]], members: Sequence[Member], waiting: Sequence[Member], now_ns: int
) -> Verdict | None:
    """Ranks in groups of several messages, as of tokens for experts: which one they wait for is not known, but who is
    in no message."""
    if not waiting or any(each.process.grouped.get(each.row.place, 0) < 2 for each in waiting):
        return None
    out = [each for each in members if all(each is not other for other in waiting)]
    if not out:
        return None
    several = f"{'groups' if len(waiting) > 1 else 'a group'} of messages of {name_of(members)}"
    if len(out) < len(waiting):
        ranks = ranks_of(waiting)
        doing = "; ".join(_doing(groups, each) for each in out[:SHOWN])
        text = (
            f"Rank {ranks} wait{'s' * (len(waiting) == 1)} in {several}, {ago(now_ns, waiting[0].row.entered_ns)}, but "
            f"{doing}."
        )
        return Verdict("message", tuple(each.row.rank for each in out), text, accused(out))
    who = ", ".join(map(str, waiting[:SHOWN]))
    text = (
        f"{sentence(who)} wait{'s' * (len(waiting) == 1)} in {several}, {ago(now_ns, waiting[0].row.entered_ns)}, and "
        "the other ranks are out of theirs: one of its messages has no other half, or another count."
    )
    return Verdict("message", tuple(each.row.rank for each in waiting), text, accused(waiting))


def _answers(peer: Member, member: Member) -> bool:
    last = peer.row.last
    other = "recv" if member.row.last.kind == "send" else "send"
    return peer.inside and last.kind == other and last.root == member.row.rank


def _doing(groups: Mapping[int, Sequence[Member]], peer: Member) -> str:
    there = _waits_in(groups, peer)
    if there is None:
        return f"{peer} is in no call"
    number = "" if there.row.last.kind in PAIRS else f"#{there.row.collectives:,}, "
    return f"{peer} waits in {number}{there.row.last}"
