"""A rank that leaves out a batch which the others compute, as its own loss is not finite or its memory was full."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.lines.speakers import rank_by_words
from busbw.doctor.shown_texts import Text, named

_WHY = (
    r"(?:non-?finite|not finite|isfinite|(?:is |was |got |a )?\b(?:nan|inf)\b|overflow\w{0,3}|corrupt\w{0,2}|damaged"
    r"|invalid|malformed|too (?:long|large|short)|out of memory|\bOOM\b|spike)"
)
_SKIPS = (
    r"(?:\bskip(?:s|ped|ping)?\b|\bdrop(?:s|ped|ping)\b|\bdiscard(?:s|ed|ing)\b|\bignor(?:es|ed|ing)\b)"
    r" (?:(?:this|the|that|a|current|whole) )?(?:micro-?)?(?:batch|step|iteration|update|sample)\b"
)
_SAID = re.compile(
    rf"^[^\n]{{0,200}}?(?:{_WHY}[^\n]{{0,80}}?{_SKIPS}|{_SKIPS}[^\n]{{0,80}}?{_WHY})[^\n]{{0,80}}",
    re.MULTILINE | re.IGNORECASE,
)
_WORKS = re.compile(r"\b(?:it(?:er(?:ation)?)?|step|batch|epoch)\b\W{0,3}\d|\bloss\b", re.IGNORECASE)
_FAILED = re.compile(r"Watchdog caught|Detected mismatch between|Traceback \(most recent")
_FRONT = re.compile(r"^\W{0,3}rank\W{0,2}\d{1,6}\W{0,3}", re.IGNORECASE)
_MOST = 4000
_CURE = (
    "make the choice the same on all ranks: all-reduce a flag (isfinite, with MIN) before the branch, and let all of "
    "them skip or none. Or go through backward and optimizer on that rank as well, with the loss set to 0 "
    "(nan_to_num). Then look at the batch that gave it. A longer time and the network change nothing"
)


def skips_alone(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Some ranks say, more often than others that speak as well, that they leave out a batch."""
    for text in texts:
        failed = _FAILED.search(text.text)
        end = failed.start() if failed else len(text.text)
        said = [found for found in islice(_SAID.finditer(text.text, 0, end), _MOST) if rank_by_words(found[0])]
        count = Counter(rank_by_words(found[0]) for found in said)
        working = {
            rank_by_words(line) for line in islice(text.text[:end].split("\n"), _MOST) if _WORKS.search(line)
        } - {""}
        # Who skips as often as all others did so with them.
        if not count or len(working) < 2 or all(count[rank] == max(count.values()) for rank in working):
            continue
        last = said[-1]
        rank = rank_by_words(last[0])
        others = sorted((each for each in working if count[each] < count[rank]), key=int)
        if not others:
            continue
        return Sharper(
            f"rank {rank} left a batch out that the others computed ({named(_FRONT.sub('', last[0].strip()), 100)}). "
            "With it, it left out the collectives of its gradients. Since then it is ahead of "
            f"rank {', '.join(others[:6])}: "
            f"{finding.title.partition('; rank ' + rank + ' is past')[0]}",
            _CURE,
            (text.evidence(last.start()),),
        )
    return None
