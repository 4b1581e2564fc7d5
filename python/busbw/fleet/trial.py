"""One test of a round, its result, and what a result says beside its peers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from busbw.fleet.samples import OF_MEDIAN, Middle, by_mean, by_median, usual_spread
from busbw.fleet.scatter import Scatter, Seen, spacing

INSIDE = "inside"
"""Inside one node: channels nvlink, pcie0.., nic0.. (each NIC against itself, a loopback)."""
WITHIN = "within"
"""A ring over nodes of one pod, on one rail: channel rail0.."""
ACROSS = "across"
"""A ring over nodes of several pods, on one rail."""
KINDS = (INSIDE, WITHIN, ACROSS)

Key = tuple[str, tuple[str, ...], str]
"""What is measured, whatever the number of repeats: kind, nodes, channel."""


class Trial(NamedTuple):
    """A group of nodes measured together. In one round no two trials share a node on the same channel."""

    kind: str
    nodes: tuple[str, ...]
    channel: str
    repeats: int
    control: bool = False  # known to be good: its peers are compared with it

    @property
    def key(self) -> Key:
        """What is measured."""
        return self[:3]


class Outcome(NamedTuple):
    """Samples in GB/s of a trial; none where it did not start, hung or died, with the reason."""

    trial: Trial
    samples: tuple[float, ...]
    reason: str = ""


class Deviation(NamedTuple):
    """How much slower than its peers: 0.03 is 3 %. `error` is one standard error; `reason`: nothing was measured."""

    loss: float
    error: float
    reason: str = ""
    wide: bool = False  # its samples scatter far more than its peers': load comes and goes


OTHERS, MIXED = " of other nodes", " of mixed nodes"
Peers = tuple[str, str, int]
"""Kind, the channel's kind, and log2 of the size of the group, rounded up: what is compared with each other."""
FEWEST_PEERS = 3
MANY_PEERS = 16
"""Their median is what is usual; of fewer most may be slow."""
MOST = 0.65
MANY = 8
BEST, NORMAL_BEST = 0.8, 0.84
"""Of samples that scatter widely: so many are quicker, and where that is among normal ones, in standard deviations."""
WIDE = 3.0
"""Samples whose median is so many times less sure than the peers' have an error of their own: two levels by turns."""


def by_peers(outcomes: Sequence[Outcome], others: frozenset[str] = frozenset()) -> dict[Peers, list[Outcome]]:
    """The results of a round that are compared with each other; `others` are nodes of another kind."""
    peers: dict[Peers, list[Outcome]] = {}
    for outcome in outcomes:
        trial = outcome.trial
        size = (len(trial.nodes) - 1).bit_length()
        channel = trial.channel.rstrip("0123456789")
        if others and not others.isdisjoint(trial.nodes):
            channel += OTHERS if others.issuperset(trial.nodes) else MIXED
        peers.setdefault((trial.kind, channel, size), []).append(outcome)
    return peers


class Beside(NamedTuple):
    """A round's groups of one kind beside each other."""

    of: Peers
    group: Sequence[Outcome]
    medians: list[float]  # or means, of samples at two levels; 0: nothing was measured
    errors: list[float]  # of each median by its own samples alone; 0: they are too few
    spread: float  # what is usual of the samples of each
    controls: list[float]  # medians of groups that are known to be good

    @property
    def levels(self) -> list[float]:
        """Of those that were measured."""
        return [median for median in self.medians if median > 0]

    @property
    def own(self) -> float:
        """Standard error of the least sure median, by what samples say."""
        fewest = min((len(o.samples) for o in self.group if o.samples), default=1)
        return OF_MEDIAN * self.spread / math.sqrt(fewest)


def beside(of: Peers, group: Sequence[Outcome], *, mixed: bool = False) -> Beside:
    """The groups of a round that are each other's peers; `mixed`: samples of their class stand at two levels."""
    middles = [(by_mean if mixed else by_median)(o.samples) if o.samples else Middle(0.0, 0.0) for o in group]
    medians = [middle.level for middle in middles]
    controls = [m for m, o in zip(medians, group, strict=True) if m > 0 and o.trial.control]
    enough = [(o.samples, m) for o, m in zip(group, medians, strict=True) if m > 0 and len(o.samples) >= 3]
    return Beside(of, group, medians, [m.error for m in middles], usual_spread(enough, mixed=mixed), controls)


def observe(peers: Beside, scatter: Scatter) -> None:
    """How far these peers stand apart, and each from what it was before."""
    sure, levels, error = len(peers.controls) >= FEWEST_PEERS, peers.levels, peers.own
    if usual := usual_of(peers, error):  # earlier starts are of several rounds, each with a drift of its own
        found = {o.trial.key: m / usual for o, m in zip(peers.group, peers.medians, strict=True) if m > 0}
        scatter.compare(found, error, {o.trial.key for o in peers.group if o.trial.control})
    shown = None
    for _ in range(4):  # what starts scatter says how far a good peer may lie below the best ones
        if not (usual := usual_of(peers, error)):
            return
        median = sure or len(levels) >= MANY_PEERS
        shown = spacing(peers.controls if sure else levels, usual, median=median)
        if not shown or shown.size <= 1.1 * error:
            break
        error = shown.size
    if shown:
        scatter.seen.append(Seen(shown.size, peers.own, shown.groups))


def deviations(peers: Beside, between: float) -> tuple[float, list[tuple[Outcome, Deviation]]]:
    """What is usual among peers in GB/s (0: nothing was measured), and each of them beside it.

    A round's own peers take away what drifts over the hours. The spread of repeats is pooled over the peers, since that
    of a few samples says little: standard error = 1.2533 * median of the peers' standard deviations / sqrt(repeats)
    (the median of a normal sample, Kenney and Keeping 1962), at least 0.1 %. `between` is what starts scatter beside.
    """
    usual = usual_of(peers, between)
    found = []
    for outcome, median, mine in zip(peers.group, peers.medians, peers.errors, strict=True):
        one = Deviation(1.0, 0.0, outcome.reason or "nothing was measured")
        if median > 0 and usual > 0:
            usually = OF_MEDIAN * peers.spread / math.sqrt(len(outcome.samples))
            own = math.hypot(mine if mine > WIDE * usually else usually, between)
            shift, wrong = _of_reference(len(peers.group), len(peers.controls), math.hypot(usually, between))
            level = usual * (1 - shift)
            loss = 1 - median / level
            wide = mine > WIDE * usually
            if wide and len(outcome.samples) >= MANY:
                # Foreign load comes and goes; a fault stays. The best fifth says what stays.
                best = sorted(outcome.samples)[math.ceil(BEST * len(outcome.samples)) - 1]
                loss = min(loss, 1 - best / (level * (1 + NORMAL_BEST * peers.spread)))
            one = Deviation(loss, max(0.001, math.hypot(own, wrong)), "", wide)
        found.append((outcome, one))
    return usual, found


def reference(levels: Sequence[float], controls: Sequence[float], error: float = 0.0) -> float:
    """What is usual among peers, each with this standard error as a share.

    Known good ones say it where there are three. Of few peers most may be slow: the upper quarter says it then. Else
    the median of those that are not far below the upper quarter: half of all may be slow, as all rings of a rail are
    whose pod has a slow uplink.
    """
    if len(controls) >= FEWEST_PEERS:
        return statistics.median(controls)
    if not levels:
        return 0.0
    if len(levels) < MANY_PEERS:
        return sorted(levels)[max(0, math.ceil(0.8 * len(levels)) - 1)]
    upper = sorted(levels)[math.ceil(0.75 * len(levels)) - 1]
    return statistics.median([level for level in levels if level > (1 - max(0.015, 4 * error)) * upper])


def usual_of(peers: Beside, between: float) -> float:
    """The reference of these peers; where few are quicker than two thirds that are alike, those say what is usual.

    Between pods an uplink may slow two thirds alike.
    """
    error = math.hypot(peers.own, between)
    usual = reference(peers.levels, peers.controls, error)
    if peers.of[0] == ACROSS or len(peers.controls) >= FEWEST_PEERS or len(peers.levels) <= FEWEST_PEERS:
        return usual
    ordered, reach = sorted(peers.levels), max(0.015, 4 * error)
    most = math.ceil(MOST * len(ordered))
    for low in range(len(ordered) - most, -1, -1):
        alike = ordered[low : low + most]
        if alike[-1] <= (1 + reach) * alike[0]:
            middle = statistics.median(alike)
            return middle if usual > (1 + reach) * middle else usual
    return usual


def _of_reference(peers: int, controls: int, error: float) -> tuple[float, float]:
    """By how much the reference lies above what is usual by noise alone, and its own error.

    The upper quarter of 2 to 15 normal results lies 0.5 to 1 standard errors above their mean (0.8 on average).
    """
    if controls >= FEWEST_PEERS:
        return 0.0, OF_MEDIAN * error / math.sqrt(controls)
    if peers >= MANY_PEERS:
        return 0.0, OF_MEDIAN * error / math.sqrt(peers)
    return 0.8 * error, 0.7 * error
