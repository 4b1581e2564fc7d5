"""The plan of an experiment: what is varied, what is run, when to stop; a value that can be kept and read again."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from busbw.analysis.verdict import MARGIN
from busbw.base.acting import set_by_others
from busbw.base.errors import UsageError, UserError
from busbw.base.files import replace_text
from busbw.base.options import MEASURING, options_of
from busbw.base.words import Reader
from busbw.experiment.factors import VARIABLE, Factor, Level, Variant, variants
from busbw.experiment.own_conf import refuse_where_it_stays
from busbw.experiment.replayed import REPLAY, check_words
from busbw.launch.engine import VARIABLE as ENGINE
from busbw.records import Collective

PLAN_NAME = "experiment.json"
SCHEMA = 1
_COLLECTIVES = frozenset(get_args(Collective)) - {"barrier"}
TORCH = "torch-bench"
"""As the first word of what is measured: what torch.distributed gets, in the words of `busbw torch-bench`."""
_OF_THE_WHOLE = frozenset({"dry-run", "help", "version", "budget"})
"""Options with which a trial would measure nothing, or that bound several."""


@dataclass(frozen=True)
class Limits:
    """When to stop: `alpha` is the chance of any false claim in the whole experiment.

    With `any_point` a variant that is surely different at one size is settled, whatever the others do, and measured no
    more: for those who want to know what each costs, not which is best.
    """

    seconds: float = 600.0
    rounds: int = 60
    min_rounds: int = 3
    trial_seconds: float = 120.0
    alpha: float = 0.05
    margin: float = MARGIN
    any_point: bool = False


@dataclass(frozen=True)
class Plan:
    """`words` are a collective and the engine's options. Every trial starts `ranks` processes as `launch` says."""

    factors: tuple[Factor, ...]
    words: tuple[str, ...]
    ranks: int = 1
    launch: tuple[str, ...] = ()
    one_at_a_time: bool = False
    seed: int = 1
    limits: Limits = Limits()
    alone: bool = False
    """Whether things as they are may be all that is measured: nothing needs to vary."""

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """Every combination that is measured; kept, since each trial asks for it."""
        return variants(self.factors, one_at_a_time=self.one_at_a_time, fewest=1 if self.alone else 2)

    def order(self, number: int, among: list[int]) -> list[int]:
        """The order of one round: the same for the same seed, so that a resumed experiment goes on as it would have."""
        shuffled = sorted(among)
        random.Random(f"{self.seed} {number}").shuffle(shuffled)
        return shuffled


def check(plan: Plan) -> Plan:
    """The plan, or a sentence that says what cannot be run."""
    if not plan.words or plan.words[0] not in {*_COLLECTIVES, TORCH, REPLAY}:
        given = f"'{plan.words[0]}' is none" if plan.words else "none was given"
        raise UsageError(f"this measures a collective, and {given}; end with `-- all_reduce -b 1M -e 1G -f 4`")
    if plan.words[0] == REPLAY:
        check_words(plan.words, plan.launch)
    else:
        _check_words(plan.words[0], plan.words[1:])
    limits = plan.limits
    if plan.ranks < 1:
        raise UsageError(f"--ranks {plan.ranks}: a job has at least one rank")
    for name, value in (("--budget", limits.seconds), ("--trial-limit", limits.trial_seconds)):
        if not 0 < value < 1e7:
            raise UsageError(f"{name} {value:g}: the limit must be more than 0 seconds and less than a year")
    if not limits.min_rounds <= limits.rounds <= 10_000:
        raise UsageError(f"--rounds {limits.rounds}: between {limits.min_rounds} and 10000 rounds make an experiment")
    names = [factor.name for factor in plan.factors]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled:
        raise UsageError(f"{doubled} is varied twice; give all its values at once: --vary {doubled}=A,B,C")
    _check_variants(plan)
    return plan


def _check_variants(plan: Plan) -> None:
    for variant in plan.variants:  # which also refuses too many and too few
        for variable, setting in variant.environment.items():
            if not VARIABLE.fullmatch(variable) or "\0" in (setting or ""):
                raise UsageError(f"{variable!r} cannot be set: names have letters, digits and _, values no NUL")
            if setting is None:
                _check_removable(variable, {**os.environ, **variant.set})
    if plan.words[0] != REPLAY:
        for more in {variant.arguments for variant in plan.variants}:
            _check_words(plan.words[0], (*plan.words[1:], *more))


def _check_words(collective: str, words: tuple[str, ...]) -> None:
    """UsageError for words that no trial would measure with, or whose record the engine would keep elsewhere."""
    verb = TORCH if collective == TORCH else MEASURING
    lenient = verb == MEASURING and bool(os.environ.get(ENGINE))  # that one may know options which the table does not
    read = Reader(options_of(verb), f"busbw {collective}", lenient=lenient).read(words)
    for word in (*([] if lenient or verb == TORCH else read.plain), *read.rest):
        raise UsageError(f"'{word}' is no option of {collective}, and nothing else is expected after it")
    for name in (each.option.name for each in read.given if each.option is not None):
        if name in {"record", "runs", "no-record"}:
            raise UsageError(f"--{name} belongs to no experiment: it keeps the records of its trials itself")
        if name in _OF_THE_WHOLE:
            raise UsageError(f"--{name} is for the whole and not for each trial: say it before the `--`")


def _check_removable(variable: str, environ: Mapping[str, str]) -> None:
    """UsageError for a variable that a file sets anew in each process and that no value takes back."""
    refuse_where_it_stays(variable, environ)
    if (other := set_by_others(environ).get(variable)) is not None:
        path, line = other
        raise UsageError(
            f"{variable} cannot be unset: line {line} of {path} sets it where the environment does not; "
            "remove that line for the experiment, or name the value that it should have"
        )


def save(plan: Plan, folder: Path) -> None:
    """Write the plan into the experiment's folder."""
    text = json.dumps({"schema": SCHEMA, **asdict(plan)}, indent=1, ensure_ascii=False)
    try:
        replace_text(folder / PLAN_NAME, text.encode(errors="backslashreplace").decode() + "\n")
    except UserError as problem:
        raise UserError(f"the experiment cannot be kept: {problem}") from problem


def load(folder: Path) -> Plan:
    """The plan of an experiment that was started earlier."""
    path = folder / PLAN_NAME
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise UsageError(
            f"{folder} holds no experiment that could go on ({path.name}: {problem.strerror or problem})"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path} is no plan of an experiment: {problem}") from None
    try:
        if raw["schema"] > SCHEMA:
            raise UserError(f"{path} was written by a newer busbw (schema {raw['schema']}); this one reads {SCHEMA}")
        return check(_plan(raw))
    except (KeyError, TypeError, AttributeError, IndexError) as problem:
        raise UserError(f"{path} is no plan of an experiment: {problem!r}") from None


def _plan(raw: Mapping[str, Any]) -> Plan:
    factors = tuple(
        Factor(factor["name"], tuple(_level(level) for level in factor["levels"])) for factor in raw["factors"]
    )
    return Plan(
        factors, tuple(raw["words"]), raw["ranks"], tuple(raw["launch"]), raw["one_at_a_time"], raw["seed"],
        Limits(**raw["limits"]), bool(raw.get("alone", False)),
    )  # fmt: skip


def _level(raw: Mapping[str, Any]) -> Level:
    environment = {str(name): None if value is None else str(value) for name, value in raw["environment"].items()}
    library = None if raw["library"] is None else str(raw["library"])
    return Level(
        str(raw["label"]), environment, library, tuple(map(str, raw["arguments"])), bool(raw["unbind"]),
        tuple(map(str, raw.get("launch", ()))),
    )  # fmt: skip
