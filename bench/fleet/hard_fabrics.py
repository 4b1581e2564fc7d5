"""Plays planner and judge on fabrics for which they were not built: python3 bench/fleet/hard_fabrics.py."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "python"), str(Path(__file__).resolve().parent)]

from hard.cases import CASES  # noqa: E402
from hard.net import Case, Truth  # noqa: E402

from busbw.fleet.doubts import Judged, doubts  # noqa: E402
from busbw.fleet.fabric import expand  # noqa: E402
from busbw.fleet.judge import judge  # noqa: E402
from busbw.fleet.knowledge import Knowledge  # noqa: E402
from busbw.fleet.level import Before, judge_levels  # noqa: E402
from busbw.fleet.options import Options, inside_of  # noqa: E402
from busbw.fleet.plan import next_round  # noqa: E402
from busbw.fleet.results import Results  # noqa: E402
from busbw.fleet.trial import Outcome  # noqa: E402
from busbw.fleet.verdict import Verdict  # noqa: E402


@dataclass
class Sums:
    """Of one kind of fabric, or of all."""

    faults: int = 0
    found: int = 0  # a verdict has its place
    named: int = 0  # and its kind
    good: int = 0
    accused: int = 0
    invented: int = 0  # verdicts on switches without a fault
    rounds: list[float] = field(default_factory=list)  # as a share of those that are allowed
    planning_ms: float = 0.0

    def add(self, other: Sums) -> None:
        """One more."""
        for name in ("faults", "found", "named", "good", "accused", "invented"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.rounds += other.rounds
        self.planning_ms = max(self.planning_ms, other.planning_ms)


def main() -> int:
    """Every chosen kind with every seed."""
    args = arguments()
    first, _, last = args.seeds.partition("-")
    names = [name for at, name in enumerate(sorted(CASES)) if args.half in {"both", ["first", "second"][at % 2]}]
    every = Sums()
    for name in args.only.split(",") if args.only else names:
        sums = Sums()
        for seed in range(int(first), int(last or first) + 1):
            sums.add(play(name, CASES[name](seed), seed, args.verbose))
        every.add(sums)
        if not args.brief:
            tell(name, sums)
    tell("all", every)
    return 0


def tell(name: str, s: Sums) -> None:
    """A line."""
    print(f"{name:20} found {s.found:3} named {s.named:3} of {s.faults:3}   accused {s.accused:3} of {s.good:5}   "
          f"invented {s.invented:3}   rounds/limit {statistics.median(s.rounds):.2f}, most {max(s.rounds):.2f}   "
          f"planning {s.planning_ms:.0f} ms", flush=True)  # fmt: skip


def play(name: str, case: Case, seed: int, verbose: bool) -> Sums:
    """One fleet."""
    of, known, rounds, slowest = case.net.fabric, Knowledge(), list[list[Outcome]](), 0.0
    options = Options(inside=inside_of(of.rails))
    while True:
        before = time.process_time()
        trials = next_round(of, known, options)
        slowest = max(slowest, time.process_time() - before)
        if not trials:
            break
        rounds.append(case.net.run(trials, known.rounds))
        known.learn(rounds[-1])
    verdicts = judge(of, known, options)
    results = Results(rounds)
    verdicts += judge_levels(results, Before(case.expected), options, verdicts)
    said = doubts(results, Judged(of, known, options, verdicts), bool(case.expected))
    score = count(case, verdicts, said)
    score.rounds = [known.rounds / (2 * math.log2(max(4, len(of.nodes))))]
    score.planning_ms = slowest * 1000
    if verbose:
        print(f"{name} {seed}: {known.rounds} rounds, {score}")
        print("   truth", [(*sorted(t.kinds), *sorted(t.places), *sorted(t.channels)) for t in case.truths])
        print("   said", [f"{v.name} {100 * v.loss:.1f} {v.reason[:30]}" for v in verdicts], said)
    return score


def count(case: Case, verdicts: list[Verdict], said: list[str]) -> Sums:
    """What was named, and who was accused."""
    sums = Sums(faults=len(case.truths))
    guilty = set[str]().union(*(true.places for true in case.truths))
    guilty |= {link[-1] for link in case.net.slow if link[0] in {"cable", "nic", "pcie", "nvlink"}}
    for true in case.truths:
        mine = [v for v in verdicts if at_place(v, true, case)]
        told = true.told and any(place in one for one in said for place in true.places)
        sums.found += bool(mine) or told
        sums.named += any(v.kind in true.kinds for v in mine) or told
    nodes = set(case.net.fabric.nodes)
    sums.good = len(nodes - guilty)
    sums.accused = len({v.place for v in verdicts} & (nodes - guilty))
    switches = [v for v in verdicts if v.kind != "level" and v.place not in nodes]
    sums.invented = sum(not any(at_place(v, true, case) for true in case.truths) for v in switches)
    return sums


def at_place(v: Verdict, true: Truth, case: Case) -> bool:
    """Whether this verdict is of that fault."""
    if v.kind == "shared":
        named = frozenset(expand(v.place))
        return v.channel in true.channels and any(
            2 * len(named & case.members.get(place, frozenset())) > len(named) for place in true.places
        )
    if true.channels and v.channel and v.channel not in true.channels and v.kind != "level":
        return False
    places = {word.split()[-1] if v.kind == "either" else word for word in v.place.split(" or ")}
    return bool(places & true.places) or (v.kind == "spine" and "spine" in true.kinds)


def arguments() -> argparse.Namespace:
    """The words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-5", help="FIRST-LAST")
    parser.add_argument("--half", default="both", choices=["first", "second", "both"], help="every second kind")
    parser.add_argument("--only", default="", help="kinds, with commas between")
    parser.add_argument("--brief", action="store_true", help="only the sums")
    parser.add_argument("--verbose", action="store_true", help="all verdicts")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
