"""Which groups are measured next: a pure function of the fabric and of what is known so far.

First each node inside. Then rings over whole pods, one for each rail; the slow ones in halves, round by round; what is
left in pairs with a partner that is known to be good. Last, rings of one node from each pod, and for the rails that are
slow there, pairs of pods. k bad of N cost about k log2(N/k) groups, in log2 of a pod's size and a few rounds more.

A result is slow, good or open: its interval (2.6 standard errors, 99 %) lies above, below or across the threshold. Open
ones are measured again with more repeats. The threshold is half of the smallest loss to be found.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from busbw.fleet.fabric import Fabric
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.loose import ask_by_places
from busbw.fleet.options import Options, bad_of, broken_of, doubtful, is_slow
from busbw.fleet.pairs import TURNS, matching, near
from busbw.fleet.trial import ACROSS, INSIDE, OTHERS, WITHIN, Deviation, Key, Trial

PAIRED = (
    16  # nodes of a pod that are measured in pairs with another pod's: enough to tell an uplink beside a slow spine
)
ENOUGH_PAIRS = 48  # between pods: of eight spines each is met by several
ENOUGH_PEERS = 16  # their median is a reference without known good ones
FEWEST_PODS = 2  # rings of one pod have no peers: those of other rails have the same nodes, which may be slow on all
LAST_GROUP = 4  # groups up to this size are not halved: each of their nodes is measured with a good partner


@dataclass
class _State:
    """What is known about each group that is asked for; what is not goes on the list."""

    fabric: Fabric
    options: Options
    known: Knowledge
    wanted: list[Trial] = field(default_factory=list)
    quiet: set[str] = field(default_factory=set)
    """Channels on which nothing else is measured in this round."""

    @functools.cached_property
    def doubtful(self) -> dict[Key, Deviation]:
        """Parts inside nodes that may be slow, as far as is known in this round."""
        return doubtful(self.known, self.options)

    @functools.cached_property
    def usable(self) -> list[dict[str, tuple[str, ...]]]:
        """By rail, the nodes of each pod that can be measured with others."""
        return _usable(self)

    def verdict(self, kind: str, nodes: tuple[str, ...], channel: str) -> bool | None:
        key = (kind, nodes, channel)
        return is_slow(key, self.known, self.options) if key in self.known.found[kind] else None

    def ask(self, kind: str, nodes: tuple[str, ...], channel: str) -> bool | None:
        """Slow or good where it is settled; else None, and the trial is put on the list."""
        verdict = self.verdict(kind, nodes, channel)
        if verdict is None:
            tries = self.known.tries.get((kind, nodes, channel), 0)
            repeats = min(self.options.most_repeats, self.options.repeats << tries)
            self.wanted.append(Trial(kind, nodes, channel, repeats))
        return verdict


def next_round(fabric: Fabric, known: Knowledge, options: Options) -> tuple[Trial, ...]:
    """The trials of the next round; none when all is known. No node is in two trials on the same channel."""
    if known.rounds >= options.most_rounds:
        return ()
    state = _State(fabric, options, known)
    for phase in (_inside, _within, _across, _latency):
        phase(state)
        if state.wanted:
            # Inside a node nobody else is met.
            chosen = state.wanted if phase is _inside else list(_disjoint(state.wanted))
            return (*chosen, *_controls(state, chosen))
    return ()


def _inside(state: _State) -> None:
    found, options = state.known.found[INSIDE], state.options
    if len(found) < len(state.fabric.nodes) * len(options.inside):
        state.wanted = [Trial(INSIDE, (node,), channel, options.repeats) for node in state.fabric.nodes
                        for channel in options.inside if (INSIDE, (node,), channel) not in found]  # fmt: skip
    for key in state.doubtful:
        state.ask(*key)


def _usable(state: _State) -> list[dict[str, tuple[str, ...]]]:
    """By rail, the nodes of each pod without those whose own NIC or PCIe is slow: they would hide their neighbours."""
    bad = bad_of(state.doubtful, state.known, state.options)
    broken = broken_of(state.doubtful, state.known, state.options)
    spoilt = [{node for node, where in bad if where in {f"nic{rail}", f"pcie{rail}"}} | broken
              for rail in range(state.fabric.rails)]  # fmt: skip
    pods = state.fabric.groups(state.options.largest_group)
    if another := state.known.another:
        # Nodes of another kind are measured among themselves; one that is alone in its pod with another node of it.
        parts: dict[str, tuple[str, ...]] = {}
        for pod, nodes in pods.items():
            usual, others = (tuple(n for n in nodes if (n in another.nodes) == of) for of in (False, True))
            parts[pod] = usual
            parts[f"{pod}{OTHERS}"] = (*others, *usual[:1]) if len(others) == 1 else others
        pods = {pod: nodes for pod, nodes in parts.items() if nodes}
    return [{pod: nodes if out.isdisjoint(nodes) else tuple(n for n in nodes if n not in out)
             for pod, nodes in pods.items()} for out in spoilt]  # fmt: skip


def _within(state: _State) -> None:
    for rail, pods in enumerate(state.usable):
        for nodes in pods.values():
            if len(nodes) >= 2:
                few = len(pods) < FEWEST_PODS or len(pods) * state.fabric.rails < 4 or bool(state.known.laws)
                _search(state, nodes, f"rail{rail}", few=few)


def _search(state: _State, nodes: tuple[str, ...], channel: str, *, few: bool) -> None:
    if not few and not _leans(state, nodes, channel):
        return
    if len(nodes) < 8 or few:
        # No group has enough peers, or the group is small: pairs say more.
        _each_in_pairs(state, nodes, channel)
        return
    halves = _halves(nodes)
    slow = [half for half in halves if _leans(state, half, channel)]
    if not slow and not state.wanted and state.ask(WITHIN, nodes, channel):
        # Its parts do not say why: other parts, of most of it, show a leaf that is slow with so many.
        least = max(1, len(nodes) // 8)
        state.ask(WITHIN, nodes[least:], channel)
        state.ask(WITHIN, nodes[:-least], channel)
    quarters = [quarter for half in slow for quarter in _halves(half)]
    bad = [quarter for quarter in quarters if _leans(state, quarter, channel)]
    if len(bad) == 4:
        _each_in_pairs(state, nodes, channel)
        return
    if any(quarter not in bad and state.verdict(WITHIN, quarter, channel) is None for quarter in quarters):
        return
    suspects = [group for quarter in bad for group in _narrow(state, quarter, channel)]
    # What was settled as good may be a suspect by what is known now.
    good = _clean_of(state, nodes, channel).difference(*suspects)
    partners = iter([node for node in nodes if node in good])
    for group in suspects:
        for node in group:
            _alone(state, node, partners, channel)


def _leans(state: _State, nodes: tuple[str, ...], channel: str) -> bool:
    """Whether a group is slow, or open and seems to be by what is looked for: its parts tell more than it once more."""
    key = (WITHIN, nodes, channel)
    one = state.known.found[WITHIN].get(key)
    if one and (one.reason or one.loss > 2 * state.options.threshold) and state.verdict(*key) is None:
        return True
    return state.ask(*key) is True


def _halves(group: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    middle = len(group) // 2
    return group[:middle], group[middle:]


def _narrow(state: _State, group: tuple[str, ...], channel: str) -> Iterator[tuple[str, ...]]:
    if len(group) <= LAST_GROUP:
        yield group
        return
    for half in _halves(group):
        if _leans(state, half, channel):
            yield from _narrow(state, half, channel)


def _each_in_pairs(state: _State, nodes: tuple[str, ...], channel: str) -> None:
    """Neighbours in pairs, and others with others until somebody is known to be good; then who was never with a good
    one. Neighbours by name are near each other: pairs of far nodes at the same time may share links."""
    if not state.fabric.pod_of.get(nodes[0]) and ask_by_places(state, nodes, channel):
        return
    for turn in range(TURNS):
        keys = [(WITHIN, (nodes[a], nodes[b]), channel) for a, b in near(len(nodes), turn)]
        verdicts = [state.ask(*key) for key in keys]
        if (
            None in verdicts
            or (False in verdicts and len(keys) > 1)
            or all(state.known.found[WITHIN][key].reason for key in keys)
        ):
            break
    _beside_good(state, nodes, channel)


def _beside_good(state: _State, nodes: tuple[str, ...], channel: str) -> None:
    """Who only met partners that are slow or broken themselves is measured with a good one."""
    if state.wanted:
        return
    good = _clean_of(state, nodes, channel)
    settled = set(good)
    for kind, pair, where in state.known.found[WITHIN]:
        if where == channel and len(pair) == 2 and not good.isdisjoint(pair):
            if state.verdict(kind, pair, where) is None:
                state.ask(kind, pair, where)
            settled.update(pair)
    partners = (node for node in nodes if node in good)
    for node in nodes:
        if node not in settled and (partner := next(partners, "")):
            state.ask(WITHIN, (partner, node), channel)


def _alone(state: _State, node: str, partners: Iterator[str], channel: str) -> None:
    """With a partner that is known to be good; the one it had before, so that repeats are of the same pair."""
    earlier = [key for key in state.known.found[WITHIN] if len(key[1]) == 2 and key[1][1] == node and key[2] == channel]
    for key in earlier:
        if state.verdict(*key) is not None:
            return
    if earlier:
        state.ask(*earlier[0])
    elif partner := next(partners, ""):
        state.ask(WITHIN, (partner, node), channel)


def _clean_of(state: _State, nodes: Iterable[str], channel: str) -> set[str]:
    """Nodes that were in a good group on this rail; all, where none of them was measured in a group."""
    among = set(nodes)
    groups = [key for key in state.known.found[WITHIN] if key[2] == channel and not among.isdisjoint(key[1])]
    if not groups:
        return among
    good = {node for key in groups if state.verdict(*key) is False for node in key[1]}
    return among & good


def _pairs(state: _State, kind: str, sides: Sequence[tuple[str, ...]], channel: str, turns: int = TURNS) -> None:
    """Sides in pairs, node by node, several turns with other partners, one turn a round.

    Where a turn has no pair between which anything moved, as behind a dead switch, others tell nothing more; nor where
    enough pairs are all good. The next turn begins while a few pairs of the last one are measured again.
    """
    seen = 0
    for turn in range(min(turns, len(sides) - 1 + len(sides) % 2)):
        keys = [(kind, pair, channel) for a, b in matching(len(sides), turn)
                for pair in zip(sides[a], sides[b], strict=False)]  # fmt: skip
        verdicts = [state.ask(*key) for key in keys]
        seen += len(keys)
        if 4 * verdicts.count(None) > len(keys) or (seen >= ENOUGH_PAIRS and not any(verdicts)):
            return
        if all(key in state.known.found[kind] and state.known.found[kind][key].reason for key in keys):
            return


def _across(state: _State) -> None:
    """Rings of one node from each pod, all at the same time; for rails that are slow there, pairs of pods."""
    if len({pod for pod in state.fabric.pod_of.values() if pod}) < 2:
        return
    slow = []
    for rail, (pods, muffled) in enumerate(_clean_pods(state)):
        channel = f"rail{rail}"
        if len(pods) < 2:
            continue
        # Flows are spread over spines by a hash: enough of them that each spine is met.
        columns = min(max(4, 128 // len(pods)), *map(len, pods))
        rings = [tuple(nodes[column] for nodes in pods) for column in range(columns)]
        # Rings of one rail alone all pass each pod's uplink: beside each other they would call it good.
        # Where starts stand at two levels, rings are nearly always at the lower one.
        ringless = (state.fabric.rails == 1 or bool(state.known.laws)) and len(pods) > 2
        verdicts = [] if ringless else [state.ask(ACROSS, ring, channel) for ring in rings]
        if len(pods) > 2 and (any(verdicts) or ringless or state.fabric.rails < 3):
            slow.append((channel, pods + muffled))
        else:
            # Behind a slow leaf only a worse uplink is seen; a ring would be as slow as the leaf.
            for nodes, partners in zip(muffled, pods, strict=False):
                for pair in zip(nodes[:PAIRED], partners, strict=False):
                    state.ask(ACROSS, pair, channel)
            if muffled and len(pods) > len(muffled) + 1:
                # Pairs of good pods beside them: those of a slow leaf alone would be what is usual.
                for pair in zip(pods[-1][:PAIRED], pods[-2][:PAIRED], strict=False):
                    state.ask(ACROSS, pair, channel)
    for channel, pods in slow:
        if len(pods) == 3 and state.fabric.rails < 3 and min(map(len, pods)) > 1:
            # Two of three pods at a time are all slow behind a slow uplink: the good pair is measured beside them.
            halves = [_halves(nodes[:PAIRED]) for nodes in pods]
            (a, a2), (b, b2), (c, c2) = halves
            _pairs(state, ACROSS, [a, c, b2, c2, a2, b], channel, 1)
        else:
            _pairs(state, ACROSS, [nodes[:PAIRED] for nodes in pods], channel)


def _latency(state: _State) -> None:
    """Small messages between pairs: in a ring one late link is lost among the many that each message passes.

    One turn of pairs in each pod; who was in a late one is measured with a good partner. Then pods in pairs.
    """
    for rail, pods in enumerate(state.usable if state.options.later else ()):
        channel, clean = f"latency{rail}", []
        for group in pods.values():
            dead = _dead(state, group, f"rail{rail}")
            nodes = tuple(node for node in group if node not in dead)
            if len(nodes) >= 2:
                _pairs(state, WITHIN, [(node,) for node in nodes], channel, 1 if len(nodes) >= 8 else TURNS)
                _beside_good(state, nodes, channel)
                clean.append(tuple(node for node in nodes if node in _clean_of(state, nodes, channel)))
        if not state.wanted and all(state.fabric.pod_of.get(n) for nodes in clean for n in nodes[:1]):
            sides = [nodes[:2] for nodes in clean if nodes]
            if len(sides) > 1:
                _pairs(state, ACROSS, sides, channel, 1)
                first = [state.verdict(ACROSS, pair, channel) for a, b in matching(len(sides), 0)
                         for pair in zip(sides[a], sides[b], strict=False)]  # fmt: skip
                if any(first):
                    _pairs(state, ACROSS, sides, channel)


def _dead(state: _State, nodes: Sequence[str], channel: str) -> set[str]:
    """Nodes that no pair reached on this rail: small messages would not either."""
    reached: dict[str, bool] = {}
    for key, one in state.known.found[WITHIN].items():
        if key[2] == channel and len(key[1]) == 2:
            for node in key[1]:
                reached[node] = reached.get(node, False) or not one.reason
    return {node for node in nodes if not reached.get(node, True)}


def _clean_pods(state: _State) -> list[tuple[list[tuple[str, ...]], list[tuple[str, ...]]]]:
    """By rail, the nodes of pods that are known to be good there; and of pods whose leaf alone is slow, the best."""
    grouped: dict[str, list[Key]] = {}
    for key in state.known.found[WITHIN]:
        grouped.setdefault(key[2], []).append(key)
    found = []
    for rail, every in enumerate(state.usable):
        pods = {pod: nodes for pod, nodes in every.items() if not pod.endswith(OTHERS)}
        keys = grouped.get(f"rail{rail}", [])
        seen = {node for key in keys for node in key[1]}
        good = {node for key in keys if state.verdict(*key) is False for node in key[1]}
        bad = {node for key in keys if len(key[1]) == 2 and state.verdict(*key) for node in key[1]} - good
        clean = [tuple(n for n in nodes if n in good or (n not in seen and n not in bad)) for nodes in pods.values()]
        dull = [nodes for nodes, left in zip(pods.values(), clean, strict=True) if not left]
        muffled = [_best_first(state, nodes, keys) for nodes in dull]
        found.append(([nodes for nodes in clean if nodes], [nodes for nodes in muffled if nodes]))
    return found


def _best_first(state: _State, nodes: Sequence[str], keys: Iterable[Key]) -> tuple[str, ...]:
    """The nodes of a pod without good ones, those of its quicker pairs first; none where nothing moved."""
    least: dict[str, float] = {}
    for key in keys:
        if len(key[1]) == 2 and not (one := state.known.found[WITHIN][key]).reason:
            for node in key[1]:
                least[node] = min(one.loss, least.get(node, 1.0))
    return tuple(sorted(least.keys() & set(nodes), key=lambda node: (least[node], node)))


def _disjoint(wanted: Sequence[Trial]) -> Iterator[Trial]:
    busy: set[tuple[str, str]] = set()
    for trial in wanted:
        places = [(node, trial.channel) for node in trial.nodes]
        if busy.isdisjoint(places):
            busy.update(places)
            yield trial


def _controls(state: _State, chosen: Sequence[Trial]) -> Iterator[Trial]:
    """Known good groups of the same kinds and sizes, so that a round of suspects has peers."""
    yield from _controls_inside(state, chosen)
    shapes = {(t.kind, (len(t.nodes) - 1).bit_length()): len(t.nodes) for t in chosen if t.kind != INSIDE}
    if not shapes:
        return
    busy = {(node, t.channel) for t in chosen for node in t.nodes}
    for (kind, _), size in shapes.items():
        found = 0
        for key in state.known.found[kind]:
            if found == state.options.controls:
                break
            group = key[1][:size]
            if len(group) < size or key[2] in state.quiet or state.verdict(*key) is not False:
                continue
            if busy.isdisjoint((node, key[2]) for node in group):
                busy.update((node, key[2]) for node in group)
                found += 1
                yield Trial(kind, group, key[2], state.options.repeats * 2, control=True)


def _controls_inside(state: _State, chosen: Sequence[Trial]) -> Iterator[Trial]:
    """The same part of nodes that are good there; none where all nodes are measured, each other's peers."""
    asked = [t for t in chosen if t.kind == INSIDE]
    if not asked or not state.known.found[INSIDE]:
        return
    busy = {t.key for t in asked}
    for part in dict.fromkeys(t.channel.rstrip("0123456789") for t in asked):
        mine = [t for t in asked if t.channel.startswith(part)]
        found = state.known.found[INSIDE]
        slow = sum(t.key in found and found[t.key].loss > state.options.threshold for t in mine)
        if len(mine) >= ENOUGH_PEERS and 4 * slow <= len(mine):
            continue  # else those that are slow alike would be what is usual
        repeats = max(t.repeats for t in mine)
        good = (key for key in state.known.found[INSIDE]
                if key not in busy and key[2].startswith(part) and state.verdict(*key) is False)  # fmt: skip
        for key in itertools.islice(good, state.options.controls):
            yield Trial(INSIDE, key[1], key[2], repeats, control=True)
