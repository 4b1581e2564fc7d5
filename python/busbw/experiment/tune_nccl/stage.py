"""A stage of the search: rounds of trials within a budget, kept so that a search which was killed goes on as it was.

What is decided after a round comes from the trials of the rounds before it alone. A search that goes on therefore
decides as it did, measures nothing twice, and comes to the same table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from busbw.base.errors import UsageError, UserError
from busbw.base.files import read_text, replace_text
from busbw.experiment.clock import Clock
from busbw.experiment.loop import append_trial, read_trials
from busbw.experiment.plan import Plan
from busbw.experiment.trial import Outcome, Trial
from busbw.experiment.tune_nccl.rules import Way

TRIAL_S = 120.0
STAGE_NAME, SEARCH_NAME = "stage.json", "search.json"
MOST_BYTES = 1 << 20
MOST_WAYS = 10_000
ALL_ROUNDS = 1 << 30

Measure = Callable[[Plan, int, int, Path, float], Trial]
Times = dict[int, list[float]]


@dataclass
class Stage:
    """The trials of one plan, in its folder."""

    plan: Plan
    folder: Path
    measure: Measure
    clock: Clock
    tell: Callable[[str], None]
    trials: list[Trial] = field(default_factory=list)
    cut_off_at_s: float = 0.0
    """The budget that ended this stage before it was over by itself; it goes on under a larger one alone."""

    def __post_init__(self) -> None:
        self.trials = read_trials(self.folder)
        self.clock.count(self.trials)
        self.cut_off_at_s = _number(_kept(self.folder).get("cut_off_at_s"), self.folder)

    def round(self, number: int, among: Iterable[int], share: float) -> bool:
        """Measure these once in shuffled order; False where the budget ended it."""
        done = {trial.variant for trial in self.trials if trial.round == number}
        order = self.plan.order(number, sorted(set(among)))
        # Things as they are come first at the beginning: without them nothing can be told.
        for variant in sorted(order, key=lambda each: each != 0) if number == 0 else order:
            if variant in done:
                continue
            if self.trials and not self._may_begin(share):
                return False
            trial = self.measure(self.plan, number, variant, self.folder, TRIAL_S)
            self.clock.typical.append(trial.seconds)
            self.trials.append(trial)
            append_trial(self.folder, trial)
            name = self.plan.variants[variant].name
            how = f"{trial.seconds:.1f} s" if trial.outcome is Outcome.MEASURED else trial.reason
            self.tell(f"round {number + 1}, {name}: {how}")
        return True

    def _may_begin(self, share: float) -> bool:
        # A process that goes on has spent a little less than the one before it, which may be a trial's time.
        if self.clock.budget_s > self.cut_off_at_s and self.clock.has_time(share):
            return True
        if self.cut_off_at_s != self.clock.budget_s:
            self.cut_off_at_s = self.clock.budget_s
            _keep(self.folder, {**_kept(self.folder), "cut_off_at_s": self.cut_off_at_s})
        return False

    def failed(self, before: int = ALL_ROUNDS) -> set[int]:
        """Who computed wrong results once, or ended otherwise twice, in the rounds before that one."""
        bad: dict[int, int] = {}
        for trial in self.trials:
            if trial.outcome is not Outcome.MEASURED and trial.round < before:
                bad[trial.variant] = bad.get(trial.variant, 0) + (2 if trial.outcome is Outcome.WRONG else 1)
        return {variant for variant, count in bad.items() if count >= 2}

    def times(self, before: int = ALL_ROUNDS) -> dict[int, Times]:
        """Microseconds by variant and size, one for each round before that one."""
        found: dict[int, Times] = {}
        for trial in self.trials:
            if trial.round < before:
                for size, value in times_of(trial).items():
                    found.setdefault(trial.variant, {}).setdefault(size, []).append(value)
        failed = self.failed(before)
        return {variant: by for variant, by in found.items() if variant not in failed}

    def pairs(self, before: int = ALL_ROUNDS) -> dict[int, dict[str, list[float]]]:
        """Logarithms of how often variant 1 is as fast as variant 0, by size and placement: one a round with both."""
        rounds: dict[int, dict[int, Trial]] = {}
        for trial in self.trials:
            if trial.outcome is Outcome.MEASURED and trial.round < before:
                rounds.setdefault(trial.round, {})[trial.variant] = trial
        logs: dict[int, dict[str, list[float]]] = {}
        for both in rounds.values():
            old, new = (both[each].times_us if each in both else {} for each in (0, 1))
            for point in old.keys() & new.keys():
                by = logs.setdefault(point.bytes, {})
                by.setdefault(point.placement, []).append(math.log(old[point] / new[point]))
        return logs


def times_of(trial: Trial) -> dict[int, float]:
    """The times of a trial by size: of both placements the longer, since a tuner is not told which one a call has."""
    found: dict[int, float] = {}
    for point, value in trial.times_us.items():
        found[point.bytes] = max(value, found.get(point.bytes, 0.0))
    return found


def with_kept(ways: Sequence[Way], folder: Path) -> list[Way]:
    """The ways of a stage in a folder: those that it has keep their numbers, since trials name ways by number."""
    kept = [_way(each, folder) for each in _list(_kept(folder).get("ways", []), folder)]
    every = list(dict.fromkeys((*kept, *ways)))
    if every != kept:
        _keep(folder, {**_kept(folder), "ways": [[way.name, way.channels, way.chunk] for way in every]})
    return every


def unused(folder: Path, table: str) -> Path:
    """Where a table is proven: that folder, or the next beside it whose trials are of this table or that has none."""
    for number in range(1, MOST_WAYS):
        place = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        path = place / "table.txt"
        if not path.exists() or read_text(path, MOST_BYTES, hint="no table is") == table or not read_trials(place):
            return place
    raise UserError(f"{folder.parent} holds {MOST_WAYS} proofs; name another folder")


def begin(folder: Path, said: Mapping[str, object], words: Mapping[str, str]) -> None:
    """Keep what a search was asked for, or UsageError where this folder holds another one: `words` name its parts."""
    try:
        kept = _kept(folder, SEARCH_NAME)
        if not kept:
            replace_text(folder / SEARCH_NAME, json.dumps(said, indent=1) + "\n")
            return
    except UserError as problem:
        raise UserError(f"the search cannot be kept: {problem}") from problem
    for name, value in said.items():
        if kept.get(name) != value:
            raise UsageError(
                f"{folder} holds another search: {words.get(name, name)} was {_shown(kept.get(name))} there and is "
                f"{_shown(value)} now; --resume goes on with the same words and variables"
            )


def _shown(value: object) -> str:
    words = [str(each) for each in value] if isinstance(value, list) else [str(value if value is not None else "")]
    return (" ".join(words) or "not set")[:200]


def _kept(folder: Path, name: str = STAGE_NAME) -> dict[str, object]:
    path = folder / name
    if not path.exists():
        return {}
    text = read_text(path, MOST_BYTES, hint="it is not what `busbw tune nccl` keeps")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path} is not what `busbw tune nccl` keeps ({problem}); begin a new search") from None
    if not isinstance(raw, dict):
        raise UserError(f"{path} is not what `busbw tune nccl` keeps; begin a new search")
    return raw


def _keep(folder: Path, said: Mapping[str, object]) -> None:
    replace_text(folder / STAGE_NAME, json.dumps(said) + "\n")


def _way(raw: object, folder: Path) -> Way:
    match raw:
        case [str(name), int(channels), int(chunk)]:
            return Way(name, channels, chunk)
    raise UserError(f"{folder / STAGE_NAME} has a way that is none: {str(raw)[:60]}; begin a new search")


def _list(raw: object, folder: Path) -> list[object]:
    if not isinstance(raw, list) or len(raw) > MOST_WAYS:
        raise UserError(f"{folder / STAGE_NAME} has no list of ways; begin a new search")
    return raw


def _number(raw: object, folder: Path) -> float:
    if raw is None:
        return 0.0
    if not isinstance(raw, (int, float)) or not 0 <= raw < 1e12:
        raise UserError(f"{folder / STAGE_NAME} has no time of a budget: {str(raw)[:60]}; begin a new search")
    return float(raw)
