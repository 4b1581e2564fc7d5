"""Plays planner and judge against a simulated fabric; counts faults named, good nodes accused, rounds, minutes."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from busbw.fleet.judge import judge
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options
from busbw.fleet.plan import next_round
from busbw.fleet.simulate import Fault, World, run
from busbw.fleet.trial import INSIDE, Trial
from busbw.fleet.verdict import Verdict

START_S = 10.0  # assumed: to start the processes of a round
SAMPLE_S = 0.5  # assumed: one repeat, of some twenty iterations of a large size


@dataclass(frozen=True)
class Score:
    """What became of one simulated fleet."""

    faults: int
    named: int  # with the right kind and place
    missed: tuple[str, ...]
    invented: tuple[str, ...]  # verdicts that no fault stands behind
    accused: int  # good nodes named
    rounds: int
    node_minutes: float
    minutes: float
    planning_ms: float  # the longest round, in processor time


def play(world: World, options: Options) -> Score:
    """Plan, measure and learn until nothing is left to ask; then judge."""
    known = Knowledge()
    slowest = node_seconds = seconds = 0.0
    while True:
        before = time.process_time()
        trials = next_round(world.fabric, known, options)
        slowest = max(slowest, time.process_time() - before)
        if not trials:
            break
        took, nodes = cost(trials)
        seconds += took
        node_seconds += nodes
        known.learn(run(world, trials, known.rounds))
    verdicts = judge(world.fabric, known, options)
    missed, invented, accused = compare(world, verdicts)
    return Score(len(world.faults), len(world.faults) - len(missed), tuple(missed), tuple(invented), accused,
                 known.rounds, node_seconds / 60, seconds / 60, slowest * 1000)  # fmt: skip


def cost(trials: Sequence[Trial]) -> tuple[float, float]:
    """Seconds of a round and seconds of all its nodes: channels inside a node in turn, rails at the same time."""
    busy: dict[str, float] = {}
    for trial in trials:
        takes = SAMPLE_S * trial.repeats
        for node in trial.nodes:
            busy[node] = busy.get(node, 0.0) + takes if trial.kind == INSIDE else max(busy.get(node, 0.0), takes)
    return START_S + max(busy.values(), default=0.0), sum(START_S + takes for takes in busy.values())


def compare(world: World, verdicts: Sequence[Verdict]) -> tuple[list[str], list[str], int]:
    """Faults that were not named, verdicts without a fault, and how many good nodes are accused."""
    names = _names(world.faults)
    real = set(names)
    said = {component(v, real) for v in verdicts}
    missed = [f"{f.where} {f.loss:.3f}" for f, name in zip(world.faults, names, strict=True) if name not in said]
    invented = [f"{v.name} {v.loss:.3f}" for v in verdicts if component(v, real) not in real]
    faulty = {f.where.partition("@")[2] for f in world.faults}
    nodes = set(world.fabric.nodes)
    accused = {v.place for v in verdicts if v.place in nodes and v.place not in faulty}
    return missed, invented, len(accused)


def component(v: Verdict, real: Collection[str] = ()) -> str:
    """A verdict in the words of the simulated fabric; of several that cannot be told apart the one that is slow."""
    rail = v.channel.removeprefix("rail")
    if v.kind == "either":
        among = [f"{kind}{rail}@{place}" for kind, _, place in (one.partition(" ") for one in v.place.split(" or "))]
        among += [one.replace("link", part) for one in among if one.startswith("link") for part in ("cable", "nic")]
        return next((one for one in among if one in real), among[0])
    if v.kind == "latency":
        return f"delay{v.channel.removeprefix('latency')}@{v.place}"
    if v.kind in {"nvlink", "pcie", "nic"}:
        return f"{v.channel}@{v.place}"
    if v.kind == "broken":
        return f"broken@{v.place}"
    return f"spine{rail} {v.place}".strip() if v.kind == "spine" else f"{v.kind}{rail}@{v.place}"


def _names(faults: Sequence[Fault]) -> list[str]:
    """Each fault as far as a verdict can name it: of spines the rail, and that it is a second one."""
    names: list[str] = []
    for fault in faults:
        name = fault.where.partition(".")[0] if fault.where.startswith("spine") else fault.where
        names.append(f"{name} second" if name in names else name)
    return names
