"""The table of libnccl-tuner-busbw.so: places, rules, and its text, which library/tuner/table.h describes."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.files import read_bytes
from busbw.base.secrets import shortened

FIRST_LINE = "busbw-tuner 1"
MAX_BYTES = 1 << 20
MAX_RULES = 10_000
MAX_FACT, MAX_SIZE, MAX_CHANNELS, MAX_CHUNK, MAX_RANKS = 200, (1 << 64) - 1, 64, 1 << 30, 10_000_000
"""The bounds of library/tuner/table.cc: a table that the plugin refuses is refused here too."""

FACTS = ("nccl", "gpu", "driver", "topology", "ranks", "nodes")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")
"""Those that NCCL asks a tuner about."""

ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
DEFAULT = "default"


@dataclass(frozen=True, order=True)
class Way:
    """How NCCL is told to do a call: `tree/ll`, or `default` for its own choice; 0 channels are NCCL's own.

    `chunk` is in bytes, 0 NCCL's own; only NCCL from 2.30 on asks for it (interface v6).
    """

    name: str = DEFAULT
    channels: int = 0
    chunk: int = 0

    def __str__(self) -> str:
        channels = f" channels={self.channels}" if self.channels else ""
        return f"{self.name}{channels}{f' chunk={self.chunk}' if self.chunk else ''}"

    @property
    def is_own(self) -> bool:
        """Whether this is what NCCL does by itself."""
        return self == Way()


@dataclass(frozen=True)
class Rule:
    """Calls of `first` to `last` bytes, both included, go that way; `gain` is the interval of what was measured."""

    collective: str
    first: int
    last: int
    way: Way
    gain: tuple[float, float] | None = None

    def __str__(self) -> str:
        gain = f" gain={self.gain[0]:.3f}..{self.gain[1]:.3f}" if self.gain else ""
        return f"rule {self.collective} {self.first} {self.last} {self.way}{gain}"


@dataclass(frozen=True)
class Place:
    """Where rules were measured: the six facts by their names."""

    facts: Mapping[str, str]
    rules: tuple[Rule, ...] = ()

    def lines(self) -> list[str]:
        """As a table has it."""
        return ["measured", *(f"{name} {self.facts[name]}" for name in FACTS), *map(str, self.rules)]


@dataclass
class _Reading:
    places: list[Place] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    open: bool = False

    def close(self) -> None:
        if self.open:
            if set(self.facts) != set(FACTS):
                raise ValueError("a place lacks one of " + ", ".join(FACTS))
            self.places.append(Place(dict(self.facts), tuple(self.rules)))
        self.facts, self.rules, self.open = {}, [], True


def table_text(places: Sequence[Place], remarks: Sequence[str] = ()) -> str:
    """The whole file."""
    lines = [FIRST_LINE, *(f"# {remark}" for remark in remarks)]
    for place in places:
        lines += place.lines()
    before = "\n".join(lines) + "\n"
    return f"{before}end {sum(len(place.rules) for place in places)} hash={hash_of(before)}\n"


def parse_facts(text: str) -> dict[str, str]:
    """What the plugin writes where BUSBW_TUNER_FACTS names a file; UserError for one that lacks a fact."""
    found = dict(line.split(" ", 1) for line in text.splitlines()[1:] if " " in line)
    facts = {name: found.get(name, "").strip() for name in FACTS}
    missing = [name for name, value in facts.items() if not value]
    if missing:
        raise UserError(
            f"the plugin cannot find out {', '.join(missing)} here, and no rule holds where that is not known"
        )
    return facts


def read_table(path: Path) -> list[Place]:
    """The places of a table; UserError names the line that is none."""
    raw = read_bytes(path, MAX_BYTES, what="the table", hint="name one that `busbw tune nccl` wrote")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise UserError(f"the table {path} is no text in UTF-8") from None
    lines = text.split("\n")
    if lines[0] != FIRST_LINE:
        raise UserError(f"{path} is no table for NCCL's tuner: {_no_first_line(lines[0])}")
    reading, ended = _Reading(), False
    for number, line in enumerate(lines[1:], start=2):
        if not line or line.startswith("#"):
            continue
        try:
            ended = _line(reading, line, ended=ended)
            if ended and " " in line.partition(" ")[2]:
                _check_hash(line, "\n".join(lines[: number - 1]) + "\n")
        except (ValueError, IndexError) as problem:
            raise UserError(f"{path}:{number}: {shortened(line, 60)!r} is no line of a table ({problem})") from None
    if not ended or lines[-1]:
        raise UserError(f"{path} was cut off: its last line is not `end` and the number of its rules")
    return reading.places


def _no_first_line(line: str) -> str:
    """What the plugin says too, of a table that came from elsewhere."""
    name, mine = FIRST_LINE.split(" ")
    word, _, version = line.partition(" ")
    if line.startswith("\ufeff"):
        return "it begins with a byte order mark, which an editor added"
    if line == f"{FIRST_LINE}\r":
        return "its lines end with CR and LF; a table has LF alone"
    if word == name and version.isdecimal() and version != mine:
        return f"it is of version {shortened(version, 20)}, and this busbw reads version {mine}"
    return f"its first line is not '{FIRST_LINE}'"


def _line(reading: _Reading, line: str, *, ended: bool) -> bool:
    word, _, rest = line.partition(" ")
    if ended:
        raise ValueError("it follows the line `end`")
    if word == "end":
        reading.close()
        if _number(rest.partition(" ")[0], 0, MAX_RULES) != sum(len(place.rules) for place in reading.places):
            raise ValueError("the count is not that of the rules")
        return True
    if word == "measured" and line == word:
        reading.close()
    elif word == "rule":
        reading.rules.append(_rule(rest))
    elif word in FACTS and rest and reading.open and not reading.rules and word not in reading.facts:
        if len(rest) > MAX_FACT or not (rest.isascii() and rest.isprintable()):
            raise ValueError("the value is long or not printable")
        if word in ("ranks", "nodes"):
            _number(rest, 1, MAX_RANKS)
        reading.facts[word] = rest
    else:
        raise ValueError("no part of a place")
    return False


def _check_hash(line: str, before: str) -> None:
    """Half of an old table and half of a new one may have as many rules as the last line says."""
    if line.split(" ", 2)[2] != f"hash={hash_of(before)}":
        raise ValueError("the hash is not that of the lines before it: it is half written, or was edited")


def _rule(text: str) -> Rule:
    words = text.removesuffix(" ").split(" ")
    if len(words) < 4:
        raise ValueError("a rule has a collective, two sizes, and an algorithm with its protocol")
    collective, begin, end, name, *details = words
    if collective not in COLLECTIVES:
        raise ValueError(f"no tuner is asked about {shortened(collective, 24)!r}")
    first, last = _number(begin, 0, MAX_SIZE), _number(end, 0, MAX_SIZE)
    if first > last:
        raise ValueError("the first size is larger than the last")
    if name != DEFAULT:
        algorithm, _, protocol = name.partition("/")
        if algorithm not in ALGORITHMS or protocol not in PROTOCOLS:
            raise ValueError("no algorithm and protocol")
    # A gain is for people: the plugin does not look what it says.
    gains = [detail for detail in details if detail.startswith("gain=") and detail != "gain="]
    numbers = [detail for detail in details if detail not in gains]
    given = dict(detail.split("=", 1) for detail in numbers)
    if len(given) != len(numbers) or not set(given) <= {"channels", "chunk"}:
        raise ValueError("a detail that no rule has, or twice")
    channels = _number(given["channels"], 1, MAX_CHANNELS) if "channels" in given else 0
    way = Way(name, channels, _number(given["chunk"], 1, MAX_CHUNK) if "chunk" in given else 0)
    if way.is_own or (channels and name.startswith("collnet")):
        raise ValueError("it says nothing, or sets channels of collnet")
    return Rule(collective, first, last, way, _gain(gains[0]) if gains else None)


def _gain(detail: str) -> tuple[float, float] | None:
    with suppress(ValueError):
        low, high = map(float, detail.removeprefix("gain=").split("..", 1))
        return (low, high) if 0 < low <= high < math.inf else None
    return None


def _number(text: str, least: int, most: int) -> int:
    """Digits alone, as the plugin reads them."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and least <= int(text) <= most):
        raise ValueError(f"{shortened(text, 24)!r} is no number from {least} to {most}")
    return int(text)


def merged(old: Sequence[Place], new: Place) -> list[Place]:
    """The new place, before those that are elsewhere; its rules replace those of the same place and collective."""
    measured = {rule.collective for rule in new.rules}
    same = [
        rule for place in old if place.facts == new.facts for rule in place.rules if rule.collective not in measured
    ]
    return [Place(new.facts, (*new.rules, *same)), *(place for place in old if place.facts != new.facts)]


def default_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the plugin looks for a table that BUSBW_TUNER_TABLE does not name."""
    config = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    return Path(config) / "busbw" / "nccl-tuner.txt"


def hash_of(text: str) -> str:
    """FNV-1a of 64 bits, as the plugin hashes a table."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return f"{value:016x}"


def hash_of_file(path: Path) -> str:
    """The same of a table that was saved."""
    return hash_of(path.read_text(encoding="utf-8"))
