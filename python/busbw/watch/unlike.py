"""Ranks that gave a collective of one number different shapes, and which of them are the odd ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from busbw.watch.members import SHOWN, Member, Verdict, accused, name_of, ranks_of
from busbw.watch.recording import Shape

_CONTEXT = 32
"""So many calls before one are looked for in what was called earlier."""
_NAMES = ("kind", "count", "type", "op", "root")
_WORDS = {"kind": "collective", "op": "operator"}


def unlike(members: Sequence[Member]) -> Verdict | None:
    """The first number that differs is the root. Those are odd whose shape fewer gave.

    Of as many it is who did not call what followed the same calls before; else who is odd is not known.
    """
    histories = [(member, member.process.history.get(member.row.place, {})) for member in members]
    number = _first(history for _, history in histories)
    if number is None:
        return None
    same = [(member, history[number]) for member, history in histories if number in history]
    counts = Counter(shape for _, shape in same)
    most = max(counts.values())
    likely = [shape for shape, times in counts.items() if times == most]
    usual = likely[0] if len(likely) == 1 else _expected([history for _, history in histories], number, likely)
    others = [(member, shape) for member, shape in same if shape != usual]
    differs = [name for name in _NAMES if len({getattr(shape, name) for shape in counts}) > 1]
    what = ", ".join(_WORDS.get(name, name) for name in differs)
    head = f"Call #{number:,} of {name_of(members)} is not the same on all ranks, but another {what}: "
    called = "; ".join(f"{member} called {shape}" for member, shape in others[:SHOWN])
    if usual is not None:
        text = f"{head}{called}; {counts[usual]} called {usual}."
    elif len(others) <= SHOWN:
        text = f"{head}{called}. As many called one as the other: which is right is not known."
    else:
        groups = [(shape, [member for member, each in same if each == shape]) for shape in counts]
        parts = "; ".join(f"{len(those)} ranks, as rank {ranks_of(those)}, called {shape}" for shape, those in groups)
        text = f"{head}{parts}. Which is right is not known."
    return Verdict("unlike", tuple(member.row.rank for member, _ in others), text, accused([m for m, _ in others]))


def _first(histories: Iterable[Mapping[int, Shape]]) -> int | None:
    first_seen: dict[int, Shape] = {}
    found = None
    for history in histories:
        for number, shape in history.items():
            other = first_seen.setdefault(number, shape)
            if other is not shape and other != shape and (found is None or number < found):
                found = number
    return found


def _expected(histories: Sequence[Mapping[int, Shape]], number: int, likely: Sequence[Shape]) -> Shape | None:
    """Which of these followed the calls before, where the same ones came earlier; None where that is not told."""
    before: dict[int, Shape] = {}
    for history in histories:
        before |= {at: shape for at, shape in history.items() if at < number and at not in before}
    newest = [before[at] for at in range(number - _CONTEXT, number) if at in before]
    for length in range(min(len(newest), _CONTEXT), 0, -1):
        context = newest[-length:]
        followed = {
            before[at] for at in before
            if at - length in before and before[at - 1] == context[-1]
            and [before.get(at - length + each) for each in range(length)] == context
        }  # fmt: skip
        if followed:
            found = [shape for shape in likely if shape in followed]
            return found[0] if len(found) == 1 else None
    return None
