"""NVLinks that are up and count transfer errors."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity

NAME = "nvlink-errors"
_PROOF = Proof(
    instruction="read `nvidia-smi nvlink -e` before and after a measurement: only a counter that grows costs"
)


def examine(facts: Facts) -> Iterator[Finding]:
    for gpu in facts.snapshot.gpus:
        if gpu.nvlink_errors:
            yield Finding(
                NAME,
                Severity.NOTE,  # one look cannot tell a growing counter from an old one
                f"{gpu.nvlink_errors} transfers over NVLinks of GPU{gpu.index} had errors",
                (Evidence(f"replay, recovery, CRC counters: {gpu.nvlink_errors}", facts.who_says(gpu)),),
                Cost("each is a transfer made twice; a growing counter costs bandwidth"),
                "watch `nvidia-smi nvlink -e`; a growing counter is a cable, board or switch to replace",
                _PROOF,
            )
