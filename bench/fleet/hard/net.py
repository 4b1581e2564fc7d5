"""Another simulated fabric, which shares no code with busbw's own: flows over links that have a capacity.

A ring sends one flow from each node to the next. A link is shared by the flows of all groups that run at the same time.
A group is as fast as its slowest flow. Hooks change what a group, a node or a sample gives.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from busbw.fleet.fabric import Fabric
from busbw.fleet.trial import INSIDE, Outcome, Trial

LEVELS = {"nvlink": 370.0, "pcie": 52.0, "nic": 49.0, "rail": 46.0, "latency": 90_000.0}
Link = tuple[str, ...]


class Truth(NamedTuple):
    """A fault that is to be named: any of these kinds at any of these places."""

    kinds: frozenset[str]
    places: frozenset[str]
    channels: frozenset[str] = frozenset()  # any, where empty
    told: bool = False  # a sentence among the doubts that names the place is enough


def truth(kinds: str, places: str, channels: str = "", *, told: bool = False) -> Truth:
    """Words with spaces between."""
    return Truth(frozenset(kinds.split()), frozenset(places.split() or [""]), frozenset(channels.split()), told)


Path = Callable[[str, str, int], Sequence[Link]]


@dataclass
class Net:
    """What is measured. `paths` gives the links of a flow from a to b on a rail, without the nodes' own."""

    fabric: Fabric
    paths: Path
    seed: int
    noise: float = 0.01
    drift: float = 0.008
    capacity: Callable[[Link], float] = lambda _: 1e9
    """In flows that run at full speed."""
    slow: dict[Link, float] = field(default_factory=dict)
    """Loss of links; of a node's own ("cable", rail, node), of its parts ("nvlink", node), ("nic", rail, node)."""
    group: Callable[[random.Random, Trial, int], float] = lambda *_: 1.0
    """What a whole start is multiplied by."""
    sample: Callable[[random.Random, Trial, int, int], float] = lambda *_: 1.0
    """What one sample is multiplied by."""
    law: Callable[[random.Random], float] = lambda chance: chance.gauss(0, 1)
    now: Callable[[random.Random, int, Link], float] | None = None
    """Loss of a link in this round; without it `slow`."""
    fails: Callable[[random.Random, Trial, int], str] = lambda *_: ""

    def run(self, trials: Sequence[Trial], number: int) -> list[Outcome]:
        """All trials of a round at the same time."""
        chance = random.Random(f"hard {self.seed} {number}")
        slow = dict(self.slow)
        if self.now:
            slow = {link: loss for link in self.slow if (loss := self.now(chance, number, link)) > 0}
        flows = {trial: list(self._flows(trial)) for trial in trials if trial.kind != INSIDE}
        load = Counter(link for each in flows.values() for flow in each for link in flow)
        drifts: dict[str, float] = {}
        found = []
        for trial in trials:
            kind = trial.channel.rstrip("0123456789")
            level = LEVELS[kind] * (1 + drifts.setdefault(f"{trial.kind}{kind}", chance.gauss(0, self.drift)))
            losses = [slow.get(link, 0.0) for link in self._own(trial)]
            level *= 1 - max(losses, default=0.0)
            if flow := flows.get(trial):
                rates = [(1 - slow.get(link, 0.0)) * min(1.0, self.capacity(link) / load[link])
                         for links in flow for link in links]  # fmt: skip
                level *= min(rates, default=1.0)
            reason = self.fails(chance, trial, number) or ("it did not end" if level <= 0 else "")
            level *= self.group(chance, trial, number)
            samples = () if reason else tuple(
                max(1e-6, level * (1 + self.noise * self.law(chance)) * self.sample(chance, trial, number, at))
                for at in range(trial.repeats))  # fmt: skip
            found.append(Outcome(trial, samples, reason))
        return found

    def _own(self, trial: Trial) -> Iterator[Link]:
        """What belongs to the nodes of a trial."""
        digits = trial.channel.lstrip("abcdefghijklmnopqrstuvwxyz")
        if trial.kind == INSIDE:
            node = trial.nodes[0]
            yield ("node", node)
            yield (trial.channel.removesuffix(digits), *([digits] if digits else []), node)
            if trial.channel.startswith("nic"):
                yield ("pcie", digits, node)
            return
        for node in trial.nodes:
            yield ("node", node)
            yield from ((part, digits, node) for part in ("pcie", "nic", "cable"))

    def _flows(self, trial: Trial) -> Iterator[Sequence[Link]]:
        rail = int(trial.channel.lstrip("abcdefghijklmnopqrstuvwxyz"))
        for a, b in zip(trial.nodes, (*trial.nodes[1:], trial.nodes[0]), strict=True):
            yield self.paths(a, b, rail)


@dataclass(frozen=True)
class Case:
    """A fabric with faults, and what is told to the planner."""

    net: Net
    truths: Sequence[Truth]
    expected: Mapping[str, float] = field(default_factory=dict)
    members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The nodes of pods that the planner is not told."""


def fabric(sizes: Sequence[int], rails: int, *, below: int = 0, known: bool = True) -> Fabric:
    """n0000.. in pods p00.. of these sizes, so many pods below a switch above; or no pods are known."""
    names: list[str] = []
    pods: dict[str, str] = {}
    for at, size in enumerate(sizes):
        for _ in range(size):
            name = f"n{len(names):04d}"
            names.append(name)
            pods[name] = f"p{at:02d}"
    above = {f"p{at:02d}": f"t{at // below}" for at in range(len(sizes))} if below else {}
    return Fabric(tuple(names), pods if known else {}, rails, above)


def clos(of: Fabric, spines: int = 8, seed: int = 0, pods: Mapping[str, str] | None = None) -> Path:
    """Leaf and spine; each flow takes one spine by a hash."""
    pod_of = pods if pods is not None else of.pod_of

    @functools.cache
    def paths(a: str, b: str, rail: int) -> Sequence[Link]:
        p, q, r = pod_of.get(a, ""), pod_of.get(b, ""), str(rail)
        if p == q:
            return (("leaf", r, p),)
        spine = random.Random(f"{seed} {a} {b} {rail}").randrange(spines)
        links = [("leaf", r, p), ("up", r, p), ("spine", r, str(spine)), ("up", r, q), ("leaf", r, q)]
        t, u = of.above.get(p, ""), of.above.get(q, "")
        return (*links, ("up", r, t), ("up", r, u)) if t != u else links

    return paths
