"""Copies of a benchmark that were started side by side and know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage

NAME = "built-without-mpi"


def examine(facts: Facts) -> Iterator[Finding]:
    for scan in facts.scans:
        kinds = scan.kinds
        # One head with several ranks 0 and no other: launchers show the head of a copy only once.
        copies = kinds["starts"] if kinds["alone"] >= 1 else kinds["zeros"] if kinds["starts"] == 1 else 0
        if copies < 2 or kinds["alone"] < 0:
            continue
        yield Finding(
            NAME, Severity.ERROR,
            f"{copies} copies of the benchmark ran side by side, each alone: it was built without MPI",
            (Evidence(f"{copies} times rank 0, and no other rank", scan.source),),
            Cost("nothing was measured between the processes"),
            "build nccl-tests with MPI=1 (make MPI=1 MPI_HOME=...), with the MPI whose mpirun starts it; under Slurm "
            "srun --mpi=pmix. Or measure with busbw, which needs no MPI",
            Proof(instruction="ldd all_reduce_perf | grep libmpi"),
            stage=Stage.LAUNCH,
        )  # fmt: skip
