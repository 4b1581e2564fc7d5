"""Ranks that count different numbers of batches: the one with fewer goes on alone, and the others wait for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper, Text, named
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.lines.speakers import rank_of

_COUNTED = re.compile(
    r"^(?P<front>[^\n]{0,160}?)\b(?P<what>batch(?:es)?|steps?|iter(?:ation)?s?|it|samples?|examples?|rows)\b"
    r"(?:[ =:#]{1,3}|\W{1,2}of\W{1,2})(?:\d{1,9} ?(?:/|of) ?)?(?P<number>\d{1,9})(?![\d.,/:%])",
    re.IGNORECASE | re.MULTILINE,
)
"""`batch 5/22` (of which the total counts), `batches=22`, `batches: 22`, `samples 673`."""
_BEFORE = re.compile(
    r"^(?P<front>[^\n]{0,160}?)\b(?P<number>\d{1,9}) (?P<what>batches|steps|iterations|samples|examples|rows)\b"
    # Of `shards=12 samples=900` the number in front belongs to another word.
    r"(?! ?[=:] ?\d)",
    re.IGNORECASE | re.MULTILINE,
)
_TOTAL = re.compile(r"(?:/|\bof\b) ?\d{1,9}$|\b(?:batches|steps|iterations|samples|examples|rows)\b", re.IGNORECASE)
_NAMES_IT = re.compile(r"\b(?:samples|examples|rows|batch(?:es)?|steps?|epoch|iterations?)[ =:]{1,2}$", re.IGNORECASE)
"""Of `samples 673 batches 22` the first number is no number of batches."""
_SPEAKS = re.compile(r"\brank\W{1,2}(\d{1,6})\b", re.IGNORECASE)
_MOST = 20_000
_OF_DATA = ("samples", "examples", "rows")


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
        for what, ranks in sorted(totals.items(), key=lambda each: each[0] in _OF_DATA):
            if len({number for number, _ in ranks.values()}) < 2 or any((what, rank) in moving for rank in ranks):
                continue
            return _told(finding, text, what, ranks)
    return None


def _plural(what: str) -> str:
    return {"batch": "batches", "batches": "batches"}.get(what) or (
        f"{what.rstrip('s')}s" if what.startswith(("sample", "example", "row")) else "steps"
    )


def _rank(front: str) -> str:
    """The rank in front of a counter: as launchers write it, or as programs do."""
    found = _SPEAKS.search(front)
    return rank_of(front) or (str(int(found[1])) if found else "")


def _told(finding: Finding, text: Text, what: str, ranks: dict[str, tuple[int, int]]) -> Sharper:
    fewest, most = (pick(ranks, key=lambda rank: ranks[rank][0]) for pick in (min, max))
    return Sharper(
        f"ranks have different numbers of {what}: rank {fewest} has {ranks[fewest][0]}, rank {most} {ranks[most][0]}, "
        f"so that rank {fewest} ends its epoch first and calls what the others do not: {named(finding.title, 200)}",
        "give all ranks the same number of batches: DistributedSampler (drop_last=True, or let it fill up), equal "
        "shards, IterableDataset with a fixed number of steps; or wrap the epoch in DDP's join(). Collectives of an "
        "epoch's end (metrics, barrier, checkpoint) come after the same step on all ranks",
        (text.evidence(ranks[fewest][1]), text.evidence(ranks[most][1])),
    )
