"""A simulated fabric: nodes with GPUs and NICs, leaf switches for each rail of a pod, spines for each rail, and faults.

Traffic between two nodes of a rail goes NIC, cable, leaf, and between pods also leaf, uplink, spine, uplink, leaf. A
ring is as fast as its slowest link. Flows between pods are spread by a hash over `paths` of the spines. Samples have
noise of their own and bursts of foreign load; each round has a drift for each kind of measurement.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.fleet.fabric import Fabric
from busbw.fleet.trial import ACROSS, INSIDE, Outcome, Trial

LINK_GBPS = 48.0  # of a 400 Gb/s NIC, in GB/s
NODE_KINDS = ("nic", "cable", "pcie", "nvlink", "broken")
FABRIC_KINDS = ("leaf", "uplink", "spine")


@dataclass(frozen=True)
class Fault:
    """`where` is a component: nic3@node, cable3@node, pcie2@node, nvlink@node, broken@node, leaf3@pod, uplink3@pod,
    spine3.5 (of rail 3) or delay3@node, which small messages alone feel."""

    where: str
    loss: float  # 0.03: 3 % slower; 1.0: does not work at all


@dataclass(frozen=True)
class World:
    """What the simulated fabric is made of, beside its nodes."""

    fabric: Fabric
    faults: tuple[Fault, ...] = ()
    spines: int = 8
    paths: int = 4
    noise: float = 0.01
    drift: float = 0.01
    bursts: float = 0.01  # share of samples that foreign load makes 20 % slower
    seed: int = 0
    restless: float = 0.0
    """Load that drifts: noise and level of a round follow a walk, with this standard deviation of a step (of the
    logarithm of the noise; a tenth of it for the level)."""
    starts: float = 0.0  # standard deviation from start to start, which repeats of one start do not show
    lapses: float = 0.0  # share of groups that fail although nothing is wrong


def make_fabric(nodes: int, nodes_per_pod: int, rails: int, pods_above: int = 0) -> Fabric:
    """node0000.. in pods pod00.., one pod filled after the other; so many pods below a switch above, or two levels."""
    names = tuple(f"node{number:04d}" for number in range(nodes))
    pods = {name: f"pod{number // nodes_per_pod:02d}" for number, name in enumerate(names)}
    above = {pod: f"top{int(pod[3:]) // pods_above:02d}" for pod in pods.values()} if pods_above else {}
    return Fabric(names, pods, rails, above)


def draw_faults(world: World, count: int, smallest: float) -> tuple[Fault, ...]:
    """Faults at different components: losses of `smallest` to ten times as much, every tenth does not work at all.

    A node that is broken as a whole has no second fault: nobody could see it.
    """
    rng = random.Random(f"faults {world.seed}")
    pods = list(world.fabric.pods())
    kinds = NODE_KINDS[:4] + (FABRIC_KINDS if len(pods) > 2 else ())
    found: dict[str, Fault] = {}
    while len(found) < count:
        kind, rail = rng.choice(kinds), rng.randrange(world.fabric.rails)
        loss = min(0.9, smallest * 10 ** rng.random())
        if rng.random() < 0.1:
            loss, kind = 1.0, "broken" if kind == "nvlink" else kind
        place = rng.choice(world.fabric.nodes) if kind in NODE_KINDS else rng.choice(pods)
        if kind == "uplink" and world.fabric.above and rng.random() < 0.5:
            place = world.fabric.above[place]
        name = f"{kind}{rail}@{place}"
        if kind == "spine":
            name = f"spine{rail}.{rng.randrange(world.spines)}"
        elif kind in {"nvlink", "broken"}:
            name = f"{kind}@{place}"
        at_place = {
            fault.where.partition("@")[0].rstrip("0123456789")
            for fault in found.values()
            if fault.where.endswith(f"@{place}")
        }
        if not at_place or (kind != "broken" and "broken" not in at_place):
            found.setdefault(name, Fault(name, loss))
    return tuple(found.values())


def run(world: World, trials: Sequence[Trial], number: int) -> list[Outcome]:
    """Samples of all trials of round `number`. The same world and round give the same samples."""
    rng = random.Random(f"{world.seed} round {number}")
    losses = {fault.where: fault.loss for fault in world.faults}
    drifts: dict[str, float] = {}
    louder, slower = _walk(world, number)
    outcomes = []
    for trial in trials:
        loss = max((losses[c] for c in components(world, trial) if c in losses), default=0.0)
        if trial.channel.startswith("latency"):
            ends = [losses.get(f"delay{trial.channel[7:]}@{node}", 0.0) for node in trial.nodes]
            loss = max(ends) if loss < 1 else loss
        if loss >= 1 or (world.lapses and rng.random() < world.lapses):
            outcomes.append(Outcome(trial, (), "it did not end within its time"))
            continue
        kind = trial.channel.rstrip("0123456789")
        drift = drifts.setdefault(f"{trial.kind} {kind}", rng.gauss(0, world.drift))
        level = LINK_GBPS * (1 - loss) * math.exp(drift - slower)
        level *= math.exp(rng.gauss(0, world.starts)) if world.starts else 1.0
        samples = (level * (1 + rng.gauss(0, world.noise * louder)) * (0.8 if rng.random() < world.bursts else 1.0)
                   for _ in range(trial.repeats))  # fmt: skip
        outcomes.append(Outcome(trial, tuple(max(0.001, sample) for sample in samples)))
    return outcomes


def _walk(world: World, number: int) -> tuple[float, float]:
    """Of round `number`: the factor of the noise, and by how much all are slower. Noise stays within 0.3 to 3 times."""
    rng = random.Random(f"load {world.seed}")
    loud = slow = 0.0
    for _ in range(number + 1 if world.restless else 0):
        loud = max(-1.2, min(1.1, loud + rng.gauss(0, world.restless)))
        slow += rng.gauss(0, world.restless / 10)
    return math.exp(loud), slow


def components(world: World, trial: Trial) -> Iterator[str]:
    """What the traffic of a trial passes."""
    if trial.kind == INSIDE:
        yield from (f"{trial.channel}@{trial.nodes[0]}", f"broken@{trial.nodes[0]}")
        if trial.channel.startswith("nic"):
            yield f"pcie{trial.channel[3:]}@{trial.nodes[0]}"
        return
    rail, pods = trial.channel.removeprefix("rail").removeprefix("latency"), world.fabric.pod_of
    for node in trial.nodes:
        yield from (f"nic{rail}@{node}", f"cable{rail}@{node}", f"pcie{rail}@{node}", f"broken@{node}")
        yield f"leaf{rail}@{pods.get(node, '')}"
    if trial.kind != ACROSS:
        return
    for a, b in zip(trial.nodes, (*trial.nodes[1:], trial.nodes[0]), strict=True):
        if pods.get(a) != pods.get(b):
            yield from (f"uplink{rail}@{pods.get(a)}", f"uplink{rail}@{pods.get(b)}")
            tops = [world.fabric.above.get(pods.get(node, ""), "") for node in (a, b)]
            yield from (f"uplink{rail}@{top}" for top in tops if tops[0] != tops[1])
            for path in range(world.paths):
                yield f"spine{rail}.{_hashed(f'{a} {b} {rail} {path}') % world.spines}"


def _hashed(flow: str) -> int:
    """Of a flow. The multiplication mixes: of a CRC alone, two spines would be met by the same flows always."""
    return (zlib.crc32(flow.encode()) * 0x9E3779B1 & 0xFFFFFFFF) >> 12
