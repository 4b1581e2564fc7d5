"""What is to be found, when a result is slow, and which parts inside nodes are."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace

from busbw.fleet.knowledge import Knowledge
from busbw.fleet.trial import INSIDE, Deviation, Key

SURE = 4.0
"""Standard errors that a loss must have after three tries: 1 in 30,000 by normal noise."""

MOST_STARTS = 14
"""Of a group whose starts stand at two levels; what is not sure then is no fault."""
FIRST_START = 3
"""Times the margin that a part inside a node must lie beyond the threshold to be named after one start."""


@dataclass(frozen=True)
class Options:
    """What is to be found, and how much it may cost."""

    smallest_loss: float = 0.03
    repeats: int = 16
    most_repeats: int = 64
    standard_errors: float = 2.6
    inside: tuple[str, ...] = ("nvlink",)
    controls: int = 6
    most_rounds: int = 40
    largest_group: int = 64  # of nodes whose pod is unknown
    later: float = 0.0  # 0.25: small messages that take 25 % longer are a fault; 0: they are not measured

    @property
    def threshold(self) -> float:
        """Half of the smallest loss: a good and a bad group are equally far from it."""
        return self.smallest_loss / 2

    @functools.cached_property
    def late(self) -> Options:
        """The same for small messages, whose samples are messages a second: 25 % longer is 20 % fewer."""
        return replace(self, smallest_loss=self.later / (1 + self.later)) if self.later else self

    def on(self, channel: str) -> Options:
        """What is to be found on this channel."""
        return self.late if channel.startswith("latency") else self


def inside_of(rails: int) -> tuple[str, ...]:
    """The channels inside a node: NVLink, and for each rail the PCIe link of its NIC and the NIC itself."""
    return ("nvlink", *(f"{kind}{rail}" for kind in ("pcie", "nic") for rail in range(rails)))


@functools.lru_cache(maxsize=64)
def _sure(parts: int) -> float:
    """As SURE, but of ten thousand parts noise has ten thousand chances: it names one of all in a hundred fleets."""
    return max(SURE, statistics.NormalDist().inv_cdf(1 - 0.01 / parts))


def is_slow(key: Key, known: Knowledge, options: Options) -> bool | None:
    """True, False, or None while the interval lies across the threshold; after three tries the estimate decides.

    What could not be measured is tried twice, and more often where launches fail at times. What no other group shows,
    inside a node, is slow at its first start only where that is far beyond its error: the next start may be another's.
    """
    one, tries, options = known.found[key[0]][key], known.tries[key], options.on(key[2])
    if one.reason:
        return True if tries >= known.patience else None
    if (key[0], key[2].rstrip("0123456789")) in known.laws:
        return _is_slow_by_law(key, known, options)
    if tries >= 3:
        # A loss that noise alone makes is no fault, however small the loss that is looked for.
        return one.loss > max(options.threshold, _sure(len(known.found[key[0]]) if key[0] == INSIDE else 1) * one.error)
    margin = options.standard_errors * one.error
    if known.crowded and key[0] == INSIDE and tries < 3 and one.loss > options.threshold:
        return None
    if one.loss - (FIRST_START if key[0] == INSIDE and tries < 2 else 1) * margin > options.threshold:
        return True
    return False if one.loss + margin <= options.threshold else None


def _is_slow_by_law(key: Key, known: Knowledge, options: Options) -> bool | None:
    """One start at the upper level settles it; of the lower one many are needed, and what is not sure is no fault."""
    one = known.found[key[0]][key]
    sure = 1 + _sure(len(known.found[key[0]]) if key[0] == INSIDE else 1)
    if one.loss > max(options.threshold, sure * one.error):
        return True
    good = one.loss + options.standard_errors * one.error <= options.threshold
    return False if good or known.tries[key] >= MOST_STARTS else None


def doubtful(known: Knowledge, options: Options) -> dict[Key, Deviation]:
    """Of all parts inside nodes the few that may be slow: a thousand nodes have some ten thousand that are not."""
    threshold, errors = options.threshold, options.standard_errors
    return {key: one for key, one in known.found[INSIDE].items() if one[0] + errors * one[1] > threshold}


def bad_inside(known: Knowledge, options: Options) -> set[tuple[str, str]]:
    """(node, channel) that are slow by themselves."""
    return bad_of(doubtful(known, options), known, options)


def bad_of(doubtful: Mapping[Key, Deviation], known: Knowledge, options: Options) -> set[tuple[str, str]]:
    return {(key[1][0], key[2]) for key, one in doubtful.items()
            if one.loss > options.threshold and is_slow(key, known, options)}  # fmt: skip


def broken_nodes(known: Knowledge, options: Options) -> set[str]:
    """Nodes on which nothing at all could be measured."""
    return broken_of(doubtful(known, options), known, options)


def broken_of(doubtful: Mapping[Key, Deviation], known: Knowledge, options: Options) -> set[str]:
    dead: dict[str, int] = {}
    for key, one in doubtful.items():
        if one.reason and is_slow(key, known, options):
            dead[key[1][0]] = dead.get(key[1][0], 0) + 1
    return {node for node, count in dead.items() if count == len(options.inside)}
