"""Fabrics, loads and faults for which the judge was not built: each a function of a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

from hard.faults import draw, plain, some, switch_fault
from hard.net import Case, Link, Net, Truth, clos, fabric, truth
from hard.placeless import cases as placeless
from hard.shapes import dragonfly, rail_only, three_levels, tight, torus

from busbw.fleet.trial import INSIDE, Trial


def starts_at_two(seed: int) -> Case:
    """A start as a whole is at one of two levels, on all nodes."""
    low, share = (0.08, 0.15, 0.3)[seed % 3], draw(seed).uniform(0.2, 0.6)
    net, truths = plain([16] * 8, 2, seed, 2, group=lambda chance, *_: 1 - low * (chance.random() < share))
    return Case(net, truths)


def flows_at_two(seed: int) -> Case:
    """Each flow of a start is at one of two levels: large groups are slow by nature."""
    low, share = (0.08, 0.15, 0.25)[seed % 3], draw(seed).uniform(0.05, 0.3)

    def group(chance: random.Random, trial: Trial, _: int) -> float:
        flows = 1 if trial.kind == INSIDE else len(trial.nodes)
        return 1 - low * (chance.random() < 1 - (1 - share) ** flows)

    net, truths = plain([16] * 8, 2, seed, 2, group=group)
    return Case(net, truths)


def busy_leaf(seed: int, fewest: int) -> Case:
    """A leaf that is slow only while so many of its nodes send."""
    of, chance = fabric([16] * 6, 2), draw(seed)
    link, loss, true = switch_fault(of, chance, "leaf", 0.1, 0.3)
    net = Net(of, clos(of, seed=seed), seed)

    def group(_: random.Random, trial: Trial, number: int) -> float:
        mine = [node for node in trial.nodes if of.pod_of[node] == link[2]]
        return 1 - loss * (trial.channel == f"rail{link[1]}" and len(mine) >= fewest)

    net.group = group
    return Case(net, [true])


def tenant(seed: int, sizes: Sequence[int] = (24,) * 8) -> Case:
    """Somebody else's job sends over two leaves, in spells."""
    net, truths = plain(sizes, 2, seed, 2)
    chance = draw(seed + 1000)
    busy = set(chance.sample(sorted(net.fabric.pods()), 2))
    loss = chance.uniform(0.08, 0.25)

    def sample(chance: random.Random, trial: Trial, number: int, at: int) -> float:
        if trial.kind == INSIDE or busy.isdisjoint(net.fabric.pod_of[node] for node in trial.nodes):
            return 1.0
        spell = random.Random(f"{seed} {number} {at // 4}").random() < 0.5
        return 1 - loss * spell * chance.uniform(0.5, 1)

    net.sample = sample
    return Case(net, truths)


def one_busy_node(seed: int) -> Case:
    """A few nodes share their NICs with storage traffic in some rounds."""
    net, truths = plain([16] * 6, 2, seed, 2)
    guilty = {link[-1] for link in net.slow}
    busy = set(draw(seed + 7).sample([n for n in net.fabric.nodes if n not in guilty], 5))

    def group(_: random.Random, trial: Trial, number: int) -> float:
        if trial.kind == INSIDE or busy.isdisjoint(trial.nodes):
            return 1.0
        return 0.9 if random.Random(f"{seed} {number}").random() < 0.3 else 1.0

    net.group = group
    return Case(net, truths)


def mixed_kinds(seed: int, share: float) -> Case:
    """So many of the nodes are of another kind, with less NVLink, PCIe and network."""
    net, truths = plain([16] * 6, 2, seed, 3)
    chance, loss = draw(seed + 3), (0.1, 0.25, 0.5)[seed % 3]
    old = set(chance.sample(net.fabric.nodes, int(share * len(net.fabric.nodes))))
    parts = [("node", node) for node in old]
    net.slow |= dict.fromkeys(parts, loss)
    keep = [(link, true) for link, true in zip(list(net.slow), truths, strict=False) if link[-1] not in old]
    net.slow = {link: loss for link, loss in net.slow.items() if link[0] == "node" or link in dict(keep)}
    return Case(net, [true for _, true in keep])


def old_rack(seed: int) -> Case:
    """One pod of six has slower links inside nodes and between them."""
    net, truths = plain([16] * 6, 2, seed, 3)
    old = set(net.fabric.pods()["p02"])
    keep = [(link, true) for link, true in zip(list(net.slow), truths, strict=False) if link[-1] not in old]
    net.slow = {link: net.slow[link] for link, _ in keep} | {("node", node): 0.3 for node in old}
    return Case(net, [true for _, true in keep])


def odd_sizes(seed: int) -> Case:
    """3 to 17 nodes, in pods of any size."""
    sizes = [[3], [5], [7], [2, 3], [17], [5, 7], [3, 3, 3], [1, 16], [9, 8], [2, 2, 1]][seed % 10]
    net, truths = plain(sizes, 2, seed, 1)
    return Case(net, truths)


def uneven(seed: int) -> Case:
    """100 nodes in pods of 1 to 40."""
    net, truths = plain([40, 1, 17, 3, 5, 2, 32], 2, seed, 4)
    return Case(net, truths)


def comes_and_goes(seed: int) -> Case:
    """Faults that are there in some rounds only; a sentence is enough."""
    net, truths = plain([16] * 6, 2, seed, 2)
    net.now = lambda chance, number, link: net.slow[link] * (chance.random() < 0.6)
    return Case(net, [true._replace(told=True) for true in truths])


def steps_of_clocks(seed: int) -> Case:
    """All nodes become quicker or slower by up to 10 % between rounds; some nodes by 6 % for one round."""
    net, truths = plain([16] * 6, 2, seed, 3)

    def group(_: random.Random, trial: Trial, number: int) -> float:
        level = random.Random(f"{seed} {number}").uniform(0.9, 1.0)
        if trial.kind == INSIDE and random.Random(f"{seed} {number} {trial.nodes[0]}").random() < 0.01:
            level *= 0.94
        return level

    net.group = group
    return Case(net, truths)


def small_faults(seed: int) -> Case:
    """3 % at noise of 1, 2 and 3 %."""
    of, chance = fabric([32] * 4, 2), draw(seed)
    slow, truths = some(of, chance, 3, 0.03, 0.035)
    return Case(Net(of, clos(of, seed=seed), seed, slow=slow, noise=(0.01, 0.02, 0.03)[seed % 3]), truths)


def quick_nodes(seed: int) -> Case:
    """Some nodes are faster than all others, by themselves or when they meet."""
    net, truths = plain([[16] * 4, [7], [5, 6]][seed % 3], 2, seed, 1)
    chance = draw(seed + 9)
    quick = set(chance.sample(net.fabric.nodes, max(2, len(net.fabric.nodes) // 10)))
    gain = chance.uniform(0.05, 0.15)
    net.group = lambda _c, trial, _n: 1 + gain * quick.issuperset(trial.nodes)
    return Case(net, truths)


def hidden(seed: int) -> Case:
    """A NIC behind its PCIe link, a cable on a slow leaf, an uplink of a slow leaf, a cable beside a NIC."""
    of, chance = fabric([16] * 6, 4), draw(seed)
    node, pod, first = chance.choice(of.nodes), chance.choice(sorted(of.pods())), chance.uniform(0.05, 0.12)
    mine, second = of.pods()[pod], chance.uniform(0.2, 0.35)
    cable = truth("cable either", mine[3], "rail2")
    one, two = [
        ((("pcie", "2", node), truth("pcie", node, "pcie2")), (("nic", "2", node), truth("nic", node, "nic2"))),
        ((("leaf", "2", pod), truth("leaf", pod, "rail2")), (("cable", "2", mine[3]), cable)),
        ((("leaf", "2", pod), truth("leaf", pod, "rail2")), (("up", "2", pod), truth("uplink", pod, "rail2"))),
        ((("spine", "2", "3"), truth("spine", "", "rail2")), (("up", "2", pod), truth("uplink", pod, "rail2"))),
    ][seed % 4]  # fmt: skip
    slow = {one[0]: first, two[0]: second}
    return Case(Net(of, clos(of, seed=seed), seed, slow=slow), [one[1], two[1]])


def all_slow(seed: int) -> Case:
    """Everything between nodes is slow alike, by less than 4 % to 20 %: only what is expected shows it."""
    net, truths = plain([16] * 4, 2, seed, 2)
    loss = draw(seed + 2).uniform(0.06, 0.2)
    net.group = lambda _c, trial, _n: 1 - loss * (trial.kind != INSIDE)
    return Case(net, [*truths, Truth(frozenset(["level"]), frozenset(["all nodes"]))], {"rail": 46.0})


def unknown_pods(seed: int) -> Case:
    """No topology is given; there are pods all the same, with a few links between them."""
    of, chance = fabric([16] * 4, 2, known=False), draw(seed)
    pods = {node: f"p{at // 16}" for at, node in enumerate(of.nodes)}
    slow, truths = some(of, chance, 3)
    net = Net(of, clos(of, seed=seed, pods=pods), seed, slow=slow)
    net.capacity = lambda link: 8.0 if link[0] == "up" else 1e9
    return Case(net, truths)


def shuffled_names(seed: int) -> Case:
    """No topology, and names say nothing: neighbours are far."""
    of, chance = fabric([16] * 4, 2, known=False), draw(seed)
    order = list(of.nodes)
    chance.shuffle(order)
    pods = {node: f"p{at // 16}" for at, node in enumerate(order)}
    slow, truths = some(of, chance, 2)
    net = Net(of, clos(of, seed=seed, pods=pods), seed, slow=slow)
    net.capacity = lambda link: 4.0 if link[0] == "up" else 1e9
    return Case(net, truths)


def heavy_tails(seed: int) -> Case:
    """Samples of Student's t with two degrees, or a tenth of them up to twice as slow."""
    net, truths = plain([16] * 6, 2, seed, 3)
    if seed % 2:
        net.law = lambda chance: chance.gauss(0, 1) / math.sqrt(max(1e-3, chance.expovariate(1)))
    else:
        net.law = lambda chance: chance.gauss(0, 1) - (chance.uniform(5, 50) if chance.random() < 0.1 else 0)
    return Case(net, truths)


def cold(seed: int) -> Case:
    """The first samples of each start are slow, and all of the first round."""
    net, truths = plain([16] * 6, 2, seed, 3)
    net.sample = lambda chance, _t, _n, at: 1 - 0.3 * chance.random() * (at < 3)
    net.group = lambda chance, _t, number: 1 - (0.05 * chance.random() if number == 0 else 0)
    return Case(net, truths)


def rising_load(seed: int) -> Case:
    """Load rises while a round runs; groups that end later are slower by up to 6 %."""
    net, truths = plain([16] * 6, 2, seed, 3)
    net.sample = lambda _c, trial, _n, at: 1 - 0.06 * at / max(8, trial.repeats)
    return Case(net, truths)


def loud_rail(seed: int) -> Case:
    """One rail scatters five times as much as the other one."""
    net, truths = plain([16] * 6, 2, seed, 3)
    net.sample = lambda chance, trial, _n, _a: 1 + 0.05 * chance.gauss(0, 1) * (trial.channel == "rail1")
    return Case(net, truths)


def launches_fail(seed: int) -> Case:
    """One start of 25 fails; one node never starts."""
    net, truths = plain([16] * 6, 2, seed, 2)
    dead = next(n for n in net.fabric.nodes if all(link[-1] != n for link in net.slow))
    net.fails = lambda chance, trial, _: "no start" if dead in trial.nodes or chance.random() < 0.04 else ""
    return Case(net, [*truths, truth("broken", dead)])


def slow_by_size(seed: int) -> Case:
    """A ring loses 2 % for each doubling of its size."""
    net, truths = plain([[16] * 6, [20, 11, 7, 16]][seed % 2], 2, seed, 3)
    net.group = lambda _c, trial, _n: 1 - 0.02 * math.log2(len(trial.nodes))
    return Case(net, truths)


def shared_switch(seed: int) -> Case:
    """A PCIe switch inside a node is slow, and two NICs with it; another node throttles in all it does."""
    of, chance = fabric([16] * 4, 4), draw(seed)
    one, two = chance.sample(of.nodes, 2)
    first, loss = chance.choice((0, 2)), chance.uniform(0.08, 0.4)
    slow = {("pcie", str(rail), one): loss for rail in (first, first + 1)} | {("node", two): loss}
    truths = [truth("pcie", one, f"pcie{rail}") for rail in (first, first + 1)]
    return Case(Net(of, clos(of, seed=seed), seed, slow=slow), [*truths, truth("nvlink pcie nic cable broken", two)])


def other_paths(seed: int) -> Case:
    """Each start takes other spines; one of them is slow, and an uplink of another rail."""
    of, chance = fabric([16] * 8, 4), draw(seed)
    spine, uplink = switch_fault(of, chance, "spine", 0.1), switch_fault(of, chance, "uplink", 0.1)
    while spine[0][1] == uplink[0][1]:
        uplink = switch_fault(of, chance, "uplink", 0.1)
    slow = {link: loss for link, loss, _ in (spine, uplink)}
    net = Net(of, clos(of), seed, slow=slow)
    count = [0]

    def paths(a: str, b: str, rail: int) -> Sequence[Link]:
        count[0] += 1
        links = base(a, b, rail)
        other = str(random.Random(f"{seed} {count[0]}").randrange(8))
        return [(link[0], link[1], other) if link[0] == "spine" else link for link in links]

    base = net.paths
    net.paths = paths
    return Case(net, [spine[2], uplink[2]])


def most_cables(seed: int) -> Case:
    """14 of 16 cables of a pod are slow, by any amount."""
    of, chance = fabric([16] * 4, 2), draw(seed)
    bad = chance.sample(of.pods()["p01"], 14)
    slow = {("cable", "0", node): chance.uniform(0.08, 0.4) for node in bad}
    return Case(Net(of, clos(of, seed=seed), seed, slow=slow), [truth("cable", node, "rail0") for node in bad])


def thousand(seed: int) -> Case:
    """1,000 nodes in pods of 24, six faults of nodes and two of switches."""
    of, chance = fabric([24] * 41 + [16], 4), draw(seed)
    slow, truths = some(of, chance, 6, 0.03, 0.3)
    for kind in ("leaf", "uplink"):
        link, loss, true = switch_fault(of, chance, kind)
        slow[link] = loss
        truths.append(true)
    return Case(Net(of, clos(of, seed=seed), seed, slow=slow), truths)


def scattered_starts(seed: int) -> Case:
    """Starts scatter by 1 to 3 %, and heavier than normal ones."""
    size = (0.01, 0.02, 0.03)[seed % 3]
    net, truths = plain([16] * 6, 2, seed, 2)
    net.group = lambda chance, *_: 1 + size * max(-6.0, min(6.0, chance.gauss(0, 1) / math.sqrt(
        max(0.05, chance.gammavariate(2, 0.5)))))  # fmt: skip
    return Case(net, truths)


def every_leaf_differs(seed: int) -> Case:
    """Leaves are 0 to 4 % apart by their cables and firmware; one is slow by much more."""
    of, chance = fabric([16] * 8, 2), draw(seed)
    slow, truths = some(of, chance, 2, 0.1, 0.3)
    for rail in ("0", "1"):
        slow |= {("leaf", rail, pod): chance.uniform(0, 0.012) for pod in of.pods()}
    link, loss, true = switch_fault(of, chance, "leaf", 0.12, 0.3)
    return Case(Net(of, clos(of, seed=seed), seed, slow=slow | {link: loss}), [*truths, true])


def nothing(seed: int) -> Case:
    """A good fabric of any size and noise."""
    chance = draw(seed)
    sizes = [chance.randrange(1, 40) for _ in range(chance.randrange(1, 9))]
    net, _ = plain([*sizes, 2], 2, seed, 0, noise=chance.uniform(0.002, 0.03))
    return Case(net, [])


def _cases() -> Iterator[tuple[str, Callable[[int], Case]]]:
    yield from ((each.__name__, each) for each in (
        starts_at_two, flows_at_two, tenant, one_busy_node, torus, dragonfly, rail_only, three_levels, tight, old_rack,
        odd_sizes, uneven, comes_and_goes, steps_of_clocks, small_faults, quick_nodes, hidden, all_slow, unknown_pods,
        shuffled_names, heavy_tails, cold, rising_load, loud_rail, launches_fail, slow_by_size, shared_switch,
        other_paths, most_cables, thousand, scattered_starts, every_leaf_differs, nothing))  # fmt: skip
    for fewest in (3, 6, 12):
        yield f"busy_leaf_{fewest}", lambda seed, fewest=fewest: busy_leaf(seed, fewest)  # type: ignore[misc]
    for share in (0.1, 0.3, 0.5):
        yield f"mixed_kinds_{share}", lambda seed, share=share: mixed_kinds(seed, share)  # type: ignore[misc]


CASES = dict(_cases()) | dict(placeless())
