"""Everything that was measured, and what each group says beside its peers."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from busbw.fleet.everywhere import Everywhere, slow_everywhere, without
from busbw.fleet.samples import FEWEST_GAPS, FEWEST_ORDERED, OFTEN, has_gap
from busbw.fleet.scatter import Scatter
from busbw.fleet.sorts import Another, another_kind
from busbw.fleet.starts import Law, judge_starts
from busbw.fleet.trial import (
    ACROSS,
    FEWEST_PEERS,
    INSIDE,
    KINDS,
    WITHIN,
    Beside,
    Deviation,
    Key,
    Outcome,
    Peers,
    beside,
    by_peers,
    deviations,
    observe,
)

DRIFT = 0.02
"""Standard error of a level of another round: load and clocks change from round to round."""
FEWEST_TRIES, MOST_TRIES = 2, 5
FEWEST_CROWD, CROWD = 4, 0.05
"""Parts inside nodes that are slow at once, at least and as a share: more than faults usually are."""
LEAST_FAULT = 0.015
DISAGREE = 2.5
"""Standard errors between two starts of a group, beyond which they are not of one level."""
CHANCE = 0.02
"""Of one launch in all that fails in every try although it could go well."""


@dataclass
class _Gaps:
    """Of a kind and channel, groups with a gap between their samples, of how many, and how often each node was in one:
    a node that is slow at times is no noise of the fleet."""

    seen: int = 0
    every: int = 0
    of: Counter[str] = field(default_factory=Counter)


@dataclass
class Knowledge:
    """Everything measured so far, by kind: repeats of the same thing are one result, weighted by their errors.

    Of fewer than three peers all may be slow. Then the best level of all rounds is the reference, and drift an error.
    """

    found: Mapping[str, dict[Key, Deviation]] = field(default_factory=lambda: {kind: {} for kind in KINDS})
    tries: dict[Key, int] = field(default_factory=dict)
    failures: dict[Key, int] = field(default_factory=dict)
    rounds: int = 0
    patience: int = FEWEST_TRIES
    """Tries after which what fails is said not to work."""
    everywhere: dict[str, Everywhere] = field(default_factory=dict)
    """Channels on which all nodes are slower than on others of their kind; taken off before nodes are compared."""
    laws: dict[tuple[str, str], Law] = field(default_factory=dict)
    """Kinds and channels whose starts stand at two levels as a whole, by chance and on all nodes."""
    torn: dict[Key, float] = field(default_factory=dict)
    """Groups whose starts disagree far beyond their errors, with the worst loss: something in them comes and goes."""
    another: Another | None = None
    """Nodes of another kind, which are compared with each other."""
    mixed: set[tuple[str, str]] = field(default_factory=set)
    """Kinds and channels whose samples stand at two levels, by chance and on all nodes."""
    crowded: bool = False
    """Whether so many parts inside nodes are slow that starts may stand at two levels: then three of them decide."""
    _gaps: dict[tuple[str, str], _Gaps] = field(default_factory=dict)
    _heard: list[Sequence[Beside]] = field(default_factory=list)
    """All rounds as they were measured."""
    _met: dict[str, set[str]] = field(default_factory=dict)
    """Nodes that were measured, by channel."""
    _failing: dict[Key, int] = field(default_factory=dict)
    _lapses: int = 0
    """Failures of what went well later."""
    _scatter: dict[tuple[str, str], Scatter] = field(default_factory=dict)
    _peers: dict[tuple[str, str], list[Beside]] = field(default_factory=dict)
    """All that was measured of each kind and channel: judged anew where it shows how much starts scatter."""
    _levels: dict[Peers, float] = field(default_factory=dict)
    _alone: dict[Peers, dict[Key, list[tuple[float, Deviation]]]] = field(default_factory=dict)
    """What few peers had: what was usual among them in GB/s, and the result beside that."""
    _usual: dict[Key, Deviation] = field(default_factory=dict)
    """Of groups that were also alone: what enough peers say."""

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Add the results of one round."""
        groups = by_peers(outcomes, self.another.nodes if self.another else frozenset())
        new = {of[:2] for of, group in groups.items() if self._stand_at_two(of, group)}
        every = [beside(of, group, mixed=of[:2] in self.mixed | new) for of, group in groups.items()]
        self._heard.append(every)
        for peers in every:
            for outcome in peers.group:
                self._met.setdefault(outcome.trial.channel, set()).update(outcome.trial.nodes)
        found = {channel: one for channel, one in slow_everywhere(every, self._met).items()
                 if channel not in self.everywhere}  # fmt: skip
        if found or new:
            self._learn_anew(found, new, self.another)
        else:
            self._learn(every)
        if not self.another and not self.laws and (another := another_kind(self.found[INSIDE], self.tries)):
            self._learn_anew({}, set(), another)

    def raw(self, kind: str, size: int) -> Iterator[tuple[int, Outcome, float, float]]:
        """Round, result, its level in GB/s and the error of that: as measured, beside no peers."""
        for number, every in enumerate(self._heard):
            for peers in every:
                if peers.of[0] == kind and peers.of[2] == (size - 1).bit_length():
                    for outcome, level, error in zip(peers.group, peers.medians, peers.errors, strict=True):
                        yield number, outcome, level, error

    def _learn_anew(self, found: Mapping[str, Everywhere], new: set[tuple[str, str]], another: Another | None) -> None:
        """All rounds, by what is known now."""
        others = another.nodes if another else frozenset()
        mixed = self.mixed | new
        heard: list[Sequence[Beside]] = []
        for before in self._heard:
            if another is self.another:
                heard.append([beside(p.of, p.group, mixed=True) if p.of[:2] in new else p for p in before])
            else:
                groups = by_peers([outcome for p in before for outcome in p.group], others)
                heard.append([beside(of, group, mixed=of[:2] in mixed) for of, group in groups.items()])
        again = Knowledge(everywhere=self.everywhere | dict(found), mixed=mixed, another=another, _heard=heard,
                          _met=self._met)  # fmt: skip
        vars(self).update(vars(again) | {"_gaps": self._gaps})
        for before in self._heard:
            self._learn(before)

    def _stand_at_two(self, of: Peers, group: Sequence[Outcome]) -> bool:
        """Whether it shows by now that samples of this kind and channel stand at two levels."""
        gaps = self._gaps.setdefault(of[:2], _Gaps())
        for outcome in group:
            gaps.every += len(outcome.samples) >= FEWEST_ORDERED
            if has_gap(outcome.samples):
                gaps.seen += 1
                gaps.of.update(outcome.trial.nodes)
        others = gaps.seen - max(gaps.of.values(), default=0)
        return of[:2] not in self.mixed and others >= FEWEST_GAPS and gaps.seen >= OFTEN * gaps.every

    def _learn(self, every: Sequence[Beside]) -> None:
        new: dict[tuple[str, str], list[Beside]] = {}
        for peers in every:
            new.setdefault(peers.of[:2], []).append(without(self.everywhere, peers))
            self._count(peers.group)
        for kind, mine in new.items():
            scatter = self._scatter.setdefault(kind, Scatter())
            self._peers.setdefault(kind, []).extend(mine)
            for each in mine:
                observe(each, scatter)
            again = scatter.changed()
            if again:
                self._forget(kind)
            for each in self._peers[kind] if again else mine:
                self._take(each, scatter.between)
            below = kind[0] == ACROSS and (WITHIN, kind[1]) in self.laws
            starts = judge_starts(self._peers[kind], LEAST_FAULT) if below or scatter.two_levels() else None
            if starts is None and kind in self.laws:
                del self.laws[kind]
                self._forget(kind)
                for each in self._peers[kind]:
                    self._take(each, scatter.between)
            if starts:
                self.laws[kind] = starts.law
                for key, one in starts.found.items():
                    if key in self.found[key[0]] and not self.found[key[0]][key].reason:
                        self.found[key[0]][key] = one
        if any(kind == INSIDE for kind, _ in new):
            inside = self.found[INSIDE].values()
            slow = sum(one.loss > DRIFT and not one.reason for one in inside)
            self.crowded = slow >= max(FEWEST_CROWD, CROWD * len(inside))
        self.patience = self._patience()
        self.rounds += 1

    def _count(self, group: Sequence[Outcome]) -> None:
        for outcome in group:
            key = outcome.trial.key
            self.tries[key] = self.tries.get(key, 0) + (not outcome.trial.control)
            if outcome.samples:
                self._lapses += self._failing.pop(key, 0)
            else:
                self._failing[key] = self._failing.get(key, 0) + 1

    def _patience(self) -> int:
        """How often in a row chance lets no launch of all fail, by those that failed and went well another time."""
        if not self._lapses:
            return FEWEST_TRIES
        attempts = max(1, sum(self.tries.values()))
        tries = math.log(CHANCE / attempts) / math.log(min(0.5, self._lapses / attempts))
        return min(MOST_TRIES, max(FEWEST_TRIES, math.ceil(tries)))

    def _forget(self, kind: tuple[str, str]) -> None:
        """Results of this kind and channel, to be judged anew."""
        for of in [of for of in self._levels if of[:2] == kind]:
            del self._levels[of]
            self._alone.pop(of, None)
        for key in {outcome.trial.key for peers in self._peers[kind] for outcome in peers.group}:
            self.found[key[0]].pop(key, None)
            self.failures.pop(key, None)
            self.torn.pop(key, None)
            self._usual.pop(key, None)

    def _take(self, peers: Beside, between: float) -> None:
        of = peers.of
        usual, found = deviations(peers, between)
        rose = usual > self._levels.get(of, 0.0)
        self._levels[of] = max(usual, self._levels.get(of, 0.0))
        few = len(peers.levels) < FEWEST_PEERS
        touched = dict.fromkeys(self._alone.get(of, ()) if rose else ())  # in an order that is the same each time
        for outcome, one in found:
            key = outcome.trial.key
            if one.reason and self._failed_once(key):
                continue
            alone = self._alone.setdefault(of, {})
            if few and not one.reason:
                before = self.found[key[0]].get(key)
                if before and outcome.trial.control and key not in alone:
                    continue  # what is known of it says more
                if before and not before.reason and key not in alone:
                    self._usual[key] = before
                alone.setdefault(key, []).append((usual, one))
                touched[key] = None
            elif key in alone:
                self._usual[key] = _merged(self._usual[key], one) if key in self._usual else one
                touched[key] = None
            else:
                known = self.found[key[0]]
                if key in known and not one.reason and _apart(known[key], one) > 2 * DISAGREE:
                    self.torn[key] = max(known[key].loss, one.loss, self.torn.get(key, 0.0))
                known[key] = _merged(known[key], one) if key in known else one
        for key in touched:
            self._judge_anew(of, key)

    def _failed_once(self, key: Key) -> bool:
        """Whether a group that was measured before failed for the first time: a launcher may have, and it is kept."""
        self.failures[key] = self.failures.get(key, 0) + 1
        before = self.found[key[0]].get(key)
        return self.failures[key] < self.patience and before is not None and not before.reason

    def _judge_anew(self, of: Peers, key: Key) -> None:
        """A group that had few peers, beside the best level that is known by now."""
        ones = [self._usual[key]] if key in self._usual else []
        for usual, one in self._alone[of][key]:
            level = self._levels[of]
            error = one.error if len(self._alone[of]) == 1 and level == usual else math.hypot(one.error, DRIFT)
            ones.append(Deviation(1 - (1 - one.loss) * usual / level, error, "", one.wide))
        self.found[key[0]][key] = functools.reduce(_merged, ones)


def _merged(a: Deviation, b: Deviation) -> Deviation:
    if a.reason or b.reason:
        return b if b.reason or a.reason else a
    wa, wb = 1 / a.error**2, 1 / b.error**2
    # Starts that disagree are less sure than each says: a fault stays, and load does not (Birge 1932).
    apart = _apart(a, b)
    error = max(1.0, apart if apart > DISAGREE else 1.0) / math.sqrt(wa + wb)
    return Deviation((a.loss * wa + b.loss * wb) / (wa + wb), error, "", a.wide or b.wide or apart > 2 * DISAGREE)


def _apart(a: Deviation, b: Deviation) -> float:
    """In standard errors."""
    return abs(a.loss - b.loss) / math.hypot(a.error, b.error) if not a.reason else 0.0
