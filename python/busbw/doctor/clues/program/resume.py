"""Clues of a restart: ranks that go on at different steps, as not all hosts have the checkpoint."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_BEGUN = re.compile(
    r"^(?P<front>[^\n]{0,160}?)\b(?:begin\w{0,4}|start(?:s|ed|ing)?|resum(?:e|es|ed|ing)|continu(?:e|es|ed|ing)|restored)\b"
    r"(?![^\n]{0,30}(?:eval|valid|sav|profil|checkpoint|log))[^\n/]{0,40}?\b(?:from|at|with) "
    r"(?:global[_ ]?)?(?:step|iteration|iter)[ =:#]{1,3}(?P<step>\d{1,10})\b",
    re.IGNORECASE | re.MULTILINE,
)
"""Where a loop of training begins; what a rank says of each step has no such word."""
_FOUND = re.compile(
    r"^(?P<front>[^\n]{0,160}?)\b(?:resum(?:e|ed|ing)(?: training)?|restored|load(?:ed|ing) checkpoint)\b[^\n/]{0,60}?"
    r"\bfrom (?P<path>/[\w./+=-]{2,160})",
    re.IGNORECASE | re.MULTILINE,
)
_FRESH = re.compile(
    r"^(?P<front>[^\n]{0,160}?)\b(?:[Nn]o checkpoint (?:was )?found|[Uu]nable to find latest file"
    r"|could not find the metadata file|[Ss]tart(?:ing|s)? (?:training )?from (?:scratch|random))\b",
    re.MULTILINE,
)
_RANK = re.compile(r"\brank[ =:]{0,3}(?P<rank>\d{1,6})\b|^\s{0,4}(?P<task>\d{1,5}): ", re.IGNORECASE)
"""What programs and `srun --label` put in front of a line."""
_MOST = 64


def resumed_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Ranks say that they begin at different steps, or some go on from a checkpoint that others do not find."""
    first: dict[str, tuple[int, Text, int]] = {}
    for text, found in _all(_BEGUN, texts):
        first.setdefault(_who(text, found["front"]), (int(found["step"]), text, found.start("step")))
    ranks: dict[int, list[str]] = {}
    for who, (step, _, _) in first.items():
        ranks.setdefault(step, []).append(who)
    if len(ranks) > 1:
        told = ", ".join(f"{_several(who)} at {step}" for step, who in sorted(ranks.items(), reverse=True)[:3])
        places = [first[who[0]] for _, who in sorted(ranks.items(), reverse=True)[:3]]
        return _sharper(f"ranks go on at different steps: {told}", [(text, at) for _, text, at in places], texts)
    have = {_who(text, found["front"]): (text, found.start("path")) for text, found in _all(_FOUND, texts)}
    lack = {_who(text, found["front"]): (text, found.start()) for text, found in _all(_FRESH, texts)}
    lack = {who: place for who, place in lack.items() if who not in have}
    if have and lack:
        told = f"{_several(list(have))} from a checkpoint, {_several(list(lack))} from scratch"
        return _sharper(
            f"ranks begin differently: {told}", [next(iter(have.values())), next(iter(lack.values()))], texts
        )
    return None


def _sharper(told: str, places: Sequence[tuple[Text, int]], texts: Sequence[Text]) -> Sharper:
    path = next((found["path"] for _, found in _all(_FOUND, texts)), "")
    folder = f" in {named(str(PurePath(path).parent), 80)}" if path else ""
    return Sharper(
        f"{told}: not all hosts have the checkpoint{folder}, so that ranks call different collectives and wait for "
        "each other",
        "keep checkpoints on a file system that all hosts share, or copy the last one to each host before the restart. "
        "Let rank 0 choose the step and broadcast it (and the state), and end where a rank lacks the file. Network and "
        "NCCL are not at fault, and a longer time limit does not help",
        tuple(text.evidence(at) for text, at in places),
    )


def _all(words: re.Pattern[str], texts: Sequence[Text]) -> Iterator[tuple[Text, re.Match[str]]]:
    for text in texts:
        for number, found in enumerate(words.finditer(text.text)):
            if number >= _MOST:
                break
            yield text, found


def _who(text: Text, front: str) -> str:
    """The rank that a line's begin names; else the log it stands in."""
    found = _RANK.search(front)
    return f"rank {int(found['rank'] or found['task'])}" if found else PurePath(text.source).name


def _several(who: Sequence[str]) -> str:
    """Ranks and logs in words, ranks by their numbers."""
    ranks = sorted(int(each.removeprefix("rank ")) for each in who if each.startswith("rank "))
    others = [named(each, 30) for each in who if not each.startswith("rank ")]
    told = [f"rank {', '.join(map(str, ranks[:8]))}"] if ranks else []
    return ", ".join([*told, *others[:4]])
