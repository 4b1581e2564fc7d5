"""What makes verdicts doubtful: too few peers, rounds that disagree, and nodes that are slow only at times."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from busbw.base.secrets import shortened
from busbw.fleet.fabric import Fabric
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.options import Options, is_slow
from busbw.fleet.results import Results
from busbw.fleet.together import full_links
from busbw.fleet.trial import (
    ACROSS,
    FEWEST_PEERS,
    INSIDE,
    WITHIN,
    Deviation,
    Key,
    Outcome,
    Peers,
    by_peers,
    reference,
)
from busbw.fleet.verdict import Verdict
from busbw.fleet.words import compressed

APART = 0.1  # rounds whose levels differ by more than a tenth: five times what loads usually change (trial.DRIFT)
SLOW_SAMPLE = 0.8  # of the median of its group: a sample that is far below it
OFTEN = 0.1  # share of such samples that is no accident
SELDOM = 0.03  # of all others
ENOUGH_SAMPLES = 12
FEWEST_NODES = 3  # of so few each group may have a slow one
BETWEEN = {"link", "cable", "leaf", "uplink", "spine", "either", "shared", "level", "broken"}
MUCH, NEAR = 0.1, 0.05
"""What a node of another kind loses at least, and how far its parts lie apart."""


class Judged(NamedTuple):
    """What was known of which fabric, and what was said of it."""

    fabric: Fabric
    known: Knowledge
    options: Options
    verdicts: Sequence[Verdict]


def doubts(results: Results, judged: Judged, expected: bool) -> list[str]:
    """Sentences for the operator."""
    verdicts = judged.verdicts
    between = [o for outcomes in results.rounds for o in outcomes if o.trial.kind != INSIDE and o.samples]
    named = {verdict.place for verdict in verdicts}
    # Full links say why rounds are apart.
    full = full_links(judged.fabric, judged.known, judged.options)
    found = list(full.values()) or list(_rounds_apart(results))
    if between and not expected and len({o.trial.nodes for o in between}) < FEWEST_PEERS:
        found.append("fewer than three groups were measured between nodes: all of them may be slow; give --expected "
                     "or more nodes")  # fmt: skip
    found += [] if found and not full else _unexplained(judged, full.keys())
    few = len(judged.fabric.nodes) <= FEWEST_NODES
    if few and between and not found and not expected and not any(v.kind in BETWEEN for v in verdicts):
        found.append(f"of {len(judged.fabric.nodes)} nodes all but one may be slow: each group has one of them; give "
                     "--expected or a fourth node")  # fmt: skip
    found += _came_back(results, named)
    found += _another_kind(judged)
    found += _never_again(judged)
    return [*found, *(said for node, said in _unsteady(between) if node not in named)]


def _another_kind(judged: Judged) -> Iterator[str]:
    """Nodes that lose about the same in all that was measured: rather another kind of nodes than so many faults."""
    losses: dict[str, dict[str, float]] = {}
    for v in judged.verdicts:
        if v.place in judged.fabric.nodes and v.loss < 1:
            losses.setdefault(v.place, {})[v.channel] = v.loss
    channels = {key[2] for found in judged.known.found.values() for key in found if not key[2].startswith("latency")}
    alike = [node for node, mine in losses.items() if len(channels) > 1 and mine.keys() >= channels
             and min(mine.values()) > MUCH and max(mine.values()) - min(mine.values()) < NEAR]  # fmt: skip
    if alike:
        worst = 100 * statistics.fmean(statistics.fmean(losses[node].values()) for node in alike)
        yield (f"{compressed(alike)[:120]} lose{'s' if len(alike) == 1 else ''} about {worst:.0f} % in all that was "
               f"measured: compare the kind, clocks and power limits of the GPUs with the others'")  # fmt: skip


def _came_back(results: Results, named: Set[str]) -> Iterator[str]:
    """Groups that failed and went well another time: a node that was away, a cable that was loose, or the launcher."""
    failed: dict[Key, str] = {}
    for outcome in (outcome for outcomes in results.rounds for outcome in outcomes if not outcome.samples):
        failed.setdefault(outcome.trial.key, outcome.reason)
    well = {outcome.trial.key for outcomes in results.rounds for outcome in outcomes if outcome.samples}
    back = [key for key in failed if key in well and named.isdisjoint(key[1])]
    if back:
        most = Counter(node for key in back for node in key[1])
        names = compressed([node for node, count in most.items() if count == max(most.values())])
        groups = f"{len(back)} groups" if len(back) > 1 else "a group"
        yield (f"{groups} failed and went well another time, most with {names[:120]}: "
               f"{shortened(failed[back[0]], 120) or 'nothing was measured'}")  # fmt: skip


def _never_again(judged: Judged) -> Iterator[str]:
    """Groups that failed, and nobody tried once more: nothing is known of them."""
    named = {verdict.place for verdict in judged.verdicts}
    failed = [(key, one.reason) for found in judged.known.found.values() for key, one in found.items()
              if one.reason and is_slow(key, judged.known, judged.options) is None and named.isdisjoint(key[1])
              and (key[0] == INSIDE or not _explained(key, judged))]  # fmt: skip
    if failed:
        names = compressed(tuple(dict.fromkeys(node for key, _ in failed for node in key[1])))
        groups = f"{len(failed)} groups" if len(failed) > 1 else "a group"
        yield (f"{groups} failed and nothing is known of {names[:120]}: {shortened(failed[0][1], 120)}; "
               f"`busbw fleet run` measures once more")  # fmt: skip


def _unexplained(judged: Judged, full: Set[str]) -> Iterator[str]:
    """Slow groups that no verdict explains: somebody in them is slow at times, or only in some company."""
    for channel in sorted({key[2] for kind in (WITHIN, ACROSS) for key in judged.known.found[kind]} - full):
        slow: dict[Key, Deviation] = {}
        good: Counter[str] = Counter()
        for kind in (WITHIN, ACROSS):
            for key, one in judged.known.found[kind].items():
                torn = judged.known.torn.get(key, 0.0)
                if torn > judged.options.threshold and key[2] == channel and not _explained(key, judged):
                    slow[key] = one._replace(loss=torn)
                elif key[2] == channel and not one.reason and is_slow(key, judged.known, judged.options) is not True:
                    good.update(key[1])
                elif key[2] == channel and not _explained(key, judged):
                    slow[key] = one
        if slow:
            most = Counter(node for key in slow for node in key[1])
            rank = {node: (count, -good[node]) for node, count in most.items()}
            names = compressed([node for node, each in rank.items() if each == max(rank.values())])
            groups = f"{len(slow)} groups were" if len(slow) > 1 else "a group was"
            worst = 100 * max(one.loss for one in slow.values())
            who = f"{'one of ' if {',', '['} & set(names) else ''}{names[:120]}"
            yield (f"on {channel} {groups} slower by up to {worst:.0f} %, which no fault here explains: {who} may be "
                   f"slow at times; measure again")  # fmt: skip


def _explained(key: Key, judged: Judged) -> bool:
    kind, nodes, channel = key
    rail = channel.lstrip("railtency")
    pods = {judged.fabric.pod_of.get(node, "") for node in nodes} - {""}
    pods |= {judged.fabric.above.get(pod, "") for pod in pods} - {""}
    for v in judged.verdicts:
        on = v.channel in {"", channel, f"nic{rail}", f"pcie{rail}"}
        named = {word for part in v.place.split(" or ") for word in part.split()[-1:]}
        if on and (named & {*nodes, *pods} or (v.kind == "spine" and kind == ACROSS)):
            return True
    return False


def _rounds_apart(results: Results) -> Iterator[str]:
    """Groups of one kind are as slow in a whole round as no drift makes them: most of its nodes may be slow."""
    best: dict[Peers, float] = {}
    least: dict[Peers, tuple[float, list[Outcome]]] = {}
    for outcomes in results.rounds:
        for of, group in by_peers(outcomes).items():
            levels = [statistics.median(o.samples) for o in group if o.samples]
            if of[0] == INSIDE or len(levels) < FEWEST_PEERS or any(o.trial.control for o in group):
                continue
            usual = reference(levels, [])
            best[of] = max(usual, best.get(of, 0.0))
            if of not in least or usual < least[of][0]:
                least[of] = (usual, group)
    for of, (usual, group) in least.items():
        if usual < (1 - APART) * best[of]:
            nodes = compressed(tuple(dict.fromkeys(node for o in group for node in o.trial.nodes)))
            yield (f"{of[1]} groups reached {usual:.4g} at most in one round and {best[of]:.4g} in another: the load "
                   f"changed, or half of {nodes[:120]} are slow; measure again")  # fmt: skip


def _unsteady(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, str]]:
    """Nodes whose groups are slow at times, where groups without them are not."""
    slow: dict[str, list[int]] = {}
    every = [0, 0]
    for outcome in outcomes:
        middle = statistics.median(outcome.samples)
        counts = (sum(sample < SLOW_SAMPLE * middle for sample in outcome.samples), len(outcome.samples))
        for node in outcome.trial.nodes:
            mine = slow.setdefault(node, [0, 0])
            mine[0] += counts[0]
            mine[1] += counts[1]
        every[0] += counts[0]
        every[1] += counts[1]
    for node, (bad, of) in sorted(slow.items(), key=lambda each: -each[1][0] / each[1][1])[:1]:
        others = (every[0] - bad, every[1] - of)
        if of >= ENOUGH_SAMPLES <= others[1] and bad > OFTEN * of and others[0] < SELDOM * others[1]:
            yield node, (f"{node} is slow at times: {100 * bad / of:.0f} % of the samples with it lie 20 % below their "
                         f"median, {100 * others[0] / others[1]:.1f} % of those without it")  # fmt: skip
