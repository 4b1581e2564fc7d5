"""NCCL versions that differ: between ranks, between header and library, between runs, or installed side by side."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity

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


def _in_logs(facts: Facts) -> Iterator[Finding]:
    for log in facts.logs:
        if len(log.versions) > 1:
            yield Finding(
                NAME, Severity.WARNING, f"ranks of one job load NCCL {' and '.join(sorted(log.versions))}",
                tuple(Evidence(f"NCCL {v} on {said.text}", log.source, said.line) for v, said in log.versions.items()),
                Cost("ranks may refuse each other, hang, or choose different algorithms"),
                "install one version on all hosts; look at LD_LIBRARY_PATH and the Python environment of each", _PROOF,
            )  # fmt: skip
        header, library = log.header_version, log.library_version
        if header and library and header // 100 != library // 100:
            yield Finding(
                NAME, Severity.NOTE, f"a benchmark built for NCCL {_dotted(header)} runs with {_dotted(library)}",
                (Evidence(f"nccl-headers={header} nccl-library={library}", log.source, 1),),
                Cost("features that came between are not used"), "build it against the library that is used", _PROOF,
            )  # fmt: skip


def _in_records(facts: Facts) -> Iterator[Finding]:
    runs = [record.run for record in facts.records]
    versions = {run.library.version: run.run for run in runs if run.library and run.library.version}
    if len(versions) > 1:
        yield Finding(
            NAME, Severity.NOTE, "the records were measured with different versions",
            tuple(Evidence(f"NCCL {version}", f"the record {run}") for version, run in sorted(versions.items())), _COST,
            "compare runs of one version, or say so", _PROOF,
        )  # fmt: skip


def _dotted(code: int) -> str:
    """22809 is 2.28.9; before 2.9 the code has four digits."""
    if code < 10000:
        return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
