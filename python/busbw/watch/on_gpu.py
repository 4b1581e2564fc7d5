"""What GPUs say of the calls that they were given: a rank whose GPU never began one, and calls that all have begun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from busbw.watch.members import SHOWN, Member, Verdict, accused, ago, name_of, ranks_of, sentence
from busbw.watch.pulses import Pulse


def pulse_of(member: Member) -> Pulse | None:
    """What the member's GPU was asked since its last call, if it was."""
    return member.process.pulses.get(member.row.place)


def in_error(every: Mapping[int, Sequence[Member]]) -> Verdict | None:
    """GPUs that no longer answer but with an error."""
    found = [
        (member, pulse.error, members)
        for members in every.values()
        for member in members
        if (pulse := pulse_of(member)) and pulse.error
    ]
    if not found or len({member.process.key for member, _, _ in found}) == len(
        {member.process.key for members in every.values() for member in members}
    ):
        return None
    who = "; ".join(f"{member}: CUDA's error {error}" for member, error, _ in found[:SHOWN])
    text = (
        f"A GPU has failed: {who}. The driver said so when it was asked how far the calls have come, of "
        f"{name_of(found[0][2])}."
    )
    members = [member for member, _, _ in found]
    return Verdict("gpu", tuple(dict.fromkeys(member.row.rank for member in members)), text, accused(members))


def blocked(every: Mapping[int, Sequence[Member]], now_ns: int) -> Verdict | None:
    """Ranks that called a collective that their GPUs have not begun, while another's has: work before it does not end.

    Of several communicators the one with the fewest such ranks is nearest to the root: on the others those wait too
    that wait for it there.
    """
    found = [each for members in every.values() if (each := _behind(every, members))]
    if not found:
        return None
    number, late, ahead, members = min(found, key=lambda each: len(each[1]))
    shape = next((m.process.history.get(m.row.place, {}).get(number) for m, _ in late), None)
    if shape is None and number == late[0][0].row.collectives:
        shape = late[0][0].row.last
    who = "; ".join(f"{member} called it, but its GPU has not begun it: work before it in its stream "
                    f"({pulse.stream:04x}) does not end" for member, pulse in late[:SHOWN])  # fmt: skip
    ranks = ranks_of(ahead)
    when = ago(now_ns, max(member.row.entered_ns for member, _ in late))
    others = f"The GPU of rank {ranks} has begun it" if ahead else "Those of the others were not asked about this one"
    text = (
        f"#{number:,} of {name_of(members)}{f', {shape}' if shape else ''}: {who}. {others}. The last call there was "
        f"{when}."
    )
    who_is = [member for member, _ in late]
    return Verdict("blocked", tuple(member.row.rank for member in who_is), sentence(text), accused(who_is))


def _behind(
    every: Mapping[int, Sequence[Member]], members: Sequence[Member]
) -> tuple[int, list[tuple[Member, Pulse]], list[Member], Sequence[Member]] | None:
    """Of one communicator: the first such number, whose GPUs have not begun it, and whose have.

    Where no other GPU was asked about that number: of few ranks, for which the call before it is known to have ended.
    """
    pulses = [(member, pulse) for member in members if (pulse := pulse_of(member))]
    reached = max((pulse.begun for _, pulse in pulses), default=0)
    late = [each for each in pulses if each[1].not_begun and not _is_within_another(every, each[0])]
    behind = [each for each in late if each[1].not_begun <= reached]
    if not behind:
        most = min(member.row.collectives for member in members)
        behind = [each for each in late if each[1].ended + 1 == each[1].not_begun <= most]
        if len(behind) != len(late) or len(behind) > max(1, (len(members) - 1) // 2) or len(behind) == len(members):
            return None
    if not behind:
        return None
    number = min(pulse.not_begun for _, pulse in behind)
    first = [each for each in behind if each[1].not_begun == number]
    return number, first, [member for member, pulse in pulses if pulse.begun >= number], members


def _is_within_another(every: Mapping[int, Sequence[Member]], member: Member) -> bool:
    """Whether its GPU is in a collective of another communicator, which may be what it waits for."""
    return any(
        pulse.not_ended and pulse.begun >= pulse.not_ended
        for members in every.values()
        for other in members
        if other.process is member.process
        and other.row.identity != member.row.identity
        and other.row.device == member.row.device
        and (pulse := pulse_of(other))
    )


def have_ended(every: Mapping[int, Sequence[Member]]) -> bool:
    """Whether each GPU was asked, and has come to the end of all collectives that were called."""
    asked = [(member, pulse_of(member)) for members in every.values() for member in members if member.row.collectives]
    return bool(asked) and all(
        pulse is not None and not pulse.error and pulse.ended >= member.row.collectives & 0xFFFFFFFF
        for member, pulse in asked
    )


def are_within(members: Sequence[Member]) -> bool:
    """Whether all GPUs have begun the newest collective and none has come to its end."""
    pulses = [pulse_of(member) for member in members]
    return all(
        pulse is not None and pulse.begun >= member.row.collectives & 0xFFFFFFFF and pulse.ended < pulse.begun
        for member, pulse in zip(members, pulses, strict=True)
    )


def known_of(members: Sequence[Member]) -> str:
    """What the GPUs told of the newest calls, as a sentence that follows; "" where they told nothing."""
    known = [(member, pulse) for member in members if (pulse := pulse_of(member))]
    done = [str(member.row.rank) for member, pulse in known if pulse.ended >= member.row.collectives & 0xFFFFFFFF]
    rest = [str(member.row.rank) for member, pulse in known if pulse.not_ended]
    if done and rest:
        return f" It has ended on the GPU of rank {', '.join(done[:SHOWN])}, not on that of {', '.join(rest[:SHOWN])}."
    first = min((pulse.not_ended for _, pulse in known if pulse.not_ended), default=0)
    return f" Of those that were looked at, the first that has not ended on a GPU is #{first:,}." if first else ""
