"""Variables of a shell, a script or a launcher of which NCCL makes something else than meant, or nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.remedy import evidence, without
from busbw.doctor.signature import Stage
from busbw.machine.nccl.conf import Setting
from busbw.machine.nccl.conf_values import PREFIX, misread

NAME = "setting-misread"
_PLAIN = re.compile(r"[\w+-][\w.,:;^+-]{0,80}")
"""A value as it stands: one with $, < or ... is of a manual, or is filled in later."""
_AROUND = " .,;:)`'\""
_WORD = r"NCCL_[A-Z0-9_]{2,56}"
_MANIFEST = re.compile(
    rf"\bname: ?[\"']?(?P<name>{_WORD})[\"']?,? {{0,4}}\n?[ \t]{{0,24}}value: ?[\"']?(?P<value>[\w.,:^+-]{{1,80}})"
)
"""As a manifest of Kubernetes has it, in one line or two."""
_ZERO = frozenset({"false", "no", "off", "disable", "disabled"})
_OF_OTHERS = re.compile(r"msccl|(?<![a-z])collnet(?![a-z])", re.IGNORECASE)
"""An algorithm that a library of others adds, and the name that NCCL had for its own up to 2.13."""
_CORRECT = Proof(instruction="correct the variable, and run with NCCL_DEBUG=INFO: NCCL says what it takes")
_MOST, _MOST_LINES, _LETTERS = 10, 20_000, 520


def examine(facts: Facts) -> Iterator[Finding]:
    told: dict[str, Evidence] = {}
    mine: list[Setting] = []
    told_by_nccl = {
        name for scan in facts.scans if (hit := scan.hits.get("ignored-setting"))
        for _, line in hit.lines for name in re.findall(_WORD, line[:400])
    }  # fmt: skip
    for setting in facts.settings.values():
        if setting.name in told_by_nccl:
            continue
        if not setting.origin.conf and (said := _said(setting.name, setting.value)) is not None:
            seen = evidence(setting)
            mine.append(setting)
            told.setdefault(said, Evidence(said, seen.where, seen.line))
    for shown in facts.shown:
        for number, line in enumerate(islice(shown.lines, _MOST_LINES), 1):
            if "name:" not in line or PREFIX not in line:
                continue
            below = "".join(shown.lines[number : number + 1])
            for found in _MANIFEST.finditer(f"{line}\n{below}", 0, _LETTERS):
                if (said := _said(found["name"], found["value"])) is not None:
                    told.setdefault(said, Evidence(said, shown.source, number))
    if told:
        names = list(dict.fromkeys(re.match(r"\w{1,60}", said)[0] for said in told))  # type: ignore[index]
        yield Finding(
            NAME, Severity.WARNING,
            f"NCCL takes {', '.join(names[:4])} otherwise than meant: {next(iter(told))}",
            tuple(islice(told.values(), _MOST)),
            Cost("the settings that were meant are not in force"),
            "write numbers in digits alone (4194304, not 4M; 1 and 0, not true and false), and names and lists as NCCL "
            "has them. Or unset the variable",
            without(*mine) if len(mine) == len(told) else _CORRECT,
            stage=Stage.SETTING,
        )  # fmt: skip


def _said(name: str, value: str) -> str | None:
    """What NCCL makes of it, where that is not what was meant."""
    value = value.strip(_AROUND)
    # NCCL reads 0 of a word, which is what these mean.
    if value.lower() in _ZERO or not name.startswith(PREFIX) or not _PLAIN.fullmatch(value) or _OF_OTHERS.search(value):
        return None
    said = misread(name, value)
    return clean(shortened(said, 240)) if said else None
