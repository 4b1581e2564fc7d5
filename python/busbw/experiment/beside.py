"""The same work beside calls in every trial: counts of calls and products by size, found once on things as they are."""

from __future__ import annotations

import re
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
_PRODUCT = re.compile("product(:0*[1-9][0-9]*(x0*[1-9][0-9]*){2})?")
MOST_SIDE = 16_384
"""The longest side that the engine takes."""

OWN_SHAPE = "128x128x128"
"""What the engine multiplies where no shape is given."""


def with_amounts(plan: Plan, what: str, folder: Path) -> Plan:
    """The plan with `what` beside its calls, in amounts that one trial of things as they are finds."""
    return replace(plan, words=(*plan.words, *words_beside(plan, what, folder)))


def words_beside(plan: Plan, what: str, folder: Path) -> tuple[str, ...]:
    """What the engine is told for that; a folder that has the trial already keeps its amounts."""
    if plan.words[0] in {TORCH, REPLAY}:
        raise UsageError("--beside computes beside the engine's calls; torch-bench and a replay have no product of its")
    require_product(what)
    words = ("--beside", what, *REPETITIONS)
    asis = Factor("value", (Level("as it is"),))
    finding = replace(plan, factors=(asis,), words=(*plan.words, *words), alone=True)
    path = folder / "amounts" / "trials" / "r0000-v000" / RECORD_NAME
    if not (found := _kept(path, what)):
        trial = run_trial(finding, 0, 0, folder / "amounts", plan.limits.trial_seconds)
        if trial.outcome is not Outcome.MEASURED:
            raise UserError(f"the calls cannot be measured beside a product: {trial.reason}")
        found = amounts_of(read_record(path))
    if not found:
        raise UserError(
            "this engine measured nothing beside the calls; it is older than --beside, or no size was measured"
        )
    return (*words, "--beside-amounts", found)


def require_product(what: str) -> None:
    """UsageError for what the engine multiplies nothing for."""
    sides = re.findall("[0-9]+", what)
    if not _PRODUCT.fullmatch(what) or any(int(side.lstrip("0")[:6] or 0) > MOST_SIDE for side in sides):
        shape = f"product:ROWSxCOLUMNSxINNER with sides from 1 to {MOST_SIDE}"
        raise UsageError(f"--beside takes product, or {shape}, not '{what[:60]}'")


def _kept(path: Path, what: str) -> str:
    """The amounts of a trial that came to its end before, "" where there is none."""
    try:
        record = read_record(path)
    except UserError:
        return ""  # none, or one that a kill cut off
    if record.end is None or record.end.outcome != "completed":
        return ""
    product = next((str(case.beside["product"]) for case in record.cases if case.beside), "")
    if product != (what.partition(":")[2] or OWN_SHAPE):
        raise UserError(f"{path.parents[3]} was measured beside a product of {product}; take that, or another folder")
    return amounts_of(record)


def amounts_of(record: Record) -> str:
    """As the engine's --beside-amounts takes them."""
    counts: dict[int, tuple[int, int]] = {}
    for case in record.cases:
        if case.outcome == "measured" and case.beside:
            counts.setdefault(case.bytes, (int(case.beside["calls"]), int(case.beside["products"])))
    return ",".join(f"{size}:{calls}:{products}" for size, (calls, products) in sorted(counts.items()))
