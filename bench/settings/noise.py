"""Searches on a made-up machine with the times and the noise that two H200 had, and says what a table gives there.

    python3 bench/settings/noise.py [--seeds 10] [--budget 48,80] [--eager]

Times by way and size are those of NCCL 2.28.9's all-reduce on two H200. A trial takes 2 s. A call that is started by
itself takes no less than a processor needs, 7.5 to 12.5 us, which differs from process to process (--eager); in a graph
it takes the time of the GPU. For each of two machines (as it is, and Tree, LL and 64 KiB of buffers in an nccl.conf)
and each budget it prints the mean over sizes of the best fixed setting's speed that the table reaches, without noise,
how many tables cost more than 0.5 % at a size, and how many there are.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from busbw.experiment.clock import Clock  # noqa: E402
from busbw.experiment.plan import Plan  # noqa: E402
from busbw.experiment.trial import Outcome, Point, Trial  # noqa: E402
from busbw.experiment.tune_nccl.rules import Place, Rule, Way, read_table, table_text  # noqa: E402
from busbw.experiment.tune_nccl.search import Search, sizes_of  # noqa: E402
from busbw.experiment.tune_nccl.ways import Asked, environment_of  # noqa: E402

FACTS = {"nccl": "2.28.9", "gpu": "H200", "driver": "1", "topology": "0" * 16, "ranks": "2", "nodes": "1"}
SIZES = [1 << power for power in range(16, 27, 2)]
TIMES: Mapping[str, tuple[float, ...]] = {
    "ring/ll": (7.6, 8.5, 15.0, 41.6, 144.3, 552.5), "ring/ll128": (16.0, 16.3, 18.8, 32.2, 83.5, 273.3),
    "ring/simple": (20.9, 21.1, 23.7, 34.6, 78.0, 249.0), "tree/ll": (11.0, 12.5, 18.3, 46.5, 156.0, 596.5),
    "tree/ll128": (13.5, 14.8, 21.0, 44.8, 100.6, 294.2), "tree/simple": (21.0, 20.8, 24.0, 41.9, 92.0, 244.3),
}  # fmt: skip
OWN = ("ring/ll",) * 3 + ("ring/simple",) * 3
"""NCCL's own choices at SIZES."""
BAD = {"NCCL_ALGO": "Tree", "NCCL_PROTO": "LL", "NCCL_BUFFSIZE": "65536"}
FULL = {"ring/ll": 32, "ring/ll128": 24, "ring/simple": 24, "tree/ll": 32, "tree/ll128": 32, "tree/simple": 32}
START = 7.4, 12.5


class Machine:
    """Obeys tables and settings as NCCL does."""

    def __init__(self, hindered: Mapping[str, str], seed: int, *, eager: bool) -> None:
        self.hindered, self.eager, self.random, self.now = dict(hindered), eager, random.Random(seed), 0.0

    @staticmethod
    def time_us(way: Way, size: int) -> float:
        """Without noise: between two sizes that were measured, straight in logarithms."""
        known = TIMES[way.name]
        place = min(max((math.log2(size) - 16) / 2, 0.0), len(SIZES) - 1.0)
        index = min(int(place), len(SIZES) - 2)
        low, high = math.log(known[index]), math.log(known[index + 1])
        us = math.exp(low + (place - index) * (high - low))
        moved = size / 5e5 * FULL[way.name] / (way.channels or FULL[way.name])
        return us - min(moved, 0.8 * us) + moved if way.channels and way.channels < FULL[way.name] else us

    def taken(self, size: int, environment: Mapping[str, str | None]) -> float:
        settings = {name: value for name, value in {**self.hindered, **environment}.items() if value}
        index = min(int((math.log2(size) - 16) / 2 + 0.5), len(OWN) - 1)
        forced = f"{settings['NCCL_ALGO']}/{settings['NCCL_PROTO']}".lower() if "NCCL_ALGO" in settings else ""
        name = forced or OWN[index]
        path = environment.get("BUSBW_TUNER_TABLE")
        for place in read_table(Path(path)) if path and not forced else ():
            for rule in place.rules:
                if rule.first <= size <= rule.last:
                    return self.time_us(Way(name, rule.way.channels) if rule.way.name == "default" else rule.way, size)
        return self.time_us(Way(name), size)

    def measure(self, plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        """As `run_trial`."""
        del folder, limit_s
        self.now += 2.0
        words = dict(zip(plan.words[1::2], plan.words[2::2], strict=False))
        size, last, step, times = int(words["-b"]), int(words["-e"]), int(words["-f"]), {}
        start = self.random.uniform(*START)
        while size <= last:
            true = self.taken(size, plan.variants[variant].environment)
            for placement in ("out_of_place", "in_place"):
                us = max(true, start * self.random.gauss(1, 0.06)) if self.eager else true
                us *= self.random.gauss(1, 0.005) * (self.random.uniform(1, 4) if self.random.random() < 0.005 else 1)
                times[Point(plan.words[0], size, placement)] = us
            size *= step
        return Trial(number, variant, Outcome.MEASURED, 2.0, times)


def tried(hindered: Mapping[str, str], budget: float, seed: int, *, eager: bool) -> tuple[list[float], float]:
    """The best fixed setting's time over the table's at each size, and the most that the table costs anywhere."""
    machine = Machine(hindered, seed, eager=eager)
    asked = Asked(("all_reduce",), 2, SIZES[0], SIZES[-1], loosened=tuple(hindered), multicast=False,
                  graphs=0 if eager else 10)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        search = Search(asked, FACTS, Path(folder), 3, Clock(budget - 2, lambda: machine.now), machine.measure,
                        proving_rounds=40)  # fmt: skip
        rules: list[Rule] = search.collective("all_reduce")[0]
        path = Path(folder) / "table.txt"
        path.write_text(table_text([Place(FACTS, tuple(rules))]))
        # Where no rule pays, nobody is told to empty what hinders.
        environment = environment_of(asked, path) if rules else {}
        shares, cost = [], 0.0
        for size in sizes_of(asked):
            now = machine.taken(size, environment)
            shares.append(min(machine.time_us(Way(name), size) for name in TIMES) / now)
            cost = max(cost, now / machine.taken(size, {}) - 1)
        return (shares if rules else []), cost


def main() -> int:
    """1 where a table costs something, or gives less than 98 % of the best fixed speed in the middle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=lambda text: [float(each) for each in text.split(",")], default=[48.0, 80.0])
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    code = 0
    for name, hindered in (("healthy", {}), ("planted", BAD)):
        for budget in args.budget:
            found = [tried(hindered, budget, seed, eager=args.eager) for seed in range(args.seeds)]
            shares = sorted(fmean(each) for each, _ in found if each)
            worst = min((min(each) for each, _ in found if each), default=math.nan)
            costs = sum(cost > 0.005 for _, cost in found)
            middle = shares[len(shares) // 2] if shares else math.nan
            print(f"{name}, {budget:g} s: {len(shares)} tables of {args.seeds}, {middle:.1%} of the best fixed speed "
                  f"in the middle, {shares[0] if shares else math.nan:.1%} at least, {worst:.1%} at the worst size; "
                  f"{costs} cost more than 0.5 % somewhere", flush=True)  # fmt: skip
            code = code or int(costs > 0 or not middle >= 0.98)
    return code


if __name__ == "__main__":
    sys.exit(main())
