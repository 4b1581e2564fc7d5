"""Channels on which every node is slower: NICs of another socket, or a rail whose switches are all set wrongly.

Channels of one kind are each other's peers. What a whole channel loses is no node's fault: it is told once, and taken
off before nodes are compared.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from busbw.fleet.samples import OF_MEDIAN
from busbw.fleet.trial import ACROSS, FEWEST_PEERS, INSIDE, MANY_PEERS, Beside, reference

LEAST = 0.01  # less is taken for noise
SURE = 4.0  # standard errors
COVERED = 0.9  # of the nodes of a channel, that a round must measure to speak for all
ALIKE = 0.75  # of its groups, that must be as slow as the usual one; faults of nodes differ
NEAR = 0.015  # as slow as: a group that is further off has a fault of its own


class Everywhere(NamedTuple):
    """What all nodes lose on a channel, beside other channels of its kind."""

    loss: float
    error: float
    gbps: float
    others: float


def slow_everywhere(every: Sequence[Beside], met: Mapping[str, set[str]]) -> dict[str, Everywhere]:
    """Channels that are slow on all nodes by what one round says; `met` are the nodes that each channel has."""
    found: dict[str, Everywhere] = {}
    for peers in every:
        levels: dict[str, list[float]] = {}
        nodes: dict[str, set[str]] = {}
        for outcome, median in zip(peers.group, peers.medians, strict=True):
            if median > 0 and not outcome.trial.control:
                levels.setdefault(outcome.trial.channel, []).append(median)
                nodes.setdefault(outcome.trial.channel, set()).update(outcome.trial.nodes)
        if peers.of[0] == ACROSS or len(levels) < 2:
            continue
        scatter = max(peers.own, statistics.median(map(_scatter, levels.values())))
        usual = reference([level for mine in levels.values() for level in mine], [], scatter)
        for channel, mine in levels.items():
            # Two pairs that are slow by the same are hardly two faults; two rings may be.
            enough = FEWEST_PEERS if peers.of[0] == INSIDE or peers.of[2] > 1 else 2
            speaks = len(mine) >= enough and len(nodes[channel]) >= COVERED * len(met[channel])
            if speaks and (one := _beside_others(mine, usual, scatter)):
                found.setdefault(channel, one)
    return found


def _beside_others(mine: Sequence[float], usual: float, scatter: float) -> Everywhere | None:
    level = reference(mine, [], scatter)
    alike = sum(abs(each / level - 1) <= max(NEAR, SURE * scatter) for each in mine)
    error = max(0.001, scatter * (OF_MEDIAN / math.sqrt(len(mine)) if len(mine) >= MANY_PEERS else 0.7))
    loss = 1 - level / usual
    if alike < ALIKE * len(mine) or loss <= max(LEAST, SURE * error):
        return None
    return Everywhere(loss, error, level, usual)


def _scatter(levels: Sequence[float]) -> float:
    middle = statistics.median(levels)
    return 1.4826 * statistics.median(abs(level - middle) for level in levels) / middle


def without(everywhere: Mapping[str, Everywhere], peers: Beside) -> Beside:
    """These groups as they would be, did their channels lose nothing everywhere."""
    if everywhere.keys().isdisjoint(outcome.trial.channel for outcome in peers.group):
        return peers
    shares = [1 - everywhere[o.trial.channel].loss if o.trial.channel in everywhere else 1.0 for o in peers.group]
    medians = [median / share for median, share in zip(peers.medians, shares, strict=True)]
    controls = [m for m, o in zip(medians, peers.group, strict=True) if m > 0 and o.trial.control]
    return peers._replace(medians=medians, controls=controls)
