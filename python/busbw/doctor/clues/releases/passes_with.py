"""One test of a log fails with one NCCL, and passes with another one on the same GPUs: a fault of that release."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Finding, Severity
from busbw.doctor.shown_texts import Text

_VERSION = re.compile(r"^[^\n]{0,80}\bNCCL version (?P<version>2\.\d{1,2}\.\d{1,2})\b", re.MULTILINE)
_COMMAND = re.compile(r"^[^\n]{0,200}\b(?P<test>\w{4,30}_perf)\b(?P<words> -[^\n]{1,300})", re.MULTILINE)
_PASSED = re.compile(r"# Out of bounds values *: *0 OK")
_FAILED = re.compile(
    r"Test (?:CUDA|NCCL) failure|illegal memory access|Segmentation fault|misaligned address|Watchdog caught"
    r"|NCCL WARN Cuda failure|unspecified launch failure|device-side assert|^Aborted",
    re.MULTILINE,
)
_SET = re.compile(r"\b(?!NCCL_(?:DEBUG|HOME|LIB|TESTS|VERSION))(?:NCCL|CUDA|UCX|FI)_[A-Z0-9_]{2,40}=[^\s`'\"]{1,60}")
_SIZE = re.compile(r"(?<!\S)-(?:np|n|N|g|t|H|w|nodes|ntasks)[ =]?(?P<value>[\w:,.\[\]-]{1,60})")
_WHAT = {
    "illegal-access": "ends in an illegal memory access",
    "process-crashed": "crashes",
    "crash-in-library": "crashes",
    "watchdog-timeout": "hangs",
    "stuck-in-collective": "hangs",
    "stands-still": "hangs",
}
_MOST, _BACK = 32, 4000


@dataclass(frozen=True, slots=True)
class _Run:
    version: str
    at: int
    how: frozenset[str]
    """Program, settings and sizes of its command."""
    passed: bool
    failed: bool


def passes_with_other(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Nothing but the release differs between a run that fails and one that passes."""
    for text in texts:
        runs = list(_runs(text))
        failed = [each for each in runs if each.failed and not each.passed]
        good = [each for each in runs if each.passed and not each.failed]
        versions = {each.version for each in failed}
        if len(versions) != 1 or any(each.version in versions and each.how == failed[0].how for each in good):
            continue
        other = next((each for each in good if each.version not in versions and each.how == failed[0].how), None)
        if other is None:
            continue
        bad, (newer, older) = failed[0].version, (_number(other.version), _number(failed[0].version))
        take = f"NCCL {other.version} or newer" if newer > older else f"NCCL {other.version}, or one newer than {bad},"
        what = _WHAT.get(finding.name, "fails")
        return Sharper(
            f"NCCL {bad} {what} here: the same test passes with NCCL {other.version} on the same GPUs, so that it is a "
            "fault of that release",
            f"take {take} in place of {bad}: pip install -U nvidia-nccl-cu12 (or -cu13), a newer PyTorch, or the "
            "library that passes by LD_LIBRARY_PATH or LD_PRELOAD. Log NCCL_DEBUG=VERSION to see which one is loaded. "
            "The program's kernels, GPUs and links are not at fault: they are the same in both runs",
            (text.evidence(failed[0].at), text.evidence(other.at)),
        )
    return None


def without_light(findings: Sequence[Finding], facts: Facts, texts: Sequence[Text]) -> list[Finding]:
    """The findings; a failure that the good run of another release made light of is an error again."""
    noted = [
        each
        for each in findings
        if each.name in _WHAT and each.severity is Severity.NOTE and not each.title.startswith("follows from")
    ]
    if not noted or any(each.severity is Severity.ERROR for each in findings):
        return list(findings)
    head = min(noted, key=lambda each: each.stage)
    sharper = passes_with_other(head, facts, texts)
    if sharper is None:
        return list(findings)
    told = replace(
        head,
        severity=Severity.ERROR,
        title=sharper.title,
        fix=sharper.fix,
        cost=Cost("the job fails"),
        evidence=(*head.evidence, *sharper.evidence),
    )
    return [told if each is head else each for each in findings]


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _runs(text: Text) -> Iterator[_Run]:
    """Each run of nccl-tests from its version's line to that of the next run, as its command began it."""
    heads = list(islice(_VERSION.finditer(text.text), _MOST))
    ends = [*(each.start() for each in heads), len(text.text)]
    for head, (begin, end) in zip(heads, pairwise(ends), strict=True):
        part = text.text[begin:end]
        command = None
        for found in _COMMAND.finditer(text.text, max(0, begin - _BACK), begin):
            command = found
        if command is None:
            continue
        passed = _PASSED.search(part)
        # What follows a run that ended is of the next one, or of who writes.
        failed = _FAILED.search(part, 0, passed.start() if passed else len(part))
        settings = {each[0] for each in _SET.finditer(command[0])}
        sizes = {each[0] for each in _SIZE.finditer(command["words"])}
        how = frozenset({command["test"], *settings, *sizes})
        yield _Run(head["version"], head.start(), how, passed is not None, failed is not None)
