"""Errors of what a job did not need: RDMA beside a run in shared memory, and a program's old error on sound GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

from busbw.doctor.clues.machine.no_switches import without_switches
from busbw.doctor.clues.network.one_host import OF_RDMA, on_one_host
from busbw.doctor.clues.network.sockets_suffice import NO_LIBRARY, SOCKETS, sockets_suffice
from busbw.doctor.clues.solved import without_solved, without_waits_that_ended
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding, Severity
from busbw.doctor.lines.moments import DAY_S
from busbw.doctor.shown_texts import Text, texts_of

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
_OF_MEMORY = "gpu-memory-error"
_REMAPPED_XID = re.compile(
    r"Xid \(PCI:(?:[0-9a-fA-F]{4,8}:)?(?P<bus>[0-9a-fA-F]{2}:[0-9a-fA-F]{2})[^)\n]{0,8}\): (?:63|94),"
)
"""A row was remapped, and an error was contained: a reset of the GPU ends both."""
_ASKS_ROWS = re.compile(
    r"--query-remapped-rows=(?P<names>[^\s'\"]{0,200}remapped_rows\.pending,remapped_rows\.fail\w{2,4})\b[^\n]{0,200}"
    r"(?P<rows>(?:\n[^$#\n][^\n]{0,200}){1,512})"
)
_ROW = re.compile(
    r"(?P<bus>[0-9a-fA-F]{2}:[0-9a-fA-F]{2})\.\d, *\d{1,4}, *\d{1,4}, *(?P<pending>\w{2,3}), *(?P<failed>\w{2,3})\s*$"
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY = re.compile(rf"^\[[A-Z][a-z]{{2}} ({'|'.join(_MONTHS)}) +([1-9]\d?) \d\d:\d\d:\d\d (20\d\d)\]", re.MULTILINE)
_DIAGNOSED = re.compile(
    r"^\|\s{0,4}(?:GPU Memory|PCIe|Diagnostic|Memory|Targeted Stress|SM Stress)\s{1,40}\|\s{0,4}Pass\b", re.MULTILINE
)
_NOT_SOUND = re.compile(r"^\|[^|\n]{2,60}\|\s{0,4}Fail\b", re.MULTILINE)
_OF_JOBS = ("nccl", "torch", "headers")


def without_unneeded(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; those that touched no job are notes."""
    texts = texts_of(facts) if any(each.severity is not Severity.NOTE for each in findings) else ()
    findings = without_solved([without_switches(each, facts, texts) for each in findings], facts, texts)
    findings = without_waits_that_ended(findings, facts, texts)
    enough = sockets_suffice(findings, facts, texts) if any(SOCKETS in each.title for each in findings) else None
    loud = {each.name for each in findings if each.severity is not Severity.NOTE}
    alone = on_one_host(facts, texts) if loud & OF_RDMA else None
    shared = _shared_memory_alone(texts)
    sound = _sound_since(facts, texts)
    mapped = _mapped_since(facts, texts)
    return [
        _noted(each, shared, " (the job may use shared memory alone, and its results came)")
        if each.name in _OF_RDMA and shared is not None
        else _noted(each, sound, " (more than a day ago, and the diagnosis passed since)")
        if each.name == _OLD and sound is not None
        else _noted(each, enough, " (these hosts show nothing faster, and it was enough)")
        if (SOCKETS in each.title or each.name == NO_LIBRARY) and enough is not None
        else _noted(each, alone, " (all ranks are on one host, and need no RDMA)")
        if each.name in OF_RDMA and alone is not None
        else _noted(each, mapped, " (days ago; the rows are remapped, with none pending, and a job runs since)")
        if each.name == _OF_MEMORY and mapped is not None
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


def _days(text: str) -> list[date]:
    """The days that `dmesg -T` puts before lines, with their years."""
    found = _DAY.findall(text)
    return [date(int(year), _MONTHS.index(month) + 1, min(int(day), 28)) for month, day, year in found]


def _mapped_since(facts: Facts, texts: Sequence[Text]) -> Evidence | None:
    """The row of a GPU whose remapping is done, where all that is said of memory is days old, and of such GPUs."""
    hits = [(scan, scan.hits[_OF_MEMORY]) for scan in facts.scans if _OF_MEMORY in scan.hits]
    lines = [line for _, hit in hits for _, line in hit.lines]
    if not hits or not all(hit.count == hit.dated == len(hit.lines) and hit.last < scan.alive for scan, hit in hits):
        return None
    days = [each for line in lines for each in _days(line)]
    if len(days) < len(lines) or max(each for text in texts for each in _days(text.text)) - max(days) <= timedelta(1):
        return None
    told = [_REMAPPED_XID.search(line) for line in lines]
    buses = {found["bus"].lower() for found in told if found is not None}
    rows = [(text, asked, row) for text in texts for asked in _ASKS_ROWS.finditer(text.text)
            for line in asked["rows"].split("\n") if (row := _ROW.search(line))]  # fmt: skip
    done = {row["bus"].lower() for _, _, row in rows if row["pending"] == row["failed"] == "No"}
    bad = any("Yes" in (row["pending"], row["failed"]) for _, _, row in rows)
    if None in told or bad or not buses <= done:
        return None
    text, asked, _ = rows[0]
    return text.evidence(asked.start())
