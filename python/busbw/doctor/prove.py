"""Measures what findings really cost here: things as they are against each mended alone, and all mended together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from busbw.analysis.units import format_bytes, format_us
from busbw.analysis.verdict import Verdict, about_as_fast, times_as_fast
from busbw.base.errors import UserError
from busbw.doctor.finding import SCRATCH, Finding
from busbw.experiment.effects import Effect, PointEffect
from busbw.experiment.factors import Factor, Level
from busbw.experiment.loop import Experiment, Measure, Result, Stop
from busbw.experiment.plan import Limits, Plan, check, save
from busbw.experiment.runner import run_trial
from busbw.experiment.trial import Outcome, Trial

WORDS = ("all_reduce", "-b", "64K", "-e", "1G", "-f", "16384", "-n", "12", "-w", "1", "-c", "0")
"""A small and a large size: what costs bandwidth shows at 1 GiB, what costs latency at 64 KiB."""

LARGEST_WITHOUT_LINKS = "64M"
"""1 GiB takes a second and more for each call where ranks share a GPU and all goes over the network's sockets."""

ALL = "all of them"

KEPT = frozenset({"NCCL_NVLS_ENABLE"})
"""Never changed to prove something: where multicast is switched off, something outside NCCL may depend on it."""
_LATENCY_BYTES = 1 << 20
MENDED_TRIALS = 2
"""As often must a measurement succeed with a remedy where it fails without."""


@dataclass(frozen=True)
class Proven:
    """What an experiment says about one finding. `factor` is the speed without it over the speed with it."""

    finding: Finding | None
    verdict: Verdict
    sentence: str
    factor: float | None = None
    low: float | None = None
    high: float | None = None
    with_GBps: float | None = None
    without_GBps: float | None = None
    bytes: int | None = None

    @property
    def confirmed(self) -> bool:
        """Whether mending it makes something surely faster here."""
        return self.verdict is Verdict.FASTER


def words_of(ranks: int, gpus: int) -> tuple[str, ...]:
    """What is measured with so many ranks on so many GPUs."""
    if ranks <= gpus:
        return WORDS
    return tuple(LARGEST_WITHOUT_LINKS if each == "1G" else "1024" if each == "16384" else each for each in WORDS)


def limits_of(seconds: float) -> Limits:
    """When proving stops: as soon as a finding shows at any size, or shows nowhere; somebody waits for it."""
    return Limits(seconds=seconds, rounds=12, trial_seconds=60.0, any_point=True)


@dataclass(frozen=True)
class How:
    """How to measure: `ranks` processes run `words`; the limits suit a doctor that somebody waits for."""

    ranks: int
    words: Sequence[str] = WORDS
    limits: Limits = field(default_factory=lambda: limits_of(120.0))
    tell: Callable[[str], None] = lambda _: None
    measure: Measure = run_trial
    clock: Callable[[], float] = time.monotonic
    keep: frozenset[str] = KEPT


def scratch_of(finding: Finding, folder: Path) -> Path:
    """Where a finding's files lie: two findings may each need an nccl.conf of their own."""
    return folder / "files" / finding.name


def level_of(finding: Finding, folder: Path) -> Level:
    """The alternative of a finding's proof as a level of an experiment."""
    proof, scratch = finding.proof, str(scratch_of(finding, folder))
    environment: dict[str, str | None] = dict.fromkeys(proof.unset)
    for name, value in {**proof.set, **proof.neutral}.items():
        environment[name] = value.replace(SCRATCH, scratch)
    return Level(finding.name, environment, unbind=proof.unbind)


def runnable(finding: Finding, how: How) -> bool:
    """Whether a setting proves it, and one that may be changed."""
    return finding.proof.runnable and not how.keep.intersection((*finding.proof.unset, *finding.proof.set))


def plan_of(findings: Sequence[Finding], folder: Path, how: How) -> tuple[Plan, list[Finding]]:
    """One factor: as it is, each finding mended, and all of them where there are several; and which findings these are.

    Findings with the same remedy are one level: measuring it twice would tell nothing.
    """
    levels: list[Level] = []
    named: list[Finding] = []
    for finding in findings:
        level = level_of(finding, folder)
        if runnable(finding, how) and not any(_same(level, other) for other in levels):
            taken = sum(other.label.split("#")[0] == level.label for other in levels)
            levels.append(replace(level, label=f"{level.label}#{taken + 1}") if taken else level)
            named.append(finding)
    if not levels:
        raise UserError("nothing that was found can be proved by a setting; see `how to prove it` of each finding")
    factor = Factor("mended", (Level("as it is"), *levels, *_together(levels)))
    return check(Plan((factor,), tuple(how.words), how.ranks, limits=how.limits)), named


def _same(a: Level, b: Level) -> bool:
    return dict(a.environment) == dict(b.environment) and a.unbind == b.unbind


def _together(levels: Sequence[Level]) -> list[Level]:
    """All remedies at once, where there are several and no two want different values of one variable."""
    environment: dict[str, str | None] = {}
    for level in levels:
        for name, value in level.environment.items():
            if value is not None and environment.get(name) not in {None, value}:
                return []
            # A remedy that sets a variable knows more than one that only removes it.
            environment[name] = value if value is not None else environment.get(name)
    return [Level(ALL, environment, unbind=any(level.unbind for level in levels))] if len(levels) > 1 else []


def prove(findings: Sequence[Finding], folder: Path, how: How) -> list[Proven]:
    """Run the experiment for these findings and say what each costs; those that no setting proves say so."""
    write_files(findings, folder)
    plan, named = plan_of(findings, folder, how)
    save(plan, folder)
    result = Experiment(plan, folder, how.measure, how.clock, how.tell).run()
    if result.stop is Stop.BASELINE:
        works, failed = _working(plan, result, how), result.findings.baseline[-1]
        judges = [partial(_revived, failed=failed, works=works.get(at)) for at in range(1, len(plan.variants))]
    else:
        judges = [partial(judge_effect, effect=effect) for effect in result.findings.effects]
    remedies = [level_of(finding, folder) for finding in named]
    said = []
    for finding in findings:
        if runnable(finding, how):
            level = level_of(finding, folder)
            said.append(judges[next(at for at, other in enumerate(remedies) if _same(other, level))](finding))
        else:
            said.append(unproved(finding))
    return said + [judge(None) for judge in judges[len(named) :]]


def _working(plan: Plan, result: Result, how: How) -> dict[int, Trial]:
    """Where nothing can be measured as it is: the variants with which it can, twice in turn, by number."""
    until = how.clock() + how.limits.seconds
    works: dict[int, Trial] = {}
    for variant in range(1, len(plan.variants)):
        trials: list[Trial] = []
        while len(trials) < MENDED_TRIALS and (left_s := until - how.clock()) > 0:
            limit_s = min(left_s, how.limits.trial_seconds)
            trials.append(how.measure(plan, 1 + len(trials), variant, result.folder, limit_s))
            how.tell(f"{plan.variants[variant].name}: {trials[-1].outcome.value}")
            if trials[-1].outcome is not Outcome.MEASURED:
                break
        if len(trials) == MENDED_TRIALS and trials[-1].outcome is Outcome.MEASURED:
            works[variant] = trials[-1]
    if not works:
        raise UserError(
            f"things as they are cannot be measured ({result.findings.baseline[-1].reason}), "
            f"nor with what was found mended; {result.folder}/trials holds what was printed"
        )
    return works


def _revived(finding: Finding | None, failed: Trial, works: Trial | None) -> Proven:
    """What is said of one remedy where things as they are give no figure."""
    if works is None:
        return Proven(finding, Verdict.UNDECIDED, f"mending it alone is not enough: {failed.reason}")
    point = max(works.busbw_GBps, key=lambda each: each.bytes)
    rate, size = works.busbw_GBps[point], format_bytes(point.bytes)
    sentence = f"proved: nothing can be measured as it is ({failed.reason}); mended, {rate:.4g} GB/s at {size}, twice"
    return Proven(finding, Verdict.FASTER, sentence, without_GBps=rate, bytes=point.bytes)


def unproved(finding: Finding, why: str = "") -> Proven:
    """What is said of a finding that no experiment can measure, or could not this time."""
    sentence = why or finding.proof.instruction or "no setting that may be changed here proves it"
    return Proven(finding, Verdict.UNDECIDED, f"not measured: {sentence}")


def judge_effect(finding: Finding | None, effect: Effect) -> Proven:
    """One finding's effect as a sentence with GB/s and a factor."""
    point = effect.telling
    if effect.ratio is None or point is None:
        return Proven(finding, Verdict.UNDECIDED, f"not measured: {effect.judgement.reason}")
    verdict = effect.judgement.verdict
    # Sure over all sizes together, though at none alone: then that ratio is what was proved.
    joint = verdict in {Verdict.FASTER, Verdict.SLOWER} and not point.sure
    ratio, interval = (effect.ratio, effect.interval) if joint else (point.ratio, point.interval)
    ends = (interval.low, interval.high) if interval else (ratio, ratio)
    factor = (times_as_fast if interval else about_as_fast)(*ends, "mended it")
    rates = f"{_change(point)}; {factor}" + (" over all sizes together" if joint else "")
    words = {
        Verdict.FASTER: f"proved: {rates}",
        Verdict.SLOWER: f"mending it makes things slower here: {rates}",
        Verdict.NO_DIFFERENCE: f"costs nothing here ({effect.judgement.words()}): {rates}",
        Verdict.UNDECIDED: f"{effect.judgement.words()}: {rates}",
    }
    return Proven(
        finding, verdict, words[verdict], ratio,
        interval.low if interval else None, interval.high if interval else None,
        point.baseline_GBps, point.variant_GBps, point.point.bytes,
    )  # fmt: skip


def _change(point: PointEffect) -> str:
    """What was measured at one size, now and mended."""
    if point.point.bytes < _LATENCY_BYTES:
        change = f"{format_us(point.baseline_us)} now, {format_us(point.variant_us)} mended"
    else:
        change = f"{point.baseline_GBps:.4g} GB/s now, {point.variant_GBps:.4g} GB/s mended"
    return f"{change} at {format_bytes(point.point.bytes)}"


def write_files(findings: Sequence[Finding], folder: Path) -> None:
    """Write the files that the alternatives need."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for finding in findings:
            for name, text in finding.proof.files.items():
                scratch = scratch_of(finding, folder)
                scratch.mkdir(parents=True, exist_ok=True)
                (scratch / Path(name).name).write_text(text, encoding="utf-8")
    except OSError as problem:
        raise UserError(f"the proof's files cannot be written in {folder}: {problem.strerror or problem}") from problem
