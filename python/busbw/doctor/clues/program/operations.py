"""Counts of operations by rank, as NCCL's RAS tells them: who called what more often, and by which branch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_HEAD = re.compile(r"ranks have different (?P<op>\w{3,30}) operation counts")
_GROUP = re.compile(r"^\W{0,12}(?P<many>\d{1,7}) ranks? (?:have|has) launched up to operation (?P<number>\d{1,18})\s*$")
_ONE = re.compile(r"^\W{0,12}Rank (?P<rank>\d{1,7}) has launched up to operation (?P<number>\d{1,18})\b")
_LISTED = re.compile(r"^\W{0,12}Rank (?P<rank>\d{1,7}) -- GPU ")
_SKIPS = re.compile(
    # What somebody typed, and what mixed precision does on all ranks alike, is no branch of one rank.
    r"^(?![^\n]{0,80}[$#>] )(?![^\n]{0,300}(?:overflow|loss scale))"
    r"[^\n]{0,60}(?:^|[^\w./-])(?:skip(?:s|ped|ping)?|dropp(?:ed|ing)|ignor(?:ed|ing))\b"
    r"[^\n]{0,24}\b(?:micro-?)?"
    r"(?:batch(?:es)?|steps?|samples?|examples?|iterations?)\b[^\n]{0,120}$",
    re.IGNORECASE | re.MULTILINE,
)
_SHOWN = 8
_CURE = (
    "let every rank call each collective as often as the others: no `continue`, `return` or `break` past it by a "
    "condition of one rank's data. A rank without anything to give calls it with an empty or padded part "
    "(gather_for_metrics, all_gather), or all ranks decide together first (all_reduce of the condition). No GPU, host "
    "or link is at fault"
)


@dataclass
class _Counts:
    """Of one operation: how many ranks launched it how often, and which ranks RAS lists for a number."""

    at: int
    many: dict[int, int] = field(default_factory=dict)
    ranks: dict[int, list[str]] = field(default_factory=dict)

    @property
    def usual(self) -> int:
        """The number of most ranks."""
        return max(self.many, key=lambda number: self.many[number])


def counted_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Few ranks called an operation more or less often than the rest: of two in opposite ways by another branch."""
    for text in texts:
        counts = _read(text)
        few = {op: each for op, each in counts.items() if len(each.many) == 2 and len(set(each.many.values())) == 2}
        if few:
            return _told(finding, text, few, texts)
    return None


def _told(finding: Finding, text: Text, few: Mapping[str, _Counts], texts: Sequence[Text]) -> Sharper:
    more = {op: each for op, each in few.items() if _other(each) > each.usual}
    less = {op: each for op, each in few.items() if _other(each) < each.usual}
    evidence = [text.evidence(each.at) for each in (*more.values(), *less.values())][:2]
    first = next(iter((*more.values(), *less.values())))
    who, others = _who(first), first.many[first.usual]
    said = " and ".join(
        f"{op} {_other(each)} times (others {each.usual})" for op, each in (*more.items(), *less.items())
    )
    if not more:
        return Sharper(f"{who} fell behind the other {others} ranks: they called {said}", finding.fix, tuple(evidence))
    title = f"{who} took another branch than the other {others} ranks: they called {said}"
    title += ", so that each group waits in a call that the other does not make" if less else ""
    skipped = next(((each, found) for each in texts if (found := _SKIPS.search(each.text))), None)
    if skipped is not None:
        where, found = skipped
        title += f'; the log says "{named(" ".join(found[0].split()), 80)}"'
        evidence.append(where.evidence(found.start()))
    return Sharper(title, _CURE, tuple(evidence))


def _other(counts: _Counts) -> int:
    return next(number for number in counts.many if number != counts.usual)


def _who(counts: _Counts) -> str:
    ranks = counts.ranks.get(_other(counts), [])
    if not ranks:
        return f"{counts.many[_other(counts)]} ranks"
    return f"rank {', '.join(ranks[:_SHOWN])}" + (" and others" if len(ranks) > _SHOWN else "")


def _read(text: Text) -> dict[str, _Counts]:
    """The counts of each operation; of several reports the last."""
    found: dict[str, _Counts] = {}
    now: _Counts | None = None
    number = 0
    for at, line in _lines(text.text):
        if head := _HEAD.search(line):
            now = found[head["op"]] = _Counts(at)
        elif now is None:
            continue
        elif group := _GROUP.match(line):
            number = int(group["number"])
            now.many[number] = int(group["many"])
        elif one := _ONE.match(line):
            number = int(one["number"])
            now.many[number] = now.many.get(number, 0) + 1
            now.ranks.setdefault(number, []).append(one["rank"])
        elif listed := _LISTED.match(line):
            now.ranks.setdefault(number, []).append(listed["rank"])
        else:
            now = None
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    at = 0
    for line in text.split("\n"):
        yield at, line
        at += len(line) + 1
