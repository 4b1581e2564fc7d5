"""The same work beside calls in every trial: counts of calls and products by size, found once on things as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from busbw.base.errors import UsageError, UserError
from busbw.experiment.factors import Factor, Level
from busbw.experiment.plan import TORCH, Plan
from busbw.experiment.replayed import REPLAY
from busbw.experiment.runner import run_trial
from busbw.experiment.trial import Outcome
from busbw.records import Record, read_record
from busbw.runs.destination import RECORD_NAME

REPETITIONS = ("--batches", "3")


def with_amounts(plan: Plan, what: str, folder: Path) -> Plan:
    """The plan with `what` beside its calls, in amounts that one trial of things as they are finds."""
    if plan.words[0] in {TORCH, REPLAY}:
        raise UsageError("--beside computes beside the engine's calls; torch-bench and a replay have no product of its")
    words = (*plan.words, "--beside", what)
    asis = Factor("value", (Level("as it is"),))
    finding = replace(plan, factors=(asis,), words=(*words, *REPETITIONS), alone=True)
    trial = run_trial(finding, 0, 0, folder / "amounts", plan.limits.trial_seconds)
    if trial.outcome is not Outcome.MEASURED:
        raise UserError(f"the calls cannot be measured beside a product: {trial.reason}")
    found = amounts_of(read_record(folder / "amounts" / "trials" / "r0000-v000" / RECORD_NAME))
    if not found:
        raise UserError(
            "this engine measured nothing beside the calls; it is older than --beside, or no size was measured"
        )
    return replace(plan, words=(*words, *REPETITIONS, "--beside-amounts", found))


def amounts_of(record: Record) -> str:
    """As the engine's --beside-amounts takes them."""
    counts: dict[int, tuple[int, int]] = {}
    for case in record.cases:
        if case.outcome == "measured" and case.beside:
            counts.setdefault(case.bytes, (int(case.beside["calls"]), int(case.beside["products"])))
    return ",".join(f"{size}:{calls}:{products}" for size, (calls, products) in sorted(counts.items()))
