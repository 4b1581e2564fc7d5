"""Reads the corpus of faulty logs, gives each a shape in which somebody might post it, and splits it in halves."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
_SAID = re.compile(r"(?P<level>[IW])(?P<gpu>\d+)(?:@(?P<host>[\w.-]+))?\|(?P<rest>.*)")


@dataclass(frozen=True)
class Case:
    """A faulty log; `expected` are the findings that name its cause."""

    name: str
    expected: tuple[str, ...]
    text: str
    shape: str

    @property
    def held_out(self) -> bool:
        """Whether it is of the half at which nobody looks while writing signatures."""
        return number_of(self.name) % 2 == 1


def number_of(name: str) -> int:
    """A number that a name has for ever, by which samples are drawn: no further case changes who is in them."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)


def _line(raw: str, shape: str, index: int) -> str:
    found = _SAID.fullmatch(raw)
    if found is None:
        return raw
    gpu, host = int(found["gpu"]), found["host"] or "n0"
    place, text = ("", found["rest"])
    if found["level"] == "W":
        place, _, text = found["rest"].partition("|")
    who = f"{'' if shape == 'no-host' else host}:{4000 + gpu}:{4100 + gpu}"
    head = f"{who} [{gpu}] " + (f"{place} NCCL WARN " if place else "NCCL INFO ")
    if shape == "own-times" and place:
        head = f"[2026-11-22 10:{index % 60:02}:07] " + head
    return ("\n" if place and shape in {"plain", "mpi"} else "") + head + text


SHAPES: dict[str, Callable[[str, int], str]] = {
    "plain": lambda line, _: line,
    "no-host": lambda line, _: line,
    "own-times": lambda line, _: line,
    "mpi": lambda line, index: f"[1,{index % 4}]<stdout>:{line}",
    "torchrun": lambda line, index: f"[default{index % 4}]:{line}",
    "srun": lambda line, index: f" {index % 4}: {line}",
    "kubernetes": lambda line, index: f"2026-11-22T10:00:{index % 60:02}.123456789Z {line}",
    "colours": lambda line, _: f"\x1b[36m(worker pid=77, ip=10.0.0.3)\x1b[0m {line}",
    "carriage-returns": lambda line, _: line + "\r",
}


def shaped(lines: list[str], shape: str) -> str:
    """The log as that shape shows it."""
    made = [_line(line, shape, index) for index, line in enumerate(lines)]
    parts = [part for line in made for part in line.split("\n")]
    return "\n".join(SHAPES[shape](line, index) if line else line for index, line in enumerate(parts)) + "\n"


def cases() -> Iterator[Case]:
    """Every case of the corpus."""
    for path in sorted(FOLDER.glob("faults-*.txt")):
        for block in re.split(r"^@@ ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            head, _, body = block.partition("\n")
            name, _, expected = head.partition(" | ")
            lines = body.rstrip("\n").split("\n")
            # Files of counters and of commands are not printed by ranks, so that no launcher prefixes them.
            prefixed = any(_SAID.fullmatch(line) for line in lines)
            names = list(SHAPES) if prefixed else ["plain", "carriage-returns"]
            shape = names[number_of(f"shape of {name}") % len(names)]
            yield Case(name, tuple(expected.strip().split("/")), shaped(lines, shape), shape)
