"""Copies of a benchmark that were started side by side and know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage

NAME = "built-without-mpi"


def examine(facts: Facts) -> Iterator[Finding]:
    for scan in facts.scans:
        if scan.kinds["alone"] < 1:
            continue
        yield Finding(
            NAME, Severity.ERROR,
            f"{scan.kinds['starts']} copies of the benchmark ran side by side, each alone: it was built without MPI",
            (Evidence(f"{scan.kinds['starts']} heads, each with rank 0 alone", scan.source),),
            Cost("nothing was measured between the processes"),
            "build nccl-tests with MPI=1 (make MPI=1 MPI_HOME=...), with the MPI whose mpirun starts it; under Slurm "
            "srun --mpi=pmix. Or measure with busbw, which needs no MPI",
            Proof(instruction="ldd all_reduce_perf | grep libmpi"),
            stage=Stage.LAUNCH,
        )  # fmt: skip
