"""The outcome of a bisection for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from busbw.analysis.units import format_bytes
from busbw.analysis.verdict import Judgement, Verdict, format_ratio
from busbw.experiment.bisect.search import SHARE, Bisection, Change, not_monotone
from busbw.experiment.loop import Stop

RELEASES, VALUES = "release", "value"


def result_text(done: Bisection, changes: Sequence[Change], what: str) -> str:
    """For each size what happened, then the steps that were taken."""
    labels = done.labels
    trials = sum(probe.trials for probe in done.probes)
    lines = [f"{labels[0]} to {labels[-1]}: {len(labels)} {what}s, {len(done.probes)} steps, {trials} trials"]
    slow = {change.key: change for change in changes}
    for key, found in done.ends.items():
        name = f"  {key[0]} {format_bytes(key[1])}: "
        if key in slow:
            lines += [name + _named(slow[key], labels, what), *_remarks(done, slow[key])]
        else:
            lines.append(name + found.words(labels[-1]) + (f" as {labels[0]}" if found.verdict in _DIFFERENT else ""))
    lines += ["steps:", *(_step(done, number) for number in range(len(done.probes)))]
    if done.stop is Stop.TIME:
        lines.append("The time was up; --resume goes on.")
    return "\n".join(lines) + "\n"


_DIFFERENT = frozenset({Verdict.FASTER, Verdict.SLOWER})


def _named(change: Change, labels: Sequence[str], what: str) -> str:
    before, at = labels[change.before], labels[change.at]
    whole = f"{_as_fast(change.whole, labels[-1], labels[0])}"
    if change.at - change.before > 1:
        failed = ", ".join(labels[each] for each in change.between)
        return f"slower somewhere after {before} and up to {at}; {failed}: not measured. Over all: {whole}"
    sure = "" if sure_of(change) else " (not sure)"
    if change.step is None:
        return f"slower from {what} {at} on, after {before}{sure}. Over all: {whole}"
    if change.before == 0 and change.step is change.whole:
        return f"slower from {what} {at} on{sure}: {whole}"
    return f"slower from {what} {at} on{sure}: {_as_fast(change.step, at, before)}. Over all: {whole}"


def _as_fast(found: Judgement, one: str, other: str) -> str:
    return f"{found.words(one)} as {other}" if found.verdict in _DIFFERENT else f"{one} and {other}: {found.words()}"


def sure_of(change: Change) -> bool:
    """Whether a single value is named, and its own step is surely slower.

    A step on the way that was not sure can have led astray, and then the last two do not differ. Where they surely do,
    by a good share of the whole, nothing that came before takes that back.
    """
    step = change.step
    if change.at - change.before != 1 or step is None or step.verdict is not Verdict.SLOWER:
        return False
    return change.sure or _explains(step, change.whole)


def _explains(step: Judgement, whole: Judgement) -> bool:
    if step.interval is None or not whole.ratio:
        return False
    return math.log(step.interval.high) < SHARE * math.log(whole.ratio)


def _remarks(done: Bisection, change: Change) -> list[str]:
    labels, remarks = done.labels, []
    if change.step is not None and change.step.verdict in {Verdict.FASTER, Verdict.NO_DIFFERENCE}:
        remarks.append("measured next to each other these two do not differ so: what was found does not repeat")
    elif change.rest is not None and change.rest < 1 - 2 * done.plan.limits.margin:
        remarks.append(f"other steps slow it down too: without this one it would be {format_ratio(change.rest)} "
                       "times as fast as at first; bisect the parts before and after it")  # fmt: skip
    elif change.rest is not None and change.rest > 1 + 2 * done.plan.limits.margin:
        remarks.append(f"other steps make up for a part of it: over all it is {format_ratio(change.rest)} times as "
                       "fast as this step alone leaves it")  # fmt: skip
    for early, late in not_monotone(done.probes, change.key, done.plan.limits.margin)[:3]:
        remarks.append(f"not monotone: {labels[late]} is faster than {labels[early]}; other steps lie between them")
    return [f"    {remark}" for remark in remarks]


def _step(done: Bisection, number: int) -> str:
    probe = done.probes[number]
    name = f"  {done.labels[probe.value]} against {done.labels[probe.before]}, {probe.trials} trials: "
    if probe.failed:
        return name + f"left out, {probe.failed}"
    sizes = [f"{format_bytes(key[1])} {_short(found)}" for key, found in probe.judgements.items()]
    return name + "; ".join(sizes)


def _short(found: Judgement) -> str:
    if found.interval is None:
        return "too few rounds"
    return f"{found.interval.low:.3f} to {found.interval.high:.3f}"


def result_json(done: Bisection, changes: Sequence[Change]) -> dict[str, Any]:
    """Everything, by labels."""
    labels = done.labels
    return {
        "values": list(labels),
        "stop": done.stop.name.lower(),
        "changes": [
            {
                "collective": change.key[0], "bytes": change.key[1], "before": labels[change.before],
                "at": labels[change.at], "sure": sure_of(change), "step": _judgement(change.step),
                "whole": _judgement(change.whole), "not_measured": [labels[each] for each in change.between],
                "not_monotone": [
                    [labels[one], labels[two]]
                    for one, two in not_monotone(done.probes, change.key, done.plan.limits.margin)
                ],
            } for change in changes
        ],
        "ends": [{"collective": key[0], "bytes": key[1], **(_judgement(found) or {})}
                 for key, found in done.ends.items()],
        "steps": [
            {"before": labels[probe.before], "value": labels[probe.value], "trials": probe.trials,
             "failed": probe.failed or None,
             "sizes": [{"collective": key[0], "bytes": key[1], **(_judgement(found) or {})}
                       for key, found in probe.judgements.items()]}
            for probe in done.probes
        ],
    }  # fmt: skip


def _judgement(found: Judgement | None) -> dict[str, Any] | None:
    if found is None:
        return None
    interval = [found.interval.low, found.interval.high] if found.interval else None
    return {"speed": found.ratio, "interval": interval, "verdict": found.verdict.value}
