"""The outcome of an experiment for people and for programs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from busbw.analysis.statistics import Interval
from busbw.analysis.units import format_bytes, format_us
from busbw.analysis.verdict import Verdict
from busbw.base.text import columns, paint, sentences, shorten
from busbw.experiment.effects import Contrast, Effect, largest
from busbw.experiment.factors import Variant
from busbw.experiment.loop import Result
from busbw.experiment.trial import TOTAL, Outcome

_STYLES = {"faster": "green", "slower": "red", "crashed": "red", "hung": "red", "wrong": "red"}
_OF_NCCL = re.compile(r"NCCL_[A-Z0-9_]+")


def result_text(result: Result, *, colour: bool = False, points: bool = True) -> str:
    """Tables of effects, then what to do about it in words."""
    variants = result.plan.variants
    lines = _effects(result, variants, colour=colour)
    if points:
        lines += _by_size(result, variants)
    for title, contrasts in (
        ("Settings, averaged over the others", result.findings.main),
        ("Settings together, against the product of each alone", result.findings.interactions),
    ):
        if contrasts:
            lines += ["", title, *_contrasts(contrasts, colour=colour)]
    return "\n".join([*lines, "", *_words(result, variants)]) + "\n"


def _effects(result: Result, variants: Sequence[Variant], *, colour: bool) -> list[str]:
    rows = [["baseline", str(len(result.findings.baseline)), "1", "", _peak(result.findings.effects, 0), ""]]
    styles = {}
    for effect in result.findings.effects:
        said = said_of(effect)
        if colour and said.split()[0] in _STYLES:
            styles[(len(rows), 5)] = _STYLES[said.split()[0]]
        name = shorten(variants[effect.variant].name, 25)
        rows.append(
            [name, str(effect.rounds), _ratio(effect.ratio), _interval(effect.interval), _peak([effect], 1), said]
        )
    table = columns(["variant", "n", "speed", "interval", "GB/s", "verdict"], rows, left=(0, 3, 5), gap="  ")
    return [paint_row(line, number, styles) for number, line in enumerate(table, start=-1)] if colour else table


def paint_row(line: str, number: int, styles: dict[tuple[int, int], str]) -> str:
    """The line with its last word in the style of its row."""
    style = styles.get((number, 5))
    head, gap, last = line.rpartition("  ")
    return f"{head}{gap}{paint(last, style, colour=True)}" if style else line


def said_of(effect: Effect) -> str:
    """One or two words for the table."""
    if effect.broken:
        return effect.failures[-1].outcome.value
    return effect.judgement.verdict.value


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio:.3f}" if ratio < 10 else f"{ratio:.1f}"


def _interval(interval: Interval | None) -> str:
    return f"{_ratio(interval.low)} to {_ratio(interval.high)}" if interval else "-"


def _peak(effects: Sequence[Effect], side: int) -> str:
    """Bus bandwidth at the largest size, of the baseline (0) or the variant (1)."""
    points = [effect.points for effect in effects if effect.points]
    if not points:
        return "-"
    best = largest(points[0])
    return f"{(best.baseline_GBps, best.variant_GBps)[side]:.4g}"


def _by_size(result: Result, variants: Sequence[Variant]) -> list[str]:
    lines: list[str] = []
    for effect in result.findings.effects:
        if len(effect.points) > 1:
            rows = [
                [
                    "" if each.point.placement == TOTAL else format_bytes(each.point.bytes),
                    each.point.placement.replace("_", " "), format_us(each.baseline_us), format_us(each.variant_us),
                    _ratio(each.ratio), _interval(each.interval),
                ]
                for each in effect.points
            ]  # fmt: skip
            lines += ["", f"{shorten(variants[effect.variant].name, 50)}, {result.plan.words[0]} by size"]
            lines += columns(["size", "placement", "baseline", "variant", "speed", "interval"], rows, left=(1, 5))
    return lines


def _contrasts(contrasts: Sequence[Contrast], *, colour: bool) -> list[str]:
    rows = [
        [shorten(each.name, 38), _ratio(said.ratio), _interval(said.interval), said.verdict.value]
        for each in contrasts
        if (said := each.judgement)
    ]
    return columns(["setting", "speed", "interval", "verdict"], rows, left=(0, 2, 3))


def _words(result: Result, variants: Sequence[Variant]) -> list[str]:
    limits = result.plan.limits
    said = [
        f"{len(result.trials)} trials; stopped because {result.stop.value}. Intervals hold at every look and for all "
        f"variants together with {1 - limits.alpha:.0%}; within {limits.margin:.0%} counts as no difference."
    ]
    said += [_failure(effect, variants[effect.variant]) for effect in result.findings.effects if effect.failures]
    said += [
        f"{variants[each.variant].name}: {each.judgement.words()}"
        for each in result.findings.effects
        if each.judgement.verdict is Verdict.UNDECIDED and not each.failures
    ]
    lines = sentences(said)
    return [*lines, *_advice(result, variants)]


def _failure(effect: Effect, variant: Variant) -> str:
    last = effect.failures[-1]
    often = len(effect.failures)
    times = "once" if often == 1 else f"{often} times in a row"
    bound = f", so it runs at most at {effect.bound:.2g} of the baseline's speed" if effect.bound else ""
    verb = {Outcome.CRASHED: "crashed", Outcome.HUNG: "hung", Outcome.WRONG: "computed wrong results"}[last.outcome]
    return f"{variant.name} {verb} {times} ({last.reason}){bound}"


def _advice(result: Result, variants: Sequence[Variant]) -> list[str]:
    best = variants[result.findings.best]
    if not any(effect.rounds for effect in result.findings.effects):
        return sentences(["Nothing was compared: no round has both the baseline and a variant."])
    if result.findings.best == 0:
        return sentences(["No variant is surely faster than the baseline: leave the settings as they are."])
    effect = result.findings.effects[result.findings.best - 1]
    lines = sentences([f"Best: {effect.judgement.words(best.name)} as the baseline."])
    if result.findings.rivals:
        names = ", ".join(variants[number].name for number in result.findings.rivals)
        lines += sentences([f"As fast, for all that is known: {names}."])
    return [*lines, *setting_lines(best)]


def setting_lines(variant: Variant) -> list[str]:
    """The variant as lines for nccl.conf, and what nccl.conf cannot say as shell lines."""
    environment = variant.environment
    lines = []
    conf = [f"{name}={value}" for name, value in environment.items() if value and _OF_NCCL.fullmatch(name)]
    if conf:
        lines += ["", "# for /etc/nccl.conf or ~/.nccl.conf", *conf]
    shell = [
        f"export {name}={shlex.quote(value)}" for name, value in environment.items()
        if value is not None and not _OF_NCCL.fullmatch(name)
    ]  # fmt: skip
    removed = [f"unset {name}" for name, value in environment.items() if value is None]
    if shell or removed:
        lines += ["", "# in the shell that starts the job; no line of nccl.conf may set it again", *shell]
        lines += removed
    if variant.arguments:
        lines += ["", "# options of the measurement, not of NCCL", shlex.join(variant.arguments)]
    if variant.unbind:
        lines += ["", "# do not bind the ranks to the processors that they have now"]
    return lines


def result_json(result: Result) -> dict[str, Any]:
    """The same for programs."""
    variants = result.plan.variants
    return {
        "folder": str(result.folder),
        "stop": result.stop.name.lower(),
        "trials": len(result.trials),
        "alpha": result.plan.limits.alpha,
        "best": variants[result.findings.best].name,
        "rivals": [variants[number].name for number in result.findings.rivals],
        "effects": [_effect_json(effect, variants[effect.variant]) for effect in result.findings.effects],
        "main_effects": [_contrast_json(each) for each in result.findings.main],
        "interactions": [_contrast_json(each) for each in result.findings.interactions],
    }


def _effect_json(effect: Effect, variant: Variant) -> dict[str, Any]:
    return {
        "variant": variant.name,
        "environment": variant.environment,
        "arguments": list(variant.arguments),
        "rounds": effect.rounds,
        "speed": effect.ratio,
        "interval": _ends(effect.interval),
        "verdict": said_of(effect),
        "reason": effect.failures[-1].reason if effect.failures else effect.judgement.reason,
        "words": None if effect.failures else effect.judgement.words(variant.name),
        "speed_at_most": effect.bound,
        "points": [
            {
                "collective": each.point.collective, "bytes": each.point.bytes, "placement": each.point.placement,
                "baseline_us": each.baseline_us, "variant_us": each.variant_us,
                "baseline_busbw_GBps": each.baseline_GBps, "variant_busbw_GBps": each.variant_GBps,
                "speed": each.ratio, "interval": _ends(each.interval),
            }
            for each in effect.points
        ],
    }  # fmt: skip


def _contrast_json(contrast: Contrast) -> dict[str, Any]:
    return {
        "name": contrast.name, "speed": contrast.judgement.ratio, "interval": _ends(contrast.judgement.interval),
        "verdict": contrast.judgement.verdict.value,
    }  # fmt: skip


def _ends(interval: Interval | None) -> list[float] | None:
    return [interval.low, interval.high] if interval else None
