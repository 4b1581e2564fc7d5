"""How the ranks of a step are spread when there are several ways at once, and where the ranks of a group lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

DATA = ("ddp", "fsdp")
GROUP_OF = {"tp": "tp", "ep": "ep", "pp": "pp", "ddp": "dp", "fsdp": "dp"}


@dataclass(frozen=True)
class Spread:
    """How many ranks each way has; dp is None where the number of all ranks says it."""

    kinds: tuple[str, ...]
    tp: int = 1
    pp: int = 1
    ep: int = 1
    dp: int | None = None

    def on(self, ranks: int) -> Spread:
        """The same on so many ranks in all; ValueError where they do not come out even."""
        each = self.tp * self.pp
        dp = self.dp if self.dp is not None else max(1, ranks // each)
        if dp * each != ranks:
            raise ValueError(f"tp {self.tp} x pp {self.pp} x dp {dp} are not {ranks} ranks")
        if dp % self.ep:
            raise ValueError(f"ep {self.ep} does not divide dp {dp}, over which experts are spread")
        if dp > 1 and not set(DATA) & set(self.kinds):
            raise ValueError(f"{ranks} ranks leave dp {dp}, and parallel names neither ddp nor fsdp")
        return Spread(self.kinds, self.tp, self.pp, self.ep, dp)

    def ranks_of(self, group: str) -> int:
        """How many ranks a group has."""
        return {"tp": self.tp, "pp": self.pp, "ep": self.ep, "dp": self.dp or 1}[group]

    def shape_of(self, group: str, gpus: int) -> tuple[int, int]:
        """Ranks of a group on one node of so many GPUs, and its nodes."""
        if group == "pp":
            return (1, 2) if self.tp * (self.dp or 1) >= gpus else (2, 1)
        size = self.ranks_of(group)
        here = min(size, gpus if group == "tp" else max(1, gpus // self.tp))
        return here, -(-size // here)


def kinds_of(said: object) -> tuple[str, ...]:
    """The ways of a list; ValueError where they do not go together."""
    kinds = tuple(str(each) for each in said) if isinstance(said, list) else ()
    if not kinds or len(set(kinds)) < len(kinds) or set(kinds) - set(GROUP_OF):
        raise ValueError(f"parallel is a list of some of {', '.join(GROUP_OF)}, each once")
    if set(DATA) <= set(kinds):
        raise ValueError("parallel has both ddp and fsdp; the gradients are reduced in one way")
    return kinds


def groups_of(spread: Spread) -> Iterator[str]:
    """Groups of two ranks or more."""
    return (group for group in ("tp", "ep", "dp", "pp") if spread.ranks_of(group) > 1)
