"""Faults that are drawn for a fabric."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from hard.net import Link, Net, Truth, clos, fabric, truth

from busbw.fleet.fabric import Fabric


def draw(seed: int) -> random.Random:
    """Of a case's own."""
    return random.Random(f"case {seed}")


def node_fault(of: Fabric, chance: random.Random, low: float = 0.06, high: float = 0.3) -> tuple[Link, float, Truth]:
    """Of one node: a cable, NIC, PCIe link or NVLink."""
    part, rail = chance.choice(["cable", "nic", "pcie", "nvlink"]), chance.randrange(of.rails)
    node, loss = chance.choice(of.nodes), chance.uniform(low, high)
    if part == "nvlink":
        return ("nvlink", node), loss, truth("nvlink", node)
    where = f"rail{rail}" if part == "cable" else f"{part}{rail}"
    return (part, str(rail), node), loss, truth(f"{part} either" if part == "cable" else part, node, where)


def switch_fault(of: Fabric, chance: random.Random, kind: str, low: float = 0.06, high: float = 0.3
                 ) -> tuple[Link, float, Truth]:  # fmt: skip
    """A leaf, an uplink or a spine of one rail."""
    rail, pod = chance.randrange(of.rails), chance.choice(sorted(of.pods()))
    loss, link = chance.uniform(low, high), {"leaf": "leaf", "uplink": "up", "spine": "spine"}[kind]
    place = "" if kind == "spine" else pod
    name = str(chance.randrange(8)) if kind == "spine" else pod
    return (link, str(rail), name), loss, truth(kind, place, f"rail{rail}")


def some(of: Fabric, chance: random.Random, count: int, low: float = 0.06, high: float = 0.3
         ) -> tuple[dict[Link, float], list[Truth]]:  # fmt: skip
    """Faults of nodes that differ."""
    slow: dict[Link, float] = {}
    truths: list[Truth] = []
    while len(slow) < count:
        link, loss, true = node_fault(of, chance, low, high)
        if all(link[-1] != other[-1] for other in slow):
            slow[link] = loss
            truths.append(true)
    return slow, truths


def plain(sizes: Sequence[int], rails: int, seed: int, faults: int, **more: Any) -> tuple[Net, list[Truth]]:
    """Leaf and spine with faults of nodes."""
    of, chance = fabric(sizes, rails), draw(seed)
    slow, truths = some(of, chance, faults)
    return Net(of, clos(of, seed=seed), seed, slow=slow, **more), truths
