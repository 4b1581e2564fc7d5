"""Measures a few idle nodes again and again, so that a fleet which was accepted stays accepted."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.files import read_text
from busbw.base.programs import ask
from busbw.fleet.fabric import Fabric, expand
from busbw.fleet.judge import judge
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.level import Before, judge_levels
from busbw.fleet.options import Options
from busbw.fleet.results import MOST_BYTES, Results, read
from busbw.fleet.run import Asked, Limits, Measurer, StoppedError, alone_with, measure
from busbw.fleet.verdict import Verdict
from busbw.fleet.words import Launching, compressed

EARLIER = 5  # turns that the next one is compared with
MOST_FILES = 10_000
ASK_S = 30.0
_NAME = re.compile(r"turn-\d{8}T\d{6}Z(-\d+)?\.jsonl")


@dataclass(frozen=True)
class Turns:
    """How often, how many nodes, and with what a turn is compared."""

    every: float
    turns: int  # 0: until it is ended
    at_most: int
    expected: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """What one turn says."""

    fabric: Fabric
    known: Knowledge
    verdicts: list[Verdict]
    results: Results


def idle_nodes(nodes: Sequence[str]) -> tuple[str, ...]:
    """Those that Slurm calls idle, in the order given."""
    answer = ask(["sinfo", "--noheader", "--Node", "--format=%N %T", f"--nodes={compressed(nodes)}"], ASK_S)
    if answer.returncode:
        said = (answer.stderr.strip().splitlines() or ["it said nothing"])[0]
        raise UserError(f"sinfo does not say which nodes are idle: {said[:200]}; --idle needs Slurm")
    # --states=idle would name drained nodes too, on which a step waits for ever; `idle*` does not answer.
    lines = [line.split() for line in answer.stdout.splitlines()]
    idle = {name for words in lines if len(words) == 2 and words[1] == "idle" for name in expand(words[0])}
    return tuple(node for node in nodes if node in idle)


def part_of(fabric: Fabric, nodes: Sequence[str]) -> Fabric:
    """The fabric with these nodes only."""
    chosen = set(nodes)
    pods = {node: pod for node, pod in fabric.pod_of.items() if node in chosen}
    return Fabric(tuple(nodes), pods, fabric.rails, fabric.above)


def kept(folder: Path, say: Callable[[str], object] = lambda _: None) -> list[tuple[str, Results]]:
    """The results of earlier turns, the oldest first; only the last ones are read. What a kill left torn is told."""
    found = []
    for path in sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))[-EARLIER:]:
        try:
            results = read(read_text(path, MOST_BYTES, hint="it is hardly the results of a fleet"), str(path))[2]
        except UserError as problem:
            say(f"an earlier turn is left out: {problem}")
            continue
        found.append((str(path), results))
    return found


@dataclass
class Watcher:
    """Turn after turn over one fabric; results lie in a folder, a file each."""

    fabric: Fabric
    options: Options
    how: Launching
    folder: Path
    limits: Limits
    turns: Turns
    only_idle: bool
    say: Callable[[str], object]
    tell: Callable[[Turn], object]
    by: Measurer | None = None
    _last: dict[str, int] = field(default_factory=dict)

    def run(self) -> int:
        """Exit code 1 where any turn had a fault, else 0."""
        if self.folder.exists() and not self.folder.is_dir():
            raise UserError(f"{self.folder} is no folder; `busbw fleet watch` writes a file for each turn into one")
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder, os.O_RDONLY)
        try:
            alone_with(self.folder, lock)
            for left in self.folder.glob("turn-*.jsonl.work"):
                shutil.rmtree(left, ignore_errors=True)  # of a turn that was killed
            return self._turns()
        finally:
            os.close(lock)

    def _turns(self) -> int:
        found, number = 0, 0
        while True:
            number += 1
            begun = time.monotonic()
            turn = self._turn(number)
            if turn:
                found |= bool(turn.verdicts)
                self.tell(turn)
            if number == self.turns.turns:
                return int(found)
            time.sleep(max(0.0, self.turns.every - (time.monotonic() - begun)))

    def _turn(self, number: int) -> Turn | None:
        nodes = self._chosen()
        if len(nodes) < 2:
            self.say(f"turn {number}: {len(nodes)} of {len(self.fabric.nodes)} nodes are idle; nothing is measured")
            return None
        for node in nodes:
            self._last[node] = number
        self.say(f"turn {number}: {compressed(nodes)}")
        fabric, results, earlier = part_of(self.fabric, nodes), Results(), kept(self.folder, self.say)
        try:
            asked = Asked(fabric, self.options, results, self.by)
            measure(asked, self.how, self._file(), self.limits, lambda _: None)
        except StoppedError as stopped:
            self.say(f"turn {number}: {stopped}")
        known = results.knowledge()
        verdicts = judge(fabric, known, self.options)
        verdicts += judge_levels(results, Before(self.turns.expected, earlier), self.options, verdicts)
        return Turn(fabric, known, sorted(verdicts, key=lambda v: (-v.loss, v.name)), results)

    def _chosen(self) -> list[str]:
        """Those whose turn it is: measured longest ago first."""
        nodes = idle_nodes(self.fabric.nodes) if self.only_idle else self.fabric.nodes
        return sorted(nodes, key=lambda node: self._last.get(node, 0))[: self.turns.at_most]

    def _file(self) -> Path:
        stem = time.strftime("turn-%Y%m%dT%H%M%SZ", time.gmtime())
        for number in range(MOST_FILES):
            file = self.folder / (f"{stem}.jsonl" if number == 0 else f"{stem}-{number}.jsonl")
            if not file.exists():
                return file
        raise UserError(f"{self.folder} has too many turns of this second")


def not_queued(how: Launching, inside_allocation: bool) -> Launching:
    """A turn must never wait in Slurm's queue: who is not free at once is left for the next."""
    if how.launcher != "srun" or inside_allocation:
        return how
    return replace(how, launcher_arguments=("--immediate=30", *how.launcher_arguments))
