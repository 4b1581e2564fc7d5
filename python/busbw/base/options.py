"""The one table of options: what may be said to which verb, from the data file that the engine is built with."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("options.json")
ENGINE, LAUNCH = "engine", "launch"
MEASURING = "collective"
"""As a verb in the table: `busbw COLLECTIVE`, each of the eleven."""


@dataclass(frozen=True)
class Option:
    """One option as one verb takes it. `half`: who consumes it, the engine, the launch, or this verb itself."""

    name: str
    letter: str = ""
    value: str | None = None  # what help calls its value; None: it takes none
    unit: str = "text"
    default: str | None = None  # as a person would write it
    said: str = ""  # what help says of the default, where that is not `default`
    range: tuple[int | None, int | None] | None = None
    choices: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()  # values that a shell offers; others are taken too
    group: str = "other"
    half: str = "verb"
    theirs: bool = False  # nccl-tests has it
    repeats: bool = False
    needs: str = ""  # the option without which it means nothing
    empty: bool = False  # no text is a value
    writes: bool = False  # its value names a file that is written, not one that is read
    makes: bool = False  # the folders above that file too
    launchers: tuple[str, ...] = ()  # those to which it means something; none: every launcher
    old: tuple[str, ...] = field(default=())  # how it was called, for one release more
    help: str = ""

    @property
    def key(self) -> str:
        """Its name as an attribute."""
        return {"from": "from_"}.get(self.name, self.name.replace("-", "_"))

    @property
    def shown(self) -> str:
        """For messages: -b (--minbytes)."""
        return f"-{self.letter} (--{self.name})" if self.letter else f"--{self.name}"


@dataclass(frozen=True)
class Positional:
    """Words of a verb beside options. `count`: 1, ? for one or none, * for any, + for some, rest for the others."""

    name: str
    count: str
    help: str
    offers: tuple[str, ...] = ()  # what a shell offers, where that is not all collectives

    @property
    def key(self) -> str:
        return self.name.lower()


@cache
def table() -> dict[str, Any]:
    """The data file."""
    found: dict[str, Any] = json.loads(TABLE.read_bytes())
    return found


@cache
def options_of(verb: str) -> tuple[Option, ...]:
    """The options of a verb, in the order of the table."""
    return tuple(_option(entry, verb) for entry in table()["options"] if {verb, "every"} & set(entry["verbs"]))


@cache
def words_of(verb: str) -> tuple[Positional, ...]:
    """What a verb takes beside options."""
    found = table()["words"].get(verb, ())
    return tuple(Positional(name, count, said, tuple(*offers)) for name, count, said, *offers in found)


@cache
def actions_of(verb: str) -> tuple[str, ...]:
    """The second words of a verb that has several: list, show, ... of `runs`."""
    return tuple(name.split()[1] for name in table()["words"] if name.startswith(f"{verb} "))


def title(group: str) -> str:
    """What help calls a group."""
    found: str = table()["groups"][group]
    return found


def groups() -> tuple[str, ...]:
    """In the order in which help shows them."""
    return tuple(table()["groups"])


def _option(entry: dict[str, Any], verb: str) -> Option:
    changed = entry.get("at", {})
    merged = {**entry, **changed.get(verb.split(maxsplit=1)[0], {}), **changed.get(verb, {})}
    old = [each for each in entry.get("old", ()) if verb in each["verbs"]]
    chosen: dict[str, Any] = {name: merged[name] for name in _PLAIN if name in merged}
    chosen |= {name: tuple(merged[name]) for name in _LISTS if merged.get(name)}
    return Option(**chosen, old=tuple(f"--{each['name']}" if "name" in each else f"-{each['letter']}" for each in old))


_PLAIN = (
    "name", "letter", "value", "unit", "default", "said", "group", "half", "theirs", "repeats", "needs", "empty",
    "writes", "makes", "help",
)  # fmt: skip
_LISTS = ("range", "choices", "offers", "launchers")
