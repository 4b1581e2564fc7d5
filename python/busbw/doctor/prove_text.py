"""What proving the findings said, as text for people and as JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from busbw.analysis.verdict import Verdict
from busbw.base.text import paint, sentences
from busbw.doctor.prove import Proven

_STYLES = {Verdict.FASTER: "red", Verdict.SLOWER: "cyan", Verdict.NO_DIFFERENCE: "green", Verdict.UNDECIDED: "yellow"}
TOGETHER = "all of them mended"


def proofs_text(proofs: Sequence[Proven], *, colour: bool = False) -> list[str]:
    """A paragraph per finding: what it costs here, and what to do where it costs something."""
    lines = ["What each costs here, measured"]
    for proof in proofs:
        lines += _one(proof, colour=colour)
    return lines


def _one(proof: Proven, *, colour: bool) -> Iterator[str]:
    name = proof.finding.name if proof.finding else TOGETHER
    said = sentences([f"{name}: {proof.sentence}"], bullet="- ")
    said[0] = said[0].replace(name, paint(name, _STYLES[proof.verdict], colour=colour), 1)
    yield from said
    if proof.finding is not None and proof.confirmed:
        yield from sentences([proof.finding.fix], indent="  ", bullet="do: ")


def proofs_json(proofs: Sequence[Proven]) -> list[dict[str, Any]]:
    """The same for programs; `factor` is the speed without the fault over the speed with it."""
    return [
        {
            "name": proof.finding.name if proof.finding else None,
            "verdict": _word(proof),
            "sentence": proof.sentence,
            "factor": proof.factor,
            "interval": [proof.low, proof.high] if proof.low is not None else None,
            "bytes": proof.bytes,
            "now_busbw_GBps": proof.with_GBps,
            "mended_busbw_GBps": proof.without_GBps,
        }
        for proof in proofs
    ]


def _word(proof: Proven) -> str:
    return {
        Verdict.FASTER: "proved", Verdict.SLOWER: "mending is slower", Verdict.NO_DIFFERENCE: "costs nothing here",
        Verdict.UNDECIDED: "not sure",
    }[proof.verdict]  # fmt: skip
