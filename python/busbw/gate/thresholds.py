"""Thresholds: what a case must reach, per machine type and shape, from TOML files or from the catalogue's figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

from busbw.analysis.comparison import Shape, shape_of
from busbw.analysis.units import format_bytes
from busbw.base.errors import UserError
from busbw.base.files import read_text
from busbw.base.quantities import parse_bytes
from busbw.base.toml import parse_toml
from busbw.records import Record

MAX_FILE_BYTES = 16 << 20
LARGEST = 1e30
_SHAPE_KEYS = ("collective", "type", "op", "root", "ranks", "placement")
_KEYS = frozenset(
    {
        *_SHAPE_KEYS,
        "machine",
        "machines",
        "bytes",
        "min_busbw_GBps",
        "max_time_us",
        "tolerance_percent",
        "source",
        "reference",
    }
)


@dataclass(frozen=True)
class Threshold:
    """One limit; a dimension that is None applies to any value."""

    machine: str | None
    shape: Shape
    bytes: int
    min_busbw_GBps: float | None
    max_time_us: float | None
    tolerance: float
    source: str
    published: bool = False

    @property
    def floor_GBps(self) -> float | None:
        """The least bus bandwidth that passes."""
        return None if self.min_busbw_GBps is None else self.min_busbw_GBps * (1 - self.tolerance)

    @property
    def ceiling_us(self) -> float | None:
        """The longest time that passes."""
        return None if self.max_time_us is None else self.max_time_us * (1 + self.tolerance)

    def fits_machine(self, machine: str | None) -> bool:
        return self.machine is None or (machine is not None and fnmatchcase(machine.lower(), self.machine.lower()))

    def fits(self, shape: Shape) -> bool:
        pairs = ((getattr(self.shape, name), getattr(shape, name)) for name in _SHAPE_KEYS)
        return all(wanted is None or wanted == found for wanted, found in pairs)

    def __str__(self) -> str:
        return f"{self.shape} at {format_bytes(self.bytes)}"


def shipped() -> list[Threshold]:
    """The published figures that come with busbw."""
    folder = files(__package__)
    return [
        each
        for name in ("azure.toml", "providers.toml")
        for each in parse(folder.joinpath(name).read_text(encoding="utf-8"), f"the shipped thresholds ({name})")
    ]


def load(path: Path) -> list[Threshold]:
    """The thresholds or the baseline of a file."""
    return parse(read_text(path, MAX_FILE_BYTES, hint="that is no file of thresholds"), str(path))


def expected_GBps(thresholds: Sequence[Threshold], machine: str | None, shape: Shape, size: int) -> float | None:
    """The bus bandwidth that the first threshold for this machine, shape and size asks for, without its tolerance."""
    for each in thresholds:
        if each.min_busbw_GBps and each.bytes == size and each.fits_machine(machine) and each.fits(shape):
            return each.min_busbw_GBps
    return None


def parse(text: str, name: str) -> list[Threshold]:
    """Thresholds from TOML; every mistake is named with its table."""
    raw = parse_toml(text, name)
    unknown = raw.keys() - {"threshold", "published"}
    if unknown:
        raise UserError(f"{name}: '{sorted(unknown)[0]}' is unknown; tables are [[threshold]] and [[published]]")
    found: list[Threshold] = []
    for number, table in enumerate(_tables(raw, "threshold", name), start=1):
        found += _thresholds(table, f"{name}: threshold {number}")
    for number, table in enumerate(_tables(raw, "published", name), start=1):
        found += _published(table, f"{name}: published {number}")
    if not found:
        raise UserError(f"{name} holds no threshold")
    return found


def _tables(raw: Mapping[str, Any], key: str, name: str) -> list[dict[str, Any]]:
    tables = raw.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UserError(f"{name}: write [[{key}]] with two brackets")
    return tables


def _thresholds(table: dict[str, Any], where: str) -> Iterator[Threshold]:
    unknown = table.keys() - _KEYS
    if unknown:
        raise UserError(f"{where}: '{sorted(unknown)[0]}' is unknown; known are {', '.join(sorted(_KEYS))}")
    limits = _number(table, "min_busbw_GBps", where), _number(table, "max_time_us", where)
    if limits == (None, None):
        raise UserError(f"{where} limits nothing: give min_busbw_GBps or max_time_us")
    collective = _text(table, "collective", where)
    if collective is None:
        raise UserError(f"{where} names no collective")
    shape = Shape(
        collective, _text(table, "type", where), _text(table, "op", where), _integer(table, "root", where),
        _integer(table, "ranks", where), _text(table, "placement", where),
    )  # fmt: skip
    source = _text(table, "source", where) or where
    for machine in _machines(table, where):
        for size in _sizes(table, "bytes", where):
            published = source.startswith("published figure")
            yield Threshold(machine, shape, size, *limits, _tolerance(table, where), source, published=published)


def _machines(table: dict[str, Any], where: str) -> list[str | None]:
    """The machine types of a table: one, several, or any."""
    several = table.get("machines")
    if several is None:
        return [_text(table, "machine", where)]
    if "machine" in table or not isinstance(several, list) or not all(isinstance(each, str) for each in several):
        raise UserError(f"{where}: machines is a list of texts, and stands instead of machine")
    return list(several)


def _published(table: dict[str, Any], where: str) -> Iterator[Threshold]:
    """Every figure of a catalogue entry at the sizes named."""
    from busbw.records import catalogue

    entry = _text(table, "catalogue", where)
    if entry is None:
        raise UserError(f"{where} names no catalogue entry")
    sizes = set(_sizes(table, "sizes", where))
    tolerance = _tolerance(table, where)
    for record in catalogue.load(entry):
        machines = table.get("machines") or [record.run.machine]
        for case in record.cases:
            if case.bytes in sizes and case.busbw_GBps:
                for machine in machines:
                    yield Threshold(
                        machine, shape_of(case), case.bytes, case.busbw_GBps, None, tolerance, _source(entry, record),
                        published=True,
                    )  # fmt: skip


def _source(entry: str, record: Record) -> str:
    source = record.run.source
    where = (source.url or source.file) if source else "unknown"
    return f"published figure, catalogue:{entry}, {where}"


def _tolerance(table: Mapping[str, Any], where: str) -> float:
    value = _number(table, "tolerance_percent", where)
    if value is None:
        return 0.0
    if value >= 100:
        raise UserError(f"{where}: tolerance_percent is {value:g}, and 100 or more would let anything pass")
    return value / 100


def _number(table: Mapping[str, Any], key: str, where: str) -> float | None:
    value = table.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < LARGEST:
        raise UserError(f"{where}: {key} is {str(value)[:100]}, not a number from 0 to 1e30")
    return float(value)


def _integer(table: Mapping[str, Any], key: str, where: str) -> int | None:
    value = table.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise UserError(f"{where}: {key} is {value!r}, not a whole number")
    return value


def _text(table: Mapping[str, Any], key: str, where: str) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise UserError(f"{where}: {key} is {value!r}, not a text")
    return value


def _sizes(table: Mapping[str, Any], key: str, where: str) -> list[int]:
    value = table.get(key)
    listed: Sequence[Any] = value if isinstance(value, list) else [value]
    try:
        return [size if isinstance(size, int) and not isinstance(size, bool) else parse_bytes(size) for size in listed]
    except (TypeError, ValueError, AttributeError):
        raise UserError(f'{where}: {key} is {value!r}, not a size such as 1048576 or "1M", or a list of them') from None
