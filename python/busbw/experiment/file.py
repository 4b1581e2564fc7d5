"""A plan from a TOML file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from busbw.base.errors import UserError
from busbw.base.files import read_text
from busbw.base.quantities import parse_seconds
from busbw.base.sentences import visible
from busbw.base.toml import parse_toml
from busbw.experiment import factors
from busbw.experiment.factors import UNSET, Factor, Level
from busbw.experiment.plan import Limits, Plan, check

MAX_FILE_BYTES = 1 << 20
_TOP = {"command", "ranks", "launch", "one_at_a_time", "seed", "vary", *(each.name for each in fields(Limits))}
_LEVEL = {"label", "environment", "library", "arguments", "unbind"}
_VARY = {"variable", "library", "arguments", "values", "name", "levels"}


def read_plan(path: Path) -> Plan:
    """The plan that the file describes; UserError says what in it cannot be understood."""
    raw = parse_toml(read_text(path, MAX_FILE_BYTES, hint="no plan is"), str(path))
    try:
        return check(_plan(raw))
    except UserError as problem:
        told = visible(str(problem)).replace("\n", "\\n")  # what it quotes may have several lines
        raise UserError(f"{path}: {told}", exit_code=problem.exit_code) from None
    except (TypeError, ValueError, AttributeError) as problem:
        raise UserError(f"{path}: a value has the wrong kind ({problem})") from None


def _plan(raw: Mapping[str, Any]) -> Plan:
    _known(raw, _TOP, "the file")
    tables = raw.get("vary", [])
    if not isinstance(tables, list) or not tables:
        raise UserError("nothing is varied; add [[vary]] tables with variable = ... and values = [...]")
    limits = {each.name: raw[each.name] for each in fields(Limits) if each.name in raw}
    for name in ("seconds", "trial_seconds"):
        if isinstance(limits.get(name), str):
            limits[name] = parse_seconds(limits[name])
    command = raw.get("command", [])
    words = _words(command)
    return Plan(
        tuple(_factor(table, number) for number, table in enumerate(tables, start=1)), words,
        int(raw.get("ranks", 1)), _words(raw.get("launch", ())), bool(raw.get("one_at_a_time", False)),
        int(raw.get("seed", 1)), Limits(**limits),
    )  # fmt: skip


def _factor(table: Mapping[str, Any], number: int) -> Factor:
    _known(table, _VARY, f"[[vary]] {number}")
    if "levels" in table:
        levels = tuple(_level(level, number) for level in table["levels"])
        return Factor(str(table.get("name", f"factor {number}")), levels)
    values = [str(value) for value in table.get("values", [])]
    kinds = [kind for kind in ("variable", "library", "arguments") if kind in table]
    if len(kinds) != 1:
        raise UserError(f"[[vary]] {number} varies a variable, a library or arguments: give one of the three")
    kind = kinds[0]
    if kind == "variable":
        return factors.variable(f"{table[kind]}={'|'.join(values)}")
    joined = "|".join(values or [str(value) for value in table[kind]])
    return factors.library(joined) if kind == "library" else factors.arguments(joined, number)


def _level(raw: Mapping[str, Any], number: int) -> Level:
    _known(raw, _LEVEL, f"a level of [[vary]] {number}")
    environment = {
        str(name): None if value == UNSET else str(value) for name, value in raw.get("environment", {}).items()
    }
    return Level(
        str(raw.get("label", "")), environment, raw.get("library"),
        _words(raw.get("arguments", ())), bool(raw.get("unbind", False)),
    )  # fmt: skip


def _words(value: Any) -> tuple[str, ...]:
    return tuple(shlex.split(value) if isinstance(value, str) else map(str, value))


def _known(table: Mapping[str, Any], known: Sequence[str] | set[str], where: str) -> None:
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise UserError(f"{where}: '{unknown[0]}' is unknown; known are {', '.join(sorted(known))}")
