"""Warnings that NCCL wrote into a log and that no signature knows: they are shown, with what to do about any."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage
from busbw.doctor.signatures import SIGNATURES

NAME = "nccl-warnings"
MOST = 5
_PROOF = Proof(instruction="run once more with NCCL_DEBUG=INFO on all ranks and give all logs to `busbw doctor`")


def examine(facts: Facts) -> Iterator[Finding]:
    for log in facts.logs:
        unknown = [each for each in log.warnings if not _has_signature(each.text)]
        for each in unknown[:MOST]:
            times = f" ({each.count} times)" if each.count > 1 else ""
            yield Finding(
                NAME,
                Severity.WARNING,
                f"NCCL warns, and no signature knows it: {each.text[:160]}{times}",
                (Evidence(each.where, log.source, each.line),),
                Cost("the operation failed or took a slower way"),
                "look the sentence up in NCCL's source and issues; the first warning of the first rank tells most",
                _PROOF,
                stage=Stage.FAILURE,
            )


def _has_signature(text: str) -> bool:
    lowered = text.lower()
    return any(each.match(text, lowered) is not None for each in SIGNATURES.values())
