"""A driver with which the same job runs, by the word of who writes, beside the one with which it fails."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text

_NAMES = frozenset(
    {"p2p-hangs", "watchdog-timeout", "stuck-in-collective", "stands-still", "init-incomplete", "illegal-access"}
    | {"process-crashed", "wrong-results", "cuda-call-failed", "p2p-broken", "nccl-error", "nccl-internal"}
)
"""What a fault of one driver can look like."""
_P2P = "transfers from GPU to GPU"
_VERSION = r"[4-6]\d{2}\.\d{2,3}(?:\.\d{1,3})?"
_RUNS = re.compile(
    r"(?:\bDriver Version\s{0,40}: ?|NVRM version: [^\n]{5,60}?|\bdriver_version\W{1,3})"
    rf"(?P<version>{_VERSION})\b"
)
_NOT = re.compile(
    r"\b(?:not|never|nothing|still|same (?:error|problem|hang|crash|result)|hangs?|hung|fail\w*|crash\w*|broken|bad)\b"
    r"|n't\b|\?"
)
_WELL = (
    r"(?:works?|worked|runs? (?:fine|well|through)|ran (?:fine|well)|passes|passed|fine|ok(?:ay)?|good"
    r"|no (?:hang|problem)s?)"
)
_SAID = re.compile(
    rf"^(?![^\n]{{0,200}}\b(?:INFO|WARN|ERROR)\b)[^\n]{{0,200}}?"
    rf"(?:\bdriver (?:version |branch |release )?v?(?P<named>{_VERSION}|[4-6]\d{{2}})"
    r"|(?<![\w./:-])(?P<bare>[4-6]\d{2}\.\d{2,3}\.\d{2}))(?![\w.]\d)\b"
    rf"(?P<between>[^\n]{{0,100}}?)(?<![\w./-])(?P<well>{_WELL})\b(?P<rest>[^\n]{{0,60}})",
    re.IGNORECASE | re.MULTILINE,
)
_MOST = 200


def with_other_driver(finding: Finding, texts: Sequence[Text]) -> Finding:
    """The finding; where another driver runs the same job, that stands in its title and first in its cure."""
    if finding.name not in _NAMES:
        return finding
    runs = {found["version"] for text in texts for found in islice(_RUNS.finditer(text.text), _MOST)}
    if len(runs) != 1:
        return finding
    bad = runs.pop()
    good: dict[str, Evidence] = {}
    for text in texts:
        for version, at in _well(text):
            # The short name of a release is that of all its drivers.
            if not bad.startswith(version):
                good.setdefault(version, text.evidence(at))
    if not good:
        return finding
    of_p2p = _P2P in finding.title
    newer = sorted((each for each in good if _number(each) > _number(bad)), key=_number)
    older = sorted((each for each in good if _number(each) < _number(bad)), key=_number)
    told = " and ".join([*older[-1:], *newer[:1]])
    first = " or ".join([*(newer[:1]), *(older[-1:])])
    runs_with = f"the same job runs with driver{'s' if ' and ' in told else ''} {told}"
    return replace(
        finding,
        title=f"driver {bad} breaks {_P2P} (P2P): {runs_with}"
        if of_p2p
        else f"{finding.title} ({runs_with}, not {bad})",
        fix=f"install driver {first} in place of {bad} on all hosts, and hold its packages: what else the job uses is "
        f"the same with both. {'Until then NCCL_P2P_DISABLE=1' if of_p2p else f'Else {finding.fix}'}",
        evidence=(*finding.evidence, *list(good.values())[:2]),
    )


def _well(text: Text) -> Iterator[tuple[str, int]]:
    """The drivers of which somebody says that it goes well with them."""
    for found in islice(_SAID.finditer(text.text), _MOST):
        if not _NOT.search(found["between"]) and not _NOT.search(found["rest"]):
            yield found["named"] or found["bare"], found.start("well")


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
