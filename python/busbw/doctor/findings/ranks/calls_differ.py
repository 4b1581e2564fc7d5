"""Ranks of one communicator that call different collectives, as NCCL's own lines of its calls tell."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.lines.calls import parted
from busbw.doctor.signature import Stage

NAME = "calls-differ"


def examine(facts: Facts) -> Iterator[Finding]:
    two = parted((each.source, each.calls) for each in facts.scans)
    if two is None:
        return
    (_, one, first, comm), (_, other, second, _) = two
    yield Finding(
        NAME,
        Severity.ERROR,
        f"ranks call different collectives as number {first.number:x} of one communicator: {one} calls "
        f"{first.told}, {other} {second.told}",
        tuple(Evidence(f"{rank} in {comm}: {call.told}", source, call.line) for source, rank, call, _ in two),
        Cost("the job hangs, fails or computes nonsense"),
        "let all ranks take the same branches: the same number of batches, sizes, types and order of collectives. "
        "Start at the two calls that are named: what makes their sizes (uneven last batch, unused parameters)",
        Proof(instruction="confirm: TORCH_DISTRIBUTED_DEBUG=DETAIL names the call in the program"),
        stage=Stage.PROGRAM,
    )
