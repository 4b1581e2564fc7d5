"""Whether ours is ahead: against the best other library of the same run, and against what it was meant to reach."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gpu_library.figures import Figure, busbw_GBps
from gpu_library.machine import REPOSITORY
from gpu_library.peers import OWN
from gpu_library.sizes import words

sys.path.insert(0, str(REPOSITORY / "python"))

from busbw.analysis.verdict import Verdict as Judged
from busbw.analysis.verdict import of_runs

Word = Literal["ahead", "level", "behind", "alone", "missing", "wrong"]

TARGETS = Path(__file__).with_name("targets.json")


@dataclass(frozen=True)
class Verdict:
    """One size of one collective."""

    collective: str
    gpus: int
    band: str
    size: int
    word: Word
    ours: Figure | None
    best: Figure | None  # of the others
    best_name: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times as fast ours is as the best other."""
        return self.best.us / self.ours.us if self.ours and self.best else None


def judge(key: tuple[str, int, str], size: int, row: Mapping[str, Figure]) -> Verdict:
    """One row of a table: figures by name of the library. Ours is the faster of its two, unless one is wrong."""
    mine = [row[name] for name in OWN if name in row]
    ours = next((figure for figure in mine if figure.wrong), None) or min(mine, key=lambda each: each.us, default=None)
    others = {name: figure for name, figure in row.items() if name not in OWN and not figure.wrong}
    best_name = min(others, key=lambda name: others[name].us, default="")
    best = others.get(best_name)
    return Verdict(*key, size=size, word=_word(ours, best), ours=ours, best=best, best_name=best_name)


_WORDS: Mapping[Judged, Word] = {Judged.FASTER: "ahead", Judged.SLOWER: "behind"}
"""What busbw's own verdict is called here; no difference and undecided are both level."""


def _word(ours: Figure | None, best: Figure | None) -> Word:
    if ours is None:
        return "missing"
    if ours.wrong:
        return "wrong"
    if best is None:
        return "alone"
    return _WORDS.get(of_runs(best.times, ours.times).verdict, "level")


@dataclass(frozen=True)
class Target:
    """A figure that was to be reached."""

    collective: str
    gpus: int
    band: str
    size: int
    us: float | None = None  # at most
    busbw_GBps: float | None = None  # at least


def load_targets(file: Path = TARGETS) -> tuple[str, list[Target]]:
    """Where the figures come from, and the figures. Raises ValueError for a file that holds something else."""
    kept: Any = json.loads(file.read_text())
    try:
        targets = [Target(**each) for each in kept["targets"]]
        return str(kept["source"]), targets
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file.name}: {error}") from error


@dataclass(frozen=True)
class Reach:
    """A target and what was measured."""

    target: Target
    ours: Figure | None

    @property
    def measured(self) -> float | None:
        if self.ours is None:
            return None
        if self.target.us is not None:
            return self.ours.us
        return busbw_GBps(self.target.collective, self.target.gpus, self.target.size, self.ours.us)

    @property
    def reached(self) -> bool | None:
        if self.ours is None or self.measured is None:
            return None
        if self.ours.wrong:
            return False
        if self.target.us is not None:
            return self.measured <= self.target.us
        return self.target.busbw_GBps is not None and self.measured >= self.target.busbw_GBps


def compare_with_targets(verdicts: Sequence[Verdict], targets: Sequence[Target]) -> list[Reach]:
    found = {(v.collective, v.gpus, v.band, v.size): v.ours for v in verdicts}
    return [Reach(t, found.get((t.collective, t.gpus, t.band, t.size))) for t in targets]


def line(verdict: Verdict) -> str:
    """For the end of a run: `all_reduce, 4 GPUs, graph, 64 KiB: ahead, 3.48 us against 5.61 of MSCCL++ (x 1.61)`."""
    head = f"{verdict.collective}, {verdict.gpus} GPUs, {verdict.band}, {words(verdict.size)}: {verdict.word}"
    if verdict.ours is None:
        return head
    if verdict.best is None or verdict.ratio is None:
        return f"{head}, {verdict.ours.us:.2f} us"
    return (
        f"{head}, {verdict.ours.us:.2f} us against {verdict.best.us:.2f} of {verdict.best_name} (x {verdict.ratio:.2f})"
    )


def reach_line(reach: Reach) -> str:
    """`all_reduce, 4 GPUs, graph, 1 KiB: 2.31 us, meant to be at most 2.2: not reached`."""
    t = reach.target
    wanted = f"at most {t.us:g} us" if t.us is not None else f"at least {t.busbw_GBps:g} GB/s"
    head = f"{t.collective}, {t.gpus} GPUs, {t.band}, {words(t.size)}"
    if reach.measured is None:
        return f"{head}: not measured, meant to be {wanted}"
    unit = "us" if t.us is not None else "GB/s"
    state = "reached" if reach.reached else "not reached"
    return f"{head}: {reach.measured:.2f} {unit}, meant to be {wanted}: {state}"
