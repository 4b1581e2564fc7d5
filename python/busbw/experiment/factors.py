"""What an experiment varies: factors, their levels, and the combinations of levels that are measured."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from busbw.base.errors import UsageError

UNSET = "unset"
"""As a value of a variable: the variable is removed from the environment."""

MAX_VARIANTS = 256
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Level:
    """One value of a factor: what it changes in the launch. A variable that is None is removed.

    `unbind` runs the ranks on every processor, whatever this process is bound to. `launch` are launch options.
    """

    label: str
    environment: Mapping[str, str | None] = field(default_factory=dict)
    library: str | None = None
    arguments: tuple[str, ...] = ()
    unbind: bool = False
    launch: tuple[str, ...] = ()


@dataclass(frozen=True)
class Factor:
    """A setting that is varied; its first level is the baseline."""

    name: str
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class Variant:
    """One level of every factor: the number of each. Number 0 everywhere is the baseline."""

    name: str
    choice: tuple[int, ...]
    levels: tuple[Level, ...]

    @property
    def environment(self) -> dict[str, str | None]:
        """Every variable that this variant sets or removes."""
        return {name: value for level in self.levels for name, value in level.environment.items()}

    @property
    def set(self) -> dict[str, str]:
        """Those that it sets."""
        return {name: value for name, value in self.environment.items() if value is not None}

    @property
    def removed(self) -> frozenset[str]:
        """Those that it removes."""
        return frozenset(name for name, value in self.environment.items() if value is None)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Words to add to the engine's."""
        words = [word for level in self.levels for word in level.arguments]
        libraries = [level.library for level in self.levels if level.library is not None]
        return (*words, *(("--library", libraries[-1]) if libraries else ()))

    @property
    def launch(self) -> tuple[str, ...]:
        """Launch options to add to those of the plan."""
        return tuple(word for level in self.levels for word in level.launch)

    @property
    def unbind(self) -> bool:
        return any(level.unbind for level in self.levels)


def variants(factors: Sequence[Factor], *, one_at_a_time: bool = False, fewest: int = 2) -> tuple[Variant, ...]:
    """Every combination, the baseline first; or the baseline and each level by itself."""
    counts = [len(factor.levels) for factor in factors]
    choices = _singly(counts) if one_at_a_time else itertools.product(*(range(count) for count in counts))
    found = tuple(_variant(factors, choice) for choice in itertools.islice(choices, MAX_VARIANTS + 1))
    if len(found) > MAX_VARIANTS:
        raise UsageError(f"these values combine to more than {MAX_VARIANTS} variants; vary fewer, or --one-at-a-time")
    if len(found) < fewest:
        raise UsageError("an experiment needs something to vary: --vary NAME=VALUE,VALUE")
    return found


def _singly(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    yield (0,) * len(counts)
    for i, count in enumerate(counts):
        for level in range(1, count):
            yield (0,) * i + (level,) + (0,) * (len(counts) - i - 1)


def _variant(factors: Sequence[Factor], choice: tuple[int, ...]) -> Variant:
    levels = tuple(factor.levels[number] for factor, number in zip(factors, choice, strict=True))
    changed = [(factor, level) for factor, level, number in zip(factors, levels, choice, strict=True) if number]
    name = " ".join(_said(factor, level) for factor, level in changed) or "baseline"
    return Variant(name, choice, levels)


def _said(factor: Factor, level: Level) -> str:
    return f"{factor.name}={level.label}" if level.label else factor.name


def variable(text: str) -> Factor:
    """The factor of `NAME=A,B`, or `NAME=A|B` where values hold commas; one value is compared with none."""
    name, equals, rest = text.partition("=")
    if not equals or not VARIABLE.fullmatch(name):
        raise UsageError(f"'{text}' varies nothing; write it as NAME=VALUE,VALUE, such as NCCL_ALGO=Ring,Tree")
    values = rest.split("|") if "|" in rest else rest.split(",")
    _refuse_doubles(text, values)
    levels = tuple(Level(value, {name: None if value == UNSET else value}) for value in values)
    return Factor(name, levels if len(levels) > 1 else (Level("as it is"), *levels))


def library(text: str) -> Factor:
    """The factor of `A,B`: libraries as the engine's --library takes them."""
    values = text.split("|") if "|" in text else text.split(",")
    _refuse_doubles(text, values)
    levels = tuple(Level(value, library=value) for value in values)
    return Factor("library", levels if len(levels) > 1 else (Level("as it is"), *levels))


def arguments(text: str, number: int = 1) -> Factor:
    """The factor of `-R 0|-R 2`: words for the engine; an empty part adds none."""
    values = [value.strip() for value in text.split("|")]
    _refuse_doubles(text, values)
    try:
        levels = tuple(Level(value or "none", arguments=tuple(shlex.split(value))) for value in values)
    except ValueError as problem:
        raise UsageError(f"'{text}' cannot be split into words: {problem}") from None
    name = "arguments" if number == 1 else f"arguments {number}"
    return Factor(name, levels if len(levels) > 1 else (Level("as it is"), *levels))


def _refuse_doubles(text: str, values: Sequence[str]) -> None:
    for value in values:
        if values.count(value) > 1:
            raise UsageError(f"'{text}' names '{value}' twice; every value is measured in every round anyway")
