"""Messages between ranks that do not match: another size, or more on one side than on the other."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from busbw.watch.members import (  # fmt: skip
    PAIRS,
    Member,
    Verdict,
    accused,
    elsewhere,
    last_of,
    name_of,
    ranks_of,
    sentence,
)
from busbw.watch.messages import Called, has_passed, side_by_side
from busbw.watch.recording import Shape

_SHOWN = 8
_KNOWN, _SINCE = 4, 4
"""So many messages before have to be alike, where not all of them are known, and no more may have come since."""


@dataclass(frozen=True)
class _Pair:
    """What one rank sent to another, and what that received."""

    sender: Member
    receiver: Member
    sent: tuple[Called, ...]
    received: tuple[Called, ...]
    is_whole: bool

    @property
    def unlike_at(self) -> int | None:
        """The first message whose size differs."""
        both = zip(self.sent, self.received, strict=False)
        found = next((at for at, (out, into) in enumerate(both) if out[1].bytes(1) != into[1].bytes(1)), None)
        if found is None or self.is_whole:
            return found
        # Laid side by side by a collective they may be shifted: then the first ones differ.
        return found if found >= max(_KNOWN, len(self.sent) - _SINCE, len(self.received) - _SINCE) else None

    @property
    def lacks(self) -> Member:
        """Who has called less."""
        return self.sender if len(self.sent) < len(self.received) else self.receiver

    @property
    def is_passed(self) -> bool | None:
        """Whether who has called less has gone on past it; None where that is not known."""
        called = self.sent if self.lacks is self.sender else self.received
        return has_passed(called, self.lacks.process.messages.newest)


def unlike_messages(groups: Iterable[Sequence[Member]]) -> Verdict | None:
    """A message of which one rank sends more than the other receives, or less."""
    for members in groups:
        found = [(pair, at) for pair in _pairs(members) if (at := pair.unlike_at) is not None]
        if not found:
            continue
        parts = []
        for pair, at in found[:_SHOWN]:
            number = f"message #{at + 1:,} between them" if pair.is_whole else "one of their newest messages"
            out, into = pair.sent[at][1], pair.received[at][1]
            takes = f"{pair.receiver}, which receives {_size(into)} ({number})"
            parts.append(f"{pair.sender} sends {_size(out)} to {takes}")
        more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        text = f"The two sides of a message of {name_of(members)} are not of one size: {'; '.join(parts)}{more}."
        both = _both([pair for pair, _ in found])
        return Verdict("message", tuple(each.row.rank for each in both), text, accused(both))
    return None


def messages_to_itself(groups: Iterable[Sequence[Member]]) -> Verdict | None:
    """A rank that sends to itself more than it receives from itself, or less: nobody else can mend that."""
    for members in groups:
        for pair in (pair for member in members for pair in _pairs([member])):
            if len(pair.sent) != len(pair.received):
                text = f"{pair.sender} {_amounts(pair, pair.sender)}, of {name_of(members)}."
                return Verdict("message", (pair.sender.row.rank,), sentence(text), accused([pair.sender]))
    return None


def left_out_before_messages(
    groups: Mapping[int, Sequence[Member]], behind: Mapping[int, Sequence[Member]], now_ns: int
) -> Verdict | None:
    """Fewer than half of the ranks are late for a collective, and wait in messages that the others have not come to.

    Who waits for them in the collective lacks these messages, and did nothing wrong: it would call them next.
    """
    for key, late in sorted(behind.items(), key=lambda item: len(item[1])):
        members = groups[key]
        if not late or 2 * len(late) >= len(members):
            continue
        waiting = [each for each in members if each.inside and all(each is not one for one in late)]
        blocked = {each.process.key for each in waiting}
        for member in late:
            there = next((each for each in elsewhere(groups, member) if each.row.last.kind in PAIRS), None)
            if there is None:
                continue
            if not _have_not_come(groups[there.row.identity], blocked) and not _come_next(there, groups, blocked):
                continue
            wanted = member.row.collectives + 1
            text = (
                f"{member} has left out #{wanted:,} of {name_of(members)}, or calls in another order than the others. "
                f"It waits in {there.row.last} of {name_of(groups[there.row.identity])}, while rank "
                f"{ranks_of(waiting)} waits in #{wanted:,} of the former, {waiting[0].row.last}. "
                f"{sentence(last_of(member, now_ns))}."
            )
            return Verdict("order", tuple(each.row.rank for each in late), sentence(text), accused(late))
    return None


def _come_next(there: Member, groups: Mapping[int, Sequence[Member]], blocked: Collection[Hashable]) -> bool:
    """Whether those for whose messages it waits are blocked, and have not come to where they usually call them."""
    mine = [pair for pair in _uneven(groups[there.row.identity]) if there is pair.sender or there is pair.receiver]
    lacking = [pair for pair in mine if pair.lacks is not there and _is_waited_for(pair)]
    return bool(lacking) and all(pair.lacks.process.key in blocked and pair.is_passed is False for pair in lacking)


def _have_not_come(members: Sequence[Member], blocked: Collection[Hashable]) -> bool:
    """Whether those that lack messages, some of `blocked` among them, have called none of the newest ones.

    Then no chain of messages that match leads from them to those that have called more.
    """
    pairs = list(_pairs(members))
    uneven = [pair for pair in pairs if len(pair.sent) != len(pair.received)]
    lacking = {pair.lacks.process.key for pair in uneven}
    even = [
        (pair.sender.process.key, pair.receiver.process.key) for pair in pairs if len(pair.sent) == len(pair.received)
    ]
    reached, before = set(lacking), 0
    while before < len(reached):
        before = len(reached)
        for each in even:
            if not reached.isdisjoint(each):
                reached.update(each)
    ahead = {pair.sender.process.key if pair.lacks is pair.receiver else pair.receiver.process.key for pair in uneven}
    return not lacking.isdisjoint(blocked) and reached.isdisjoint(ahead)


def uneven_messages(groups: Mapping[int, Sequence[Member]], *, have_failed: bool = False) -> Verdict | None:
    """A rank whose messages are more or fewer than its peers': it has a part in all that do not match.

    Where none has, ranks wait for each other in a chain, and others tell its root. `have_failed`: nobody waits any
    more, but some got an error of NCCL.
    """
    for members in groups.values():
        uneven = [pair for pair in _pairs(members) if len(pair.sent) != len(pair.received)]
        waiting = [pair for pair in uneven if pair.sender.process.gpus or pair.sender.inside or pair.receiver.inside]
        if have_failed:
            waiting = [pair for pair in uneven if pair.sender.row.last_error or pair.receiver.row.last_error]
        in_all = [
            each
            for each in members
            if waiting and all(each is pair.sender or each is pair.receiver for pair in waiting)
        ]
        if not in_all:
            continue
        who = next((each for each in in_all if any(each is pair.lacks for pair in waiting)), in_all[0])
        return _mismatch(who, waiting, members)
    return None


def passed_messages(groups: Mapping[int, Sequence[Member]]) -> Verdict | None:
    """A rank that has gone on past where it usually calls a message, for which another one waits.

    Who waits for the latter on other communicators waits for the message too. Fewer than half of the ranks may be so.
    """
    for members in groups.values():
        uneven = _uneven(members)
        gone = [pair.lacks for pair in uneven if _is_waited_for(pair) and pair.is_passed]
        if gone and 2 * len({id(each) for each in gone}) < len(members):
            who = max(gone, key=lambda each: sum(each is other for other in gone))
            return _mismatch(who, [pair for pair in uneven if who is pair.sender or who is pair.receiver], members)
    return None


def _uneven(members: Sequence[Member]) -> list[_Pair]:
    return [pair for pair in _pairs(members)
            if len(pair.sent) != len(pair.received) and pair.sender is not pair.receiver]  # fmt: skip


def _is_waited_for(pair: _Pair) -> bool:
    waiter = pair.receiver if pair.lacks is pair.sender else pair.sender
    return waiter.waiting and waiter.row.last.kind in PAIRS


def _mismatch(who: Member, pairs: Sequence[_Pair], members: Sequence[Member]) -> Verdict:
    amounts = "; ".join(_amounts(pair, who) for pair in pairs[:_SHOWN])
    text = f"The messages of {who} do not match those of its peers: it {amounts}, of {name_of(members)}."
    ranks = dict.fromkeys(each.row.rank for each in (who, *_both(pairs)))
    return Verdict("message", tuple(ranks), text, accused([who]))


def _pairs(members: Sequence[Member]) -> Iterator[_Pair]:
    """Of which something is known; a process that drives several ranks has its messages by place as well."""
    known = [each for each in members if each.process.messages.sent or each.process.messages.received]
    for sender in known:
        for receiver in known:
            one, other = sender.process.messages, receiver.process.messages
            sends, receives = (sender.row.place, receiver.row.rank), (receiver.row.place, sender.row.rank)
            if sends not in one.sent and receives not in other.received:
                continue
            found = side_by_side(one, other, _places(sender, receiver), sends, receives)
            if found:
                yield _Pair(sender, receiver, *found, one.is_whole and other.is_whole)


def _places(one: Member, other: Member) -> dict[int, int]:
    """Of the communicators that both processes have."""
    theirs = {row.identity: row.place for row in other.process.communicators}
    return {row.place: theirs[row.identity] for row in one.process.communicators if row.identity in theirs}


def _both(pairs: Sequence[_Pair]) -> list[Member]:
    """The ranks of these pairs, who has a part in most of them first."""
    found = [member for pair in pairs for member in (pair.sender, pair.receiver)]
    unique = {id(member): member for member in found}
    return sorted(unique.values(), key=lambda each: -sum(each is member for member in found))


def _amounts(pair: _Pair, who: Member) -> str:
    sent, received = len(pair.sent), len(pair.received)
    if pair.sender is pair.receiver:
        return f"has sent {sent:,} to itself and received {received:,} from itself"
    # Else only the difference is known.
    peer = pair.receiver if who is pair.sender else pair.sender
    if pair.is_whole:
        if who is pair.sender:
            return f"has sent {sent:,} to {peer}, which has called {received:,} receives from it"
        return f"has called {received:,} receives from {peer}, which has sent {sent:,}"
    less = "fewer" if (who is pair.sender) == (sent < received) else "more"
    if who is pair.sender:
        return f"has sent {abs(sent - received):,} {less} to {peer} than that receives"
    return f"has received {abs(sent - received):,} {less} from {peer} than that sends"


def _size(shape: Shape) -> str:
    return f"{shape.count:,} {shape.type} ({shape.bytes(1):,} bytes)"
