"""The table of libnccl-tuner-busbw.so: places, rules, and its text, which library/tuner/table.h describes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.files import read_text

FIRST_LINE = "busbw-tuner 1"
MAX_BYTES = 1 << 20
MAX_RULES = 10_000
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
    return "\n".join([*lines, f"end {sum(len(place.rules) for place in places)}"]) + "\n"


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
    text = read_text(path, MAX_BYTES, what="the table", hint="name one that `busbw tune nccl` wrote")
    lines = text.split("\n")
    if lines[0] != FIRST_LINE:
        raise UserError(f"{path} is no table for NCCL's tuner: its first line is not '{FIRST_LINE}'")
    reading, ended = _Reading(), False
    for number, line in enumerate(lines[1:], start=2):
        if not line or line.startswith("#"):
            continue
        try:
            ended = _line(reading, line, ended=ended)
        except (ValueError, IndexError) as problem:
            raise UserError(f"{path}:{number}: {line[:60]!r} is no line of a table ({problem})") from None
    if not ended:
        raise UserError(f"{path} was cut off: its last line is not `end` and the number of its rules")
    return reading.places


def _line(reading: _Reading, line: str, *, ended: bool) -> bool:
    word, _, rest = line.partition(" ")
    if ended:
        raise ValueError("it follows the line `end`")
    if word == "end":
        reading.close()
        if int(rest) != sum(len(place.rules) for place in reading.places) or int(rest) > MAX_RULES:
            raise ValueError("the count is not that of the rules")
        return True
    if word == "measured":
        reading.close()
    elif word == "rule":
        reading.rules.append(_rule(rest))
    elif word in FACTS and rest and reading.open and not reading.rules:
        reading.facts[word] = rest
    else:
        raise ValueError("no part of a place")
    return False


def _rule(text: str) -> Rule:
    collective, first, last, name, *details = text.split(" ")
    if collective not in COLLECTIVES or int(first) > int(last) or int(first) < 0:
        raise ValueError("no collective and two sizes")
    if name != DEFAULT:
        algorithm, _, protocol = name.partition("/")
        if algorithm not in ALGORITHMS or protocol not in PROTOCOLS:
            raise ValueError("no algorithm and protocol")
    given = dict(detail.split("=", 1) for detail in details)
    gain = given.get("gain")
    interval = tuple(float(end) for end in gain.split("..", 1)) if gain else None
    way = Way(name, int(given.get("channels", 0)), int(given.get("chunk", 0)))
    return Rule(collective, int(first), int(last), way, (interval[0], interval[1]) if interval else None)


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
