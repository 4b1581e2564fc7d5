"""Copies of a benchmark that were started side by side and know nothing of each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.shown_texts import texts_of
from busbw.doctor.signature import Stage

NAME = "built-without-mpi"


def examine(facts: Facts) -> Iterator[Finding]:
    for scan in facts.scans:
        kinds = scan.kinds
        # One head with several ranks 0 and no other: launchers show the head of a copy only once.
        copies = kinds["starts"] if kinds["alone"] >= 1 else kinds["zeros"] if kinds["starts"] == 1 else 0
        headless = not kinds["starts"] and kinds["alone"] >= 1 and kinds["headers"] > 0
        copies = kinds["zeros"] if headless else copies
        if copies < 2 or kinds["alone"] < 0:
            continue
        if (told := _without_pmi(facts, copies)) is not None:
            yield told
            continue
        yield Finding(
            NAME, Severity.ERROR,
            f"{copies} copies of the benchmark ran side by side, each alone: "
            + ("MPI is not in effect, as it was built without or does not fit its launcher" if headless
               else "it was built without MPI"),
            (Evidence(f"{copies} times rank 0, and no other rank", scan.source),),
            Cost("nothing was measured between the processes"),
            "build nccl-tests with MPI=1 (make MPI=1 MPI_HOME=...), with the MPI whose mpirun starts it; under Slurm "
            "srun --mpi=pmix. Or measure with busbw, which needs no MPI",
            Proof(instruction="ldd all_reduce_perf | grep libmpi"),
            stage=Stage.LAUNCH,
        )  # fmt: skip


_SRUN = re.compile(
    r"^[^\n#]{0,80}?\bsrun (?![^\n]{0,600}--mpi\b)[^\n]{0,600}?(?P<program>\S{0,160}\b\w{2,40}_perf\w{0,8})\b",
    re.MULTILINE,
)
_NONE = re.compile(r"\bMpiDefault\s{0,24}= ?none\b")
_OF_MPI = re.compile(r"\bmpi|_mpi\b|libmpi\.so|\bcommon_ucx\.c\b|\bOPAL\b|\bPMIX\b", re.IGNORECASE)


def _without_pmi(facts: Facts, copies: int) -> Finding | None:
    """Slurm started a program with MPI and gave it nothing by which its tasks find each other."""
    texts = texts_of(facts)
    srun = next(((text, found) for text in texts if (found := _SRUN.search(text.text))), None)
    if srun is None or any("MPI=0" in text.text or "ldd " in text.text for text in texts):
        return None
    text, found = srun
    default = next((other.evidence(each.start()) for other in texts if (each := _NONE.search(other.text))), None)
    if default is None and not _OF_MPI.search(found["program"]):
        return None
    said = "MpiDefault = none, and no --mpi" if default else "no --mpi"
    return Finding(
        NAME, Severity.ERROR,
        f"{copies} copies of the benchmark ran side by side, each alone: srun gave them no PMI ({said}), so that each "
        "took itself for the only rank",
        (text.evidence(found.start("program")), *([default] if default else [])),
        Cost("nothing was measured between the processes"),
        "srun --mpi=pmix (or pmi2: srun --mpi=list shows them, and MPI must be built for it), MpiDefault=pmix in "
        "slurm.conf, or mpirun inside of the allocation. Where ldd shows no libmpi.so, build nccl-tests with MPI=1",
        Proof(instruction="srun --mpi=pmix with the same program: one head, and ranks 0 to N-1 in it"),
        stage=Stage.LAUNCH,
    )  # fmt: skip
