"""Plays planner and judge on simulated fabrics, beside pairwise scripts: python3 bench/fleet --seeds 0-99."""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "python"), str(Path(__file__).resolve().parent)]

from pairwise import METHODS, Found  # noqa: E402

from busbw.fleet.options import Options, inside_of  # noqa: E402
from busbw.fleet.score import Score, play  # noqa: E402
from busbw.fleet.simulate import Fault, World, draw_faults, make_fabric  # noqa: E402


def main() -> int:
    """Every seed in turn until the budget has passed; a fleet of seed s has s modulo 9 faults."""
    args = arguments()
    first, _, last = args.seeds.partition("-")
    fabric = make_fabric(args.nodes, args.pod_nodes, args.rails, args.pods_above)
    options = Options(smallest_loss=args.smallest_loss, inside=inside_of(args.rails))
    deadline = time.monotonic() + args.budget
    scores: list[Score] = []
    others: dict[str, list[Found]] = {}
    for seed in range(int(first), int(last or first) + 1):
        if time.monotonic() > deadline:
            break
        world = World(fabric, noise=args.noise, seed=seed, restless=args.restless, starts=args.starts,
                      lapses=args.lapses)  # fmt: skip
        world = replace(world, faults=draw_faults(world, seed % 9, args.smallest_loss))
        if args.doubles:
            world = replace(world, faults=double_fault(world, args.smallest_loss))
        scores.append(play(world, options))
        one = scores[-1]
        if args.verbose or one.missed or one.invented:
            print(
                f"seed {seed}: {one.named} of {one.faults} named, missed {one.missed}, invented {one.invented}",
                flush=True,
            )
        for name in METHODS if args.pairwise else ():
            others.setdefault(name, []).append(METHODS[name](world, args.smallest_loss))
    tell(scores, args.nodes)
    for name, found in others.items():
        tell_pairwise(name, found, args.nodes)
    return 0


DOUBLES = ("spine spine", "uplink spine", "uplink uplink", "leaf uplink", "leaf spine", "leaf cable", "uplink cable")


def double_fault(world: World, smallest: float) -> tuple[Fault, ...]:
    """Two faults of switches of one rail, kinds by turns; a leaf and its uplink, and a cable below, are of one pod.

    What is behind another fault on every path must be the worse one, by a third and 3 %: else nobody could see it.
    """
    rng = random.Random(f"doubles {world.seed}")
    kinds = DOUBLES[world.seed % len(DOUBLES)].split()
    rail, pods = rng.randrange(world.fabric.rails), rng.sample(list(world.fabric.pods()), 2)
    first = smallest * 10 ** (0.7 * rng.random())
    second = min(0.9, max(smallest + first, first * (1.35 + rng.random())))
    places = [f"{kinds[0]}{rail}@{pods[0]}", f"{kinds[1]}{rail}@{pods[kinds[0] == kinds[1]]}"]
    if kinds[1] == "cable":
        places[1] = f"cable{rail}@{rng.choice(world.fabric.pods()[pods[0]])}"
    if "spine" in kinds:
        spines = rng.sample(range(world.spines), 2)
        places = [f"spine{rail}.{spines[at]}" if kind == "spine" else place
                  for at, (kind, place) in enumerate(zip(kinds, places, strict=True))]  # fmt: skip
    return (Fault(places[0], first), Fault(places[1], second))


def tell(scores: list[Score], nodes: int) -> None:
    """The figures of busbw fleet."""
    faults, named = sum(s.faults for s in scores), sum(s.named for s in scores)
    good = sum(nodes - min(nodes, s.faults) for s in scores)
    rounds, planning = sorted(s.rounds for s in scores), sorted(s.planning_ms for s in scores)
    accused, invented = sum(s.accused for s in scores), sum(len(s.invented) for s in scores)
    print(f"{len(scores)} fleets of {nodes} nodes, {faults} faults")
    print(f"  named with kind and place  {named} of {faults} ({100 * named / max(1, faults):.2f} %)")
    print(f"  good nodes accused         {accused} of {good} ({100 * accused / good:.4f} %)")
    print(f"  verdicts without a fault   {invented}")
    print(f"  rounds                     median {middle(rounds)}, most {rounds[-1]}")
    print(f"  node-minutes               median {middle(sorted(s.node_minutes for s in scores)):.0f}")
    print(f"  minutes                    median {middle(sorted(s.minutes for s in scores)):.1f}")
    print(
        f"  longest plan of a round    median {middle(planning):.0f} ms, most {planning[-1]:.0f} ms of processor time"
    )


def tell_pairwise(name: str, found: list[Found], nodes: int) -> None:
    """The figures of a script that only knows pairs of nodes."""
    bad, good = sum(f.bad for f in found), sum(nodes - f.bad for f in found)
    print(f"{name}: {sum(f.found for f in found)} of {bad} bad nodes named (no kind), "
          f"{sum(f.accused for f in found)} of {good} good ones accused, {found[0].rounds} rounds, "
          f"{sum(f.node_minutes for f in found) / len(found):.0f} node-minutes")  # fmt: skip


def middle(values: list[float] | list[int]) -> float:
    """The median of sorted values."""
    return values[len(values) // 2]


def arguments() -> argparse.Namespace:
    """The words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0-99", help="FIRST-LAST")
    parser.add_argument("--nodes", type=int, default=1024)
    parser.add_argument("--pod-nodes", type=int, default=32)
    parser.add_argument(
        "--pods-above", type=int, default=0, help="pods below one switch of a third level; 0: two levels"
    )
    parser.add_argument("--rails", type=int, default=8)
    parser.add_argument("--smallest-loss", type=float, default=0.03)
    parser.add_argument("--noise", type=float, default=0.01)
    parser.add_argument("--restless", type=float, default=0.0, help="how much noise and load drift from round to round")
    parser.add_argument("--starts", type=float, default=0.0, help="how much groups differ from start to start")
    parser.add_argument("--lapses", type=float, default=0.0, help="share of groups that fail without a fault")
    parser.add_argument("--doubles", action="store_true", help="two faults of switches of one rail in each fleet")
    parser.add_argument("--budget", type=float, default=3600.0, help="seconds after which no fleet is begun")
    parser.add_argument("--pairwise", action="store_true", help="also what pairwise scripts find on the same fabrics")
    parser.add_argument("--verbose", action="store_true", help="a line for each fleet")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
