"""How fast the steps of a training went, by its own log: where they became slower and stayed so."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from statistics import median

MOST_STEPS, MOST_LINES = 200_000, 5_000_000
FEWEST = 12
"""Of fewer steps nothing is said: the first ones load data and compile."""
SLOWER = 1.5
_WINDOWS = 8
_LEAST_WINDOW = 3

# Rates before times: a rate knows how much work a step had, since batches and sequences may grow.
_WAYS: tuple[tuple[re.Pattern[str], Callable[[float], float]], ...] = (
    (re.compile(r"throughput per GPU \(TFLOP/s/GPU\): ([\d.]{1,12})"), lambda rate: 1.0 / rate),  # Megatron-LM
    (re.compile(r"\bTFLOPS_per_GPU: ([\d.]{1,12})"), lambda rate: 1.0 / rate),  # NeMo
    (re.compile(r"\bCurrSamplesPerSec=([\d.]{1,12})"), lambda rate: 1.0 / rate),  # DeepSpeed
    (re.compile(r"\btps: ([\d,]{1,12}(?:\.\d{1,4})?)"), lambda rate: 1.0 / rate),  # torchtitan
    (
        re.compile(
            # Of `loss 7.4874 img/s 7158` the figure before the unit is another one's; of `7158 img/s 0.2 s` its own.
            r"(?:\b(?:loss|lr|acc\w{0,8}|top[15]|ppl|mfu|mem\w{0,6}|(?:grad_?)?norm|time|data|step"
            r"|iter\w{0,6}|epoch)[ =:]{1,3}"
            r"[\d.e+-]{1,14} |(?<!\d )\b)"
            r"(?:tokens?|tok|samples|imgs?|images)(?:_per_|[ _]per[ _]|/)(?:s|sec|second)(?:[/_](?:gpu|device|rank))?"
            r"\b\W{1,4}([\d,]{1,12}(?:\.\d{1,4})?)"
        ),
        lambda rate: 1.0 / rate,
    ),
    (
        re.compile(r"(?<![\d.])([\d,]{1,12}(?:\.\d{1,4})?) ?(?:tokens?|tok|samples|imgs?|images)/s(?:ec)?\b"),
        lambda rate: 1.0 / rate,
    ),
    (re.compile(r"elapsed time per iteration \(ms\): ([\d.]{1,12})"), lambda ms: ms / 1e3),
    (re.compile(r"\btrain_step_timing in s: ([\d.]{1,12})"), lambda seconds: seconds),
    (re.compile(r"\biter \d{1,9}: loss [\d.]{1,12}, time ([\d.]{1,12})ms"), lambda ms: ms / 1e3),  # nanoGPT
    (re.compile(r"\b(?:step|iter|batch)[ _]?time\W{1,4}([\d.]{1,12}) ?s?\b(?! ?[mu]s)"), lambda seconds: seconds),
)
_FIRST_TIME = 6
_GENERAL = frozenset({4, 5, 9})
"""Ways of no one program: servers print such rates too, which follow their load."""
_OF_STEP = re.compile(r"\b(?:step|iter|iteration|loss|epoch)\b", re.IGNORECASE)
_BATCH = re.compile(r"global[ _]batch[ _]size: +(\d{1,9})")
WORDS = (
    *("TFLOP", "SamplesPerSec", "tps:", "time per iteration", "train_step_timing", "tokens", "tok/", "tok_", "samples"),
    *("imgs/s", "img/s", "images/s", "image/s", ", time ", "step_time", "step time", "iter_time", "iter time"),
    *("batch_time", "batch time"),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step that a line tells: how long it took, in seconds or, of a rate, in parts of the work."""

    line: int
    cost: float
    said: str
    batch: str = ""


@dataclass(frozen=True, slots=True)
class Slower:
    """From which line on steps took how many times as long, and what the lines say before and after."""

    line: int
    factor: float
    before: Step
    after: Step


def steps_of(lines: Iterable[str]) -> list[Step]:
    """The steps of a log, as the first of its ways to tell them has them; at most MOST_STEPS."""
    ways: dict[int, list[Step]] = {}
    batch = ""
    for number, line in enumerate(islice(lines, MOST_LINES), 1):
        for word in WORDS:  # a generator costs several times as much, for each line of a log
            if word in line:
                break
        else:
            continue
        size = _BATCH.search(line)
        batch = size[1] if size else batch
        for way, (pattern, unit) in enumerate(_WAYS):
            if way in _GENERAL and not _OF_STEP.search(line):
                continue
            if (said := pattern.search(line)) and (figure := _number(said[1])):
                _keep(ways.setdefault(way, []), Step(number, unit(figure), said[0], batch), rate=way < _FIRST_TIME)
                break
    return next((ways[way] for way in sorted(ways) if len(ways[way]) >= FEWEST), [])


def _keep(steps: list[Step], step: Step, *, rate: bool) -> None:
    """Add the step. Times of batches of other sizes do not compare: those of the latest size count."""
    if not rate and steps and steps[-1].batch != step.batch:
        steps.clear()
    if len(steps) < MOST_STEPS:
        steps.append(step)


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "")) or None
    except ValueError:
        return None


def slower(steps: list[Step]) -> Slower | None:
    """Where steps became slower than they had been, up to the end of the log; None where they did not."""
    if len(steps) < FEWEST:
        return None
    width = max(_LEAST_WINDOW, len(steps) // _WINDOWS)
    starts = range(len(steps) % width, len(steps) - width + 1, width)
    middles = [median(step.cost for step in steps[start : start + width]) for start in starts]
    best = min(range(len(middles)), key=middles.__getitem__)
    # The last two windows: one alone may be an evaluation.
    late = min(middles[-2:])
    if best >= len(middles) - 2 or late < SLOWER * middles[best]:
        return None
    limit = (middles[best] * late) ** 0.5
    first = len(steps)
    while first > starts[best] + width and steps[first - 1].cost > limit:
        first -= 1
    after = steps[min(first, len(steps) - 1)]
    return Slower(after.line, middles[-1] / middles[best], steps[starts[best] + width // 2], after)
