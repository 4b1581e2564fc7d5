"""NCCL versions that differ: between ranks, between header and library, between runs, or installed side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.lines.scanned import Scan
from busbw.doctor.signature import Stage
from busbw.doctor.signatures.setting import nccl_versions
from busbw.importers.values import version_of_code
from busbw.machine.nccl.log_model import NcclLog, Said

NAME = "library-versions"
_COST = Cost("versions differ in algorithms and tuning, up to several times at some sizes")
_PROOF = Proof(instruction="measure once with each: busbw all_reduce --library PATH")


def examine(facts: Facts) -> Iterator[Finding]:
    yield from _in_logs(facts)
    yield from _in_records(facts)
    installed = [each for each in facts.snapshot.libraries if each.version]
    versions = sorted({each.version or "" for each in installed})
    if len(versions) > 1:
        yield Finding(
            NAME, Severity.NOTE, f"NCCL {' and '.join(versions)} are installed side by side",
            tuple(Evidence(f"{each.version}, found by {each.found_by}", each.path) for each in installed[:8]), _COST,
            "make sure that what you measure loads the one that training loads", _PROOF,
        )  # fmt: skip


_BROKEN = ("message-truncated", "version-mismatch", "remote-error", "rank-count", "nccl-internal", "nccl-error")
"""What ranks say whose versions do not understand each other."""


def _in_logs(facts: Facts) -> Iterator[Finding]:
    failed = any(name in scan.hits for scan in facts.scans for name in _BROKEN)
    for said in _jobs(facts.logs):
        if len(said) > 1:
            yield Finding(
                NAME, Severity.ERROR if failed else Severity.WARNING,
                f"ranks of one job load NCCL {' and '.join(sorted(said))}",
                tuple(Evidence(f"NCCL {version} on {first.text}", source, first.line)
                      for version, (source, first) in said.items()),
                Cost("ranks may refuse each other, hang, or choose different algorithms"),
                "install one version on all hosts; look at LD_LIBRARY_PATH and the Python environment of each", _PROOF,
                stage=Stage.SETTING,
            )  # fmt: skip
    yield from _in_words(facts)
    for log in facts.logs:
        header, library = log.header_version, log.library_version
        if header and library and header // 100 != library // 100:
            built, run_with = version_of_code(header), version_of_code(library)
            yield Finding(
                NAME, Severity.NOTE, f"a benchmark built for NCCL {built} runs with {run_with}",
                (Evidence(f"nccl-headers={header} nccl-library={library}", log.source, 1),),
                Cost("features that came between are not used"), "build it against the library that is used", _PROOF,
            )  # fmt: skip


_TRUNCATED = ("message-truncated", "version-mismatch")
"""What ranks say alone whose versions do not understand each other."""


def _in_words(facts: Facts) -> Iterator[Finding]:
    """Versions that programs name, where ranks did not understand each other and NCCL's own lines name one alone."""
    if any(len(said) > 1 for said in _jobs(facts.logs)):
        return
    yield from _over_logs(facts)
    for scan in facts.scans:
        hit = scan.hits.get(nccl_versions.SIGNATURE.name)
        told = _named(scan)
        versions = nccl_versions.named([dict(each) for each in hit.groups]) if hit is not None else []
        versions = versions if len(versions) > 1 else sorted(told)
        if len(versions) < 2 or not any(name in scan.hits for name in _TRUNCATED):
            continue
        yield Finding(
            NAME, Severity.ERROR, f"ranks of one job load NCCL {' and '.join(versions)}",
            tuple(told.values()),
            Cost("ranks refuse each other: the messages of their init differ in size"),
            "install one version on all hosts (one image, the same vLLM and PyTorch); look at LD_LIBRARY_PATH and "
            "VLLM_NCCL_SO_PATH of each", _PROOF, stage=Stage.SETTING,
        )  # fmt: skip


def _over_logs(facts: Facts) -> Iterator[Finding]:
    """Versions that the logs of hosts name, each its own, where ranks did not understand each other at their start.

    A communicator that did not come about on one host has no name there which would tell that both are of one job.
    """
    cut = [text for scan in facts.scans if _TRUNCATED[0] in scan.hits for _, text in scan.hits[_TRUNCATED[0]].lines]
    if len(facts.logs) < 2 or not any("bootstrap" in text for text in cut):
        return
    said: dict[str, Evidence] = {}
    for scan in facts.scans:
        told = _named(scan)
        if len(told) == 1:
            said.setdefault(*next(iter(told.items())))
    if len(said) > 1:
        yield Finding(
            NAME, Severity.ERROR, f"hosts of one job load NCCL {' and '.join(sorted(said))}", tuple(said.values()),
            Cost("ranks refuse each other: the messages of their init differ in size"),
            "install one version on all hosts (one image, the same PyTorch); look at LD_LIBRARY_PATH and the Python "
            "environment of each", _PROOF, stage=Stage.SETTING,
        )  # fmt: skip


_BY_PYTORCH = re.compile(
    r"(?:NCCLUtils|ProcessGroupNCCL)\.[ch]pp:\d{1,6}, .{1,160}, NCCL version (2\.\d{1,2}\.\d{1,2})\b"
)
"""PyTorch's errors name the NCCL that it runs with, on all ranks; NCCL's own line is of a job's first rank alone."""


def _named(scan: Scan) -> dict[str, Evidence]:
    """The versions that a log names, each with the first line that does."""
    hits = [scan.hits[name] for name in (nccl_versions.SIGNATURE.name, *_BROKEN) if name in scan.hits]
    found: dict[str, Evidence] = {}
    for hit in hits:
        for line, text in hit.lines:
            by_pytorch = _BY_PYTORCH.search(text)
            own = hit is scan.hits.get(nccl_versions.SIGNATURE.name)
            versions = [by_pytorch[1]] if by_pytorch else nccl_versions.in_line(text) if own else []
            for version in versions:
                found.setdefault(version, Evidence(clean(shortened(text, 200)), scan.source, line))
    return found


def _jobs(logs: Sequence[NcclLog]) -> list[dict[str, tuple[str, Said]]]:
    """The versions of each job. Logs are of one job where they share a communicator: one file per rank is common."""
    jobs: list[tuple[set[str], dict[str, tuple[str, Said]]]] = []
    for log in logs:
        # Older versions print no name that the ranks of a communicator share.
        names = {each.id for each in log.communicators if each.id.startswith("0x")}
        found = {version: (log.source, said) for version, said in log.versions.items()}
        mine = next((job for job in jobs if job[0] & names), None)
        if mine is None:
            jobs.append((names, found))
        else:
            mine[0].update(names)
            mine[1].update({version: said for version, said in found.items() if version not in mine[1]})
    return [versions for _, versions in jobs]


def _in_records(facts: Facts) -> Iterator[Finding]:
    runs = [record.run for record in facts.records]
    versions = {run.library.version: run.run for run in runs if run.library and run.library.version}
    if len(versions) > 1:
        yield Finding(
            NAME, Severity.NOTE, "the records were measured with different versions",
            tuple(Evidence(f"NCCL {version}", f"the record {run}") for version, run in sorted(versions.items())), _COST,
            "compare runs of one version, or say so", _PROOF,
        )  # fmt: skip
