"""Errors of what a job did not need: RDMA beside a run in shared memory, and a program's old error on sound GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from busbw.doctor.clues.texts import Text, texts_of
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.lines.moments import DAY_S

_OF_RDMA = frozenset(
    {"memlock", "ib-port-down", "mpi-network", "ibv-call-failed", "ib-devices-missing", "openib-unused", "ib-async"}
)
_IN_SHARED_MEMORY = re.compile(
    r"\b(?:mpirun|mpiexec|prterun|prun)\b(?=[^\n]{0,400}--?g?mca pml (?:\^ucx|ob1)\b)"
    r"(?=[^\n]{0,400}--?g?mca btl (?:(?:self|sm|vader|smcuda),){0,3}(?:self|sm|vader|smcuda)(?:\s|$))[^\n]{0,600}"
)
"""A command by which Open MPI may use no network at all."""
_OVER_IT = re.compile(
    r"NCCL (?:INFO|WARN)|\bmpirun\b[^\n]{0,400}--?mca (?:btl|pml) [^\n]{0,40}(?:tcp|openib|uct|ucx(?<!\^ucx)|cm)\b"
)
_RESULTS = re.compile(r"^\s{0,8}(?:\d{5,10})\s{1,40}\d{1,9}\.\d{1,4}(?:\s{1,40}\d[\d.]{0,14}){0,6}\s*$", re.MULTILINE)
_FAILED = re.compile(
    r"MPI_ABORT was invoked|Primary job +terminated|non-zero (?:exit|status)|exited on signal|Segmentation fault"
)
_OLD = "gpu-exception"
_DIAGNOSED = re.compile(
    r"^\|\s{0,4}(?:GPU Memory|PCIe|Diagnostic|Memory|Targeted Stress|SM Stress)\s{1,40}\|\s{0,4}Pass\b", re.MULTILINE
)
_NOT_SOUND = re.compile(r"^\|[^|\n]{2,60}\|\s{0,4}Fail\b", re.MULTILINE)
_OF_JOBS = ("nccl", "torch", "headers")


def without_unneeded(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; those that touched no job are notes."""
    texts = texts_of(facts) if any(each.name in _OF_RDMA | {_OLD} for each in findings) else ()
    shared = _shared_memory_alone(texts)
    sound = _sound_since(facts, texts)
    return [
        _noted(each, shared, " (the job may use shared memory alone, and its results came)")
        if each.name in _OF_RDMA and shared is not None
        else _noted(each, sound, " (more than a day ago, and the diagnosis passed since)")
        if each.name == _OLD and sound is not None
        else each
        for each in findings
    ]


def _noted(finding: Finding, why: Evidence, said: str) -> Finding:
    if finding.severity is Severity.NOTE:
        return finding
    return replace(finding, severity=Severity.NOTE, title=f"{finding.title}{said}", evidence=(*finding.evidence, why))


def _shared_memory_alone(texts: Sequence[Text]) -> Evidence | None:
    """The command, where all of them use no network, and a table of results stands below without a failure."""
    for text in texts:
        run = _IN_SHARED_MEMORY.search(text.text)
        if run is None or any(each.search(text.text) for each in (_OVER_IT, _FAILED)):
            continue
        if _RESULTS.search(text.text, run.end()):
            return text.evidence(run.start())
    return None


def _sound_since(facts: Facts, texts: Sequence[Text]) -> Evidence | None:
    """A diagnosis that passed, where the log is of a machine and no job, and the kernel's line is days old."""
    hits = [(scan, scan.hits[_OLD]) for scan in facts.scans if _OLD in scan.hits]
    if any(scan.kinds[each] for scan in facts.scans for each in _OF_JOBS) or not all(
        hit.until is not None and scan.newest is not None and scan.newest - hit.until > DAY_S for scan, hit in hits
    ):
        return None
    for text in texts:
        passed = _DIAGNOSED.search(text.text)
        if passed is not None and not _NOT_SOUND.search(text.text):
            return text.evidence(passed.start())
    return None
