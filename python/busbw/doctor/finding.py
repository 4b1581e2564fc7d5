"""A finding: what is wrong, how bad, by what evidence, what it costs, how to mend it, and how to prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

SCRATCH = "{scratch}"
"""Stands in values of Proof.set and Proof.neutral for the folder into which Proof.files were written."""


class Severity(Enum):
    """Error: it fails or computes on broken hardware. Warning: it costs bandwidth. Note: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return _RANKS[self.value]


_RANKS = {each.value: at for at, each in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact: a line of a file, a counter, or a figure. `where` is its file, command or device."""

    fact: str
    where: str
    line: int | None = None

    @property
    def place(self) -> str:
        """Where a person can look it up."""
        return f"{self.where}:{self.line}" if self.line is not None else self.where


@dataclass(frozen=True, slots=True)
class Cost:
    """What it is expected to cost: `factor` is bandwidth without it over bandwidth with it; `basis` says why."""

    text: str
    factor: float | None = None
    basis: str = ""


@dataclass(frozen=True, slots=True)
class Proof:
    """The alternative to measure against things as they are.

    The alternative's environment is the present one without `unset`, then with `set`, then with `neutral`. NCCL always
    reads /etc/nccl.conf and sets what is absent, so a variable from there is undone by a value without effect: those
    are in `neutral`. Another conf file is replaced by a copy without their lines; `copies` says which. `files` are
    texts to write into a scratch folder first; {scratch}/NAME in values stands for them.
    `unbind` means: run the ranks on all processors. Where no setting can show it, `instruction` says what a person has
    to do, and `runnable` is false.
    """

    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    neutral: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    unbind: bool = False
    instruction: str = ""
    copies: tuple[str, ...] = ()

    @property
    def runnable(self) -> bool:
        """Whether an experiment can measure it without a person."""
        return bool(self.set or self.unset or self.neutral or self.unbind)

    def environment(self, present: Mapping[str, str], scratch: str) -> dict[str, str]:
        """The alternative's environment, its files being in the folder `scratch`."""
        changed = {name: value for name, value in present.items() if name not in self.unset}
        for name, value in (*self.set.items(), *self.neutral.items()):
            changed[name] = value.replace(SCRATCH, scratch)
        return changed


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the doctor found; `name` is the finding's name in the list and in the documentation.

    `stage` orders causes before effects (busbw.doctor.signature.Stage); `known` says since when and from where the
    words of a log are known. `undecided` means: a fault here and none there, by what nobody told, so that nothing else
    may be called health.
    """

    name: str
    severity: Severity
    title: str
    evidence: tuple[Evidence, ...]
    cost: Cost
    fix: str
    proof: Proof
    stage: int = 50
    known: str = ""
    undecided: bool = False
