"""Ranks that count different numbers of batches: the one with fewer goes on alone, and the others wait for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.shown_texts import Text, named

_COUNTED = re.compile(
    r"^(?P<front>[^\n]{0,160}?)\b(?P<what>batch(?:es)?|steps?|iter(?:ation)?s?|it|samples?|examples?|rows|images?|sequences?|records?)\b"
    r"(?:[ =:#]{1,3}|\W{1,2}of\W{1,2})(?:\d{1,9} ?(?:/|of) ?)?(?P<number>\d{1,9})(?![\d.,/:%])",
    re.IGNORECASE | re.MULTILINE,
)
"""`batch 5/22` (of which the total counts), `batches=22`, `batches: 22`, `samples 673`."""
_BEFORE = re.compile(
    r"^(?P<front>[^\n]{0,160}?)\b(?P<number>\d{1,9}) "
    r"(?P<what>batches|steps|iterations|samples|examples|rows|images|sequences|records)\b"
    # Of `shards=12 samples=900` the number in front belongs to another word.
    r"(?! ?[=:] ?\d)",
    re.IGNORECASE | re.MULTILINE,
)
_TOTAL = re.compile(
    r"(?:/|\bof\b) ?\d{1,9}$|\b(?:batches|steps|iterations|samples|examples|rows|images|sequences|records)\b",
    re.IGNORECASE,
)
_NAMES_IT = re.compile(
    r"\b(?:samples|examples|rows|images|sequences|records|batch(?:es)?|steps?|epoch|iterations?)[ =:]{1,2}$",
    re.IGNORECASE,
)
"""Of `samples 673 batches 22` the first number is no number of batches."""
_SPEAKS = re.compile(r"\brank\W{1,2}(\d{1,6})\b", re.IGNORECASE)
_MOST = 20_000
_NAMED = 8
_OF_DATA = ("samples", "examples", "rows", "images", "sequences", "records")


def uneven_batches(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Lines of the ranks count different totals of batches or samples."""
    for text in texts:
        totals: dict[str, dict[str, tuple[int, int]]] = {}
        moving: set[tuple[str, str]] = set()
        for words in (_COUNTED, _BEFORE):
            for found in islice(words.finditer(text.text), _MOST):
                said = found[0][len(found["front"]) :]
                rank = _rank(found["front"])
                if not rank or not _TOTAL.search(said) or _NAMES_IT.search(found["front"]):
                    continue
                what = _plural(found["what"].lower())
                mine = totals.setdefault(what, {})
                if rank in mine and mine[rank][0] != int(found["number"]):
                    moving.add((what, rank))  # a counter that runs, and no total
                mine.setdefault(rank, (int(found["number"]), found.start("number")))
        known = {what: ranks for what, ranks in totals.items() if not any((what, rank) in moving for rank in ranks)}
        # Shards that differ by a sample give as many steps where the rest is dropped or filled up.
        alike = any(what not in _OF_DATA and len(ranks) > 1 and not _differ(ranks) for what, ranks in known.items())
        for what, ranks in sorted(known.items(), key=lambda each: each[0] in _OF_DATA):
            if not _differ(ranks) or (alike and what in _OF_DATA):
                continue
            return _told(finding, text, what, ranks)
    return None


_DATA = frozenset(each.rstrip("s") for each in _OF_DATA)


def _differ(ranks: dict[str, tuple[int, int]]) -> bool:
    return len({number for number, _ in ranks.values()}) > 1


def _plural(what: str) -> str:
    return {"batch": "batches", "batches": "batches"}.get(what) or (
        f"{what.rstrip('s')}s" if what.rstrip("s") in _DATA else "steps"
    )


def _rank(front: str) -> str:
    """The rank in front of a counter: as launchers write it, or as programs do."""
    found = _SPEAKS.search(front)
    return rank_of(front) or (str(int(found[1])) if found else "")


def _told(finding: Finding, text: Text, what: str, ranks: dict[str, tuple[int, int]]) -> Sharper:
    fewest, most = (pick(number for number, _ in ranks.values()) for pick in (min, max))
    few, many = (sorted(int(rank) for rank, (number, _) in ranks.items() if number == each) for each in (fewest, most))
    has, ends, calls = ("has", "ends its", "calls") if len(few) == 1 else ("have", "end their", "call")
    seen = (text.evidence(ranks[str(who[0])][1]) for who in (few, many))
    return Sharper(
        f"ranks have different numbers of {what}: {_listed(few)} {has} {fewest}, {_listed(many)} {most}, "
        f"so that {_listed(few)} {ends} epoch first and {calls} what the others do not: {named(finding.title, 200)}",
        "give all ranks the same number of batches: DistributedSampler (drop_last=True, or let it fill up), equal "
        "shards, IterableDataset with a fixed number of steps. Or wrap the epoch in DDP's join(). Collectives of an "
        "epoch's end (metrics, barrier, checkpoint) come after the same step on all ranks",
        tuple(seen),
    )


def _listed(ranks: list[int]) -> str:
    return f"rank {', '.join(map(str, ranks[:_NAMED]))}" + (" and others" if len(ranks) > _NAMED else "")
