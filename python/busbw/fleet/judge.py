"""Names what is slow: the set of components that explains all results best.

Inside a node each part was measured by itself. On a rail hypotheses are components, each with a loss of its own; a
group is as slow as the slowest component that it uses. The set is built by maximum likelihood: the component that
explains most is added, and each that is no longer needed taken back, as long as the logarithm of the likelihood gains
more than a fault costs. The search begins with each of the best few, so that of two faults both are found. The cost
bounds false alarms: with C candidates it is ln(C) + 7, so that noise invents one fault in about a thousand rails. Then
each is exchanged for every other, and the sets of the other searches are compared: what explains nearly as much is the
runner-up.
What was in the very same tests cannot be told apart by them: then all are named together, and none is accused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from busbw.fleet.fabric import Fabric
from busbw.fleet.knowledge import Knowledge
from busbw.fleet.likelihood import mean, penalty
from busbw.fleet.options import SURE, Options, bad_inside, broken_nodes
from busbw.fleet.suspects import BUSY, MOST, SPINES, Candidate, users
from busbw.fleet.together import Loose, behind_one, loose_of
from busbw.fleet.trial import ACROSS, INSIDE, WITHIN, Deviation
from busbw.fleet.verdict import EVERYBODY, Verdict
from busbw.fleet.words import compressed

CLOSE = 3.0  # of the logarithm of the likelihood: e**3, one to twenty
MOST_FAULTS = 64  # of one rail
FIRSTS = 4  # components with which the search begins
MAYBE_FULL = "it is full or slow"
"""Of links above leaves: they are measured while many groups send, and nobody sees what else does."""
APART = 3  # slow groups without a common node that show a slow spine: one node at fault may spoil several


class _Test(NamedTuple):
    one: Deviation
    users: frozenset[Candidate]
    across: bool
    certain: bool  # a spine, if one is slow, is surely met: many flows
    nodes: frozenset[str]


class _Spine(NamedTuple):
    loss: float
    share: float  # of the pairs that meet it, and no worse one


_Spines = tuple[_Spine, ...]


class _Gain(NamedTuple):
    gain: float  # of the logarithm of the likelihood
    loss: float


def judge(fabric: Fabric, known: Knowledge, options: Options) -> list[Verdict]:
    """Faults by loss, largest first."""
    found = [*_everywhere(fabric, known, options), *_inside(known, options)]
    if known.another:
        # What every part of them shows is one verdict, by the part that shows most.
        part, one = max(known.another.losses.items(), key=lambda each: each[1].loss)
        nodes = compressed([node for node in fabric.nodes if node in known.another.nodes])
        part = part if len(known.another.losses) == 1 else ""
        found.append(Verdict("level", nodes, part, one.loss, max(0.001, one.error), "alike: another kind of nodes"))
    own = bad_inside(known, options)
    for rail in range(fabric.rails):
        for verdict in _between(fabric, known, f"rail{rail}", options):
            if verdict.kind != "link":
                found.append(verdict)
            elif (verdict.place, f"nic{rail}") not in own and (verdict.place, f"pcie{rail}") not in own:
                loopback = (INSIDE, (verdict.place,), f"nic{rail}") in known.found[INSIDE]
                found.append(Verdict("cable", *_rest(verdict)) if loopback else verdict)
    for rail in range(fabric.rails if options.later else 0):
        channel = f"latency{rail}"
        for verdict in _between(fabric, known, channel, options.late):
            found.append(Verdict("latency", *_rest(verdict)) if verdict.kind == "link" else verdict)
    return sorted(found, key=lambda v: (-v.loss, v.name))


def _everywhere(fabric: Fabric, known: Knowledge, options: Options) -> Iterator[Verdict]:
    """What a channel loses on all nodes; a rail only what its NICs, and a NIC only what its PCIe links do not lose."""
    pods = set(fabric.pod_of.values())
    for channel, one in known.everywhere.items():
        number, mine = channel.lstrip("abcdefghijklmnopqrstuvwxyz"), options.on(channel)
        below = {"nic": ("pcie",), "rail": ("pcie", "nic")}.get(channel.removesuffix(number), ())
        parts = [known.everywhere[part] for part in (f"{kind}{number}" for kind in below) if part in known.everywhere]
        if one.loss <= max(mine.smallest_loss, SURE * one.error, *(part.loss + mine.threshold for part in parts)):
            continue
        if loose_of(fabric, known, channel, mine).places.crowded:
            continue  # what its pairs reach is what they share
        unit = "a second" if channel.startswith("latency") else "GB/s"
        reason = f"{one.gbps:.4g} of {one.others:.4g} {unit}"
        if len(pods) <= 2 and channel.startswith(("rail", "latency")):
            yield from (Verdict("leaf", pod, channel, one.loss, one.error, reason) for pod in sorted(pods))
        if len(pods) not in {1, 2} or not channel.startswith(("rail", "latency")):
            yield Verdict("level", EVERYBODY, channel, one.loss, one.error, reason)


def _rest(v: Verdict) -> tuple[str, str, float, float, str, str]:
    return (v.place, v.channel, v.loss, v.error, v.reason, v.runner_up)


def _inside(known: Knowledge, options: Options) -> Iterator[Verdict]:
    broken = broken_nodes(known, options)
    slow = bad_inside(known, options)
    for node in sorted(broken):
        reason = next(one.reason for key, one in known.found[INSIDE].items() if key[1] == (node,))
        yield Verdict("broken", node, "", 1.0, 0.0, reason)
    for node, channel in sorted(slow):
        if node in broken:
            continue
        one = known.found[INSIDE][INSIDE, (node,), channel]
        kind = channel.rstrip("0123456789")
        pcie = known.found[INSIDE].get((INSIDE, (node,), f"pcie{channel[3:]}")) if kind == "nic" else None
        # The NIC's loopback passes the PCIe link: it is to blame only for what it loses beyond that.
        if (
            pcie
            and (node, f"pcie{channel[3:]}") in slow
            and one.loss - pcie.loss
            <= options.threshold + (options.standard_errors * math.hypot(one.error, pcie.error))
        ):
            continue
        yield Verdict(kind, node, channel, one.loss, one.error, one.reason)


def _between(fabric: Fabric, known: Knowledge, channel: str, options: Options) -> Iterator[Verdict]:
    """Faults of one rail. What nodes without a pod may share is named instead of each of them."""
    loose = loose_of(fabric, known, channel, options)
    found = list(_of_rail(list(_tests(fabric, known, channel, loose)), channel, options))
    links = {v.place: Deviation(v.loss, v.error) for v in found if v.kind == "link" and v.place in loose.places.best}
    behind, spared = behind_one(loose, links)
    unsure = {"either"} if loose.places.crowded else set()
    yield from (v for v in found if v.kind not in {"link", *unsure} or (v.kind == "link" and v.place not in spared))
    for nodes, loss, error in behind:
        yield Verdict("shared", compressed(nodes), channel, loss, error, "alike, and where they are is not known")


def _tests(fabric: Fabric, known: Knowledge, channel: str, loose: Loose) -> Iterator[_Test]:
    sizes = Counter(fabric.pod_of.values())
    for kind in (WITHIN, ACROSS):
        for key, one in known.found[kind].items():
            if key[2] == channel and loose.counts(key, one):
                nodes = key[1]
                yield _Test(
                    loose.own(key, one),
                    frozenset(users(fabric, kind, nodes, sizes)),
                    kind == ACROSS,
                    len(nodes) > 8,
                    frozenset(nodes),
                )


class _Rail:
    """The tests of one rail, and how well sets of faults explain them."""

    def __init__(self, tests: Sequence[_Test], candidates: Iterable[Candidate]) -> None:
        self.tests = tests
        self.of: dict[Candidate, list[int]] = {c: [] for c in candidates}
        for number, test in enumerate(tests):
            for candidate in test.users & self.of.keys():
                self.of[candidate].append(number)
        self.enough_apart = min(APART, self._apart(range(len(tests)) if SPINES[0] in self.of else ()))

    def _apart(self, numbers: Iterable[int], *, across: bool = True) -> int:
        """How many of these tests (between pods) have no node in common, up to those that are asked for."""
        used: set[str] = set()
        count = 0
        for number in numbers:
            test = self.tests[number]
            if count < APART and (test.across or not across) and used.isdisjoint(test.nodes):
                used |= test.nodes
                count += 1
        return count

    def predicted(self, chosen: dict[Candidate, float]) -> list[float]:
        """The loss of each test by all chosen faults but the spines."""
        losses = [0.0] * len(self.tests)
        for candidate, loss in chosen.items():
            if candidate.kind != "spine":
                for number in self.of[candidate]:
                    losses[number] = max(losses[number], loss)
        return losses

    def penalties(self, chosen: dict[Candidate, float]) -> tuple[list[float], _Spines]:
        """Minus the logarithm of the likelihood of each test, and what is supposed of the spines."""
        losses = self.predicted(chosen)
        spines = self.spines([chosen.get(spine, 0.0) for spine in SPINES], losses)
        return [self.penalty(number, loss, spines) for number, loss in enumerate(losses)], spines

    def spines(self, slow: Sequence[float], losses: Sequence[float]) -> _Spines:
        """Slow spines of these losses, worst first, which as many pairs meet as is likeliest: a hash spreads flows."""
        worst = sorted((loss for loss in slow if loss > 0), reverse=True)
        if not worst:
            return ()
        hits, pairs = [0] * len(worst), 0
        for number in self.of.get(SPINES[0], ()):
            test, other = self.tests[number], losses[number]
            if test.certain or other >= worst[0]:
                continue
            pairs += 1
            beside = [penalty(test.one, max(loss, other)) for loss in worst]
            least = min(beside)
            if least < penalty(test.one, other):
                hits[beside.index(least)] += 1
        shares = [min(0.95, max(0.05, hit / pairs)) if pairs else 0.5 for hit in hits]
        total = max(1.0, sum(shares) / 0.95)
        return tuple(_Spine(loss, share / total) for loss, share in zip(worst, shares, strict=True))

    def penalty(self, number: int, loss: float, spines: _Spines) -> float:
        """Of one test, whose components but the spines lose `loss`."""
        test = self.tests[number]
        if not test.across or not spines or spines[0].loss <= loss:
            return penalty(test.one, loss)
        if test.certain:
            return penalty(test.one, spines[0].loss)
        ways = [penalty(test.one, max(loss, spine.loss)) - math.log(spine.share) for spine in spines]
        ways.append(penalty(test.one, loss) - math.log(1 - sum(spine.share for spine in spines)))
        low = min(ways)
        return low - math.log(sum(math.exp(low - way) for way in ways))

    def best_loss(self, candidate: Candidate, now: tuple[list[float], _Spines], losses: Sequence[float]) -> _Gain:
        """What adding this candidate gains at its likeliest loss; `now` are the penalties without it."""
        mine = self.of[candidate]
        seen = sorted({round(self.tests[n].one.loss, 3) for n in mine if self.tests[n].one.loss > losses[n]})
        tried = seen[:: max(1, len(seen) // 12)] + seen[-1:]
        if mine and seen:
            tried.append(mean(self.tests[n].one for n in mine))
        best = _Gain(0.0, 0.0)
        spine = candidate.kind == "spine"
        for loss in tried:
            if loss > 0:
                spines = self.spines([loss, *(each.loss for each in now[1])], losses) if spine else now[1]
                own = 0.0 if spine else loss
                gains = {n: now[0][n] - self.penalty(n, max(own, losses[n]), spines) for n in mine}
                if spine and self._apart(n for n, gain in gains.items() if gain > CLOSE) < self.enough_apart:
                    continue
                if candidate.kind in BUSY:
                    smallest = sorted((n for n in mine if gains[n] > CLOSE), key=lambda n: len(self.tests[n].nodes))
                    if candidate.kind == MOST:
                        if len(smallest) < 3:
                            continue  # a group that was slow once is no leaf
                    elif self._apart(smallest, across=False) < 2:
                        continue  # one node at fault is in no two groups that have nobody in common
                gain = sum(gains.values())
                best = max(best, _Gain(gain, min(1.0, loss)))
        return best


def _of_rail(tests: Sequence[_Test], channel: str, options: Options) -> Iterator[Verdict]:
    slow = [test for test in tests if test.one.loss > options.threshold]
    if not slow:
        return
    every = frozenset().union(*(test.users for test in tests))
    # Only what a slow test passed can be slow.
    rail = _Rail(tests, sorted(frozenset().union(*(test.users for test in slow))))
    cost = math.log(len(every) + 1) + 7
    chosen, others = _likeliest(rail, cost, options)
    base = sum(rail.penalties(chosen)[0])
    for candidate, loss in chosen.items():
        if loss > options.threshold:
            members = [tests[n].one for n in rail.of[candidate]]
            error = 1 / math.sqrt(sum(1 / max(one.error, 0.001) ** 2 for one in members))
            reason = _reason(rail, chosen, candidate) if loss >= 1 else ""
            kind, place = _as_told(rail, candidate)
            if kind in {"spine", "uplink"} and loss < 1:
                reason = MAYBE_FULL
            if kind in BUSY:
                kind, reason = "leaf", f"only with {BUSY[kind]} of its nodes at once"
            instead = [f"{c.kind} {c.place}".strip() for other in others if candidate not in other
                       for c in other if c not in chosen]  # fmt: skip
            runner = "" if kind == "either" else _runner_up(rail, chosen, candidate, base) or " and ".join(instead[:2])
            yield Verdict(kind, place, channel, loss, max(0.001, error), reason, runner)


def _reason(rail: _Rail, chosen: dict[Candidate, float], one: Candidate) -> str:
    """Why nothing was measured: of a group without another fault first, since that may be the other's reason."""
    dead = {candidate for candidate, loss in chosen.items() if loss >= 1}
    tests = [rail.tests[number] for number in rail.of[one] if rail.tests[number].one.reason]
    tests.sort(key=lambda test: len(test.users & dead))
    return tests[0].one.reason if tests else ""


def _as_told(rail: _Rail, one: Candidate) -> tuple[str, str]:
    """Kind and place of a fault; of what was in the very same tests all are named: nobody knows which it is."""
    if one.kind == "spine":
        return one
    same = [other for other in rail.of if other.kind not in {"spine", *BUSY} and rail.of[other] == rail.of[one]]
    if one.kind in BUSY:
        return one
    if len(same) == 1:
        return one
    return "either", " or ".join(f"{kind} {place}" for kind, place in sorted(same))


def _likeliest(
    rail: _Rail, cost: float, options: Options
) -> tuple[dict[Candidate, float], list[dict[Candidate, float]]]:
    """The likeliest set of faults, and others that explain nearly as much.

    Of two faults neither may gain most alone: what explains a little of both does. So the search begins with each of
    the best few as well.
    """
    now, losses = rail.penalties({}), rail.predicted({})
    likely = [c for most, c in _by_most(rail, now)[: 4 * FIRSTS] if most > cost and c != SPINES[1]]
    firsts = sorted(((rail.best_loss(c, now, losses), c) for c in likely), reverse=True)
    starts = [{}, *({c: gain.loss} for gain, c in firsts[1:FIRSTS] if gain.gain > cost)]
    sets: dict[frozenset[Candidate], tuple[float, dict[Candidate, float]]] = {}
    for start in starts:
        chosen = _choose(rail, cost, options, start)
        sets.setdefault(frozenset(chosen), (sum(rail.penalties(chosen)[0]) + cost * len(chosen), chosen))
    ranked = sorted(sets.values(), key=lambda each: each[0])
    return ranked[0][1], [chosen for price, chosen in ranked[1:] if price - ranked[0][0] <= CLOSE]


def _choose(rail: _Rail, cost: float, options: Options, start: dict[Candidate, float]) -> dict[Candidate, float]:
    chosen = dict(start)
    seen: set[frozenset[Candidate]] = set()  # two that take each other's place would do so for ever
    while len(chosen) < MOST_FAULTS and frozenset(chosen) not in seen:
        seen.add(frozenset(chosen))
        now, losses = rail.penalties(chosen), rail.predicted(chosen)
        (gain, loss), best = _best(rail, chosen, now, losses)
        if best is None or gain <= cost or loss <= options.threshold:
            break
        chosen[best] = loss
        _prune(rail, chosen, cost)
    return chosen


def _best(
    rail: _Rail, chosen: dict[Candidate, float], now: tuple[list[float], _Spines], losses: Sequence[float]
) -> tuple[_Gain, Candidate | None]:
    found: tuple[_Gain, Candidate | None] = (_Gain(0.0, 0.0), None)
    for most, candidate in _by_most(rail, now):
        if most <= found[0].gain:
            break
        if candidate not in chosen and (candidate != SPINES[1] or SPINES[0] in chosen):
            gain = rail.best_loss(candidate, now, losses)
            if gain.gain > found[0].gain + 1e-9:
                found = (gain, candidate)
    return found


def _by_most(rail: _Rail, now: tuple[list[float], _Spines]) -> list[tuple[float, Candidate]]:
    """Candidates with what each can gain at most: the penalties of its tests, since none falls below zero."""
    return sorted(((sum(now[0][n] for n in mine), c) for c, mine in rail.of.items()), reverse=True)


def _prune(rail: _Rail, chosen: dict[Candidate, float], cost: float) -> None:
    """Take back what later faults explain as well: two nodes of a pod before its leaf, say."""
    for candidate in list(chosen):
        loss = chosen[candidate]
        without = {c: other for c, other in chosen.items() if c != candidate}
        now, losses = rail.penalties(without), rail.predicted(without)
        gain, better = rail.best_loss(candidate, now, losses)
        if gain <= cost:
            del chosen[candidate]
        elif better != loss:
            chosen[candidate] = better
    if SPINES[1] in chosen and SPINES[0] not in chosen:
        chosen[SPINES[0]] = chosen.pop(SPINES[1])


def _runner_up(rail: _Rail, chosen: dict[Candidate, float], one: Candidate, base: float) -> str:
    without = {c: loss for c, loss in chosen.items() if c != one}
    now, losses = rail.penalties(without), rail.predicted(without)
    out = {one: 0.0, SPINES[1]: 0.0}  # a second spine is nothing else than a first
    (gain, _), other = _best(rail, {**without, **{c: without.get(c, loss) for c, loss in out.items()}}, now, losses)
    if other is None or sum(now[0]) - gain - base > CLOSE:
        return ""
    return f"{other.kind} {other.place}".strip()
