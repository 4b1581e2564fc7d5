"""A variable that explains the error which a log tells: what was set leads to just that."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Severity
from busbw.doctor.meanings.breaking_rows import ROWS
from busbw.doctor.remedy import evidence, removal, without
from busbw.doctor.signature import Stage

NAME = "setting-breaks"
_ROWS = tuple((row[0], re.compile(row[1]), row[2], re.compile(row[3], re.IGNORECASE), *row[4:]) for row in ROWS)
_EFFECTS = {row[0]: frozenset(row[2]) for row in ROWS}


def examine(facts: Facts) -> Iterator[Finding]:
    for name, values, effects, words, does, cure in _ROWS:
        value = (facts.value(name) or "").rstrip(".")
        seen = _seen(facts, effects, words) if values.fullmatch(value) else None
        if seen is not None:
            setting = facts.settings[name]
            yield Finding(
                NAME, Severity.ERROR, f"{name}={shortened(value, 60)} {does}", (evidence(setting), seen),
                Cost("the job fails"), f"{removal(setting)}: {cure}", without(setting), stage=Stage.SETTING,
            )  # fmt: skip


def _seen(facts: Facts, effects: Iterable[str], words: re.Pattern[str]) -> Evidence | None:
    """The first line of a log that tells one of these, in these words."""
    for scan in facts.scans:
        for name in effects:
            for line, text in scan.hits[name].lines if name in scan.hits else ():
                if words.search(text):
                    return Evidence(shortened(text, 240), scan.source, line)
    return None


def with_effects(findings: list[Finding]) -> list[Finding]:
    """With notes of what such a variable leads to; without it where the job went on all the same."""
    loud = {each.name for each in findings if each.severity is not Severity.NOTE}
    explained: set[str] = set()
    kept = list[Finding]()
    for each in findings:
        if each.name == NAME:
            effects = _EFFECTS[each.title.partition("=")[0]]
            if effects.isdisjoint(loud):
                continue
            explained |= effects
        kept.append(each)
    return [
        replace(each, severity=Severity.NOTE, title=f"follows from {NAME}: {each.title}")
        if each.name in explained and each.severity is not Severity.NOTE
        else each
        for each in kept
    ]
