"""A made-up NCCL for the search: it takes times from a model, and obeys settings and tables as NCCL does."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from busbw.experiment.plan import Plan
from busbw.experiment.trial import Outcome, Point, Trial
from busbw.experiment.tune_nccl.rules import Place, Way, read_table
from busbw.experiment.tune_nccl.ways import first_ways

FACTS = {"nccl": "2.28.9", "gpu": "Made-up GPU", "driver": "1.2", "topology": "0" * 16, "ranks": "4", "nodes": "1"}

# Latency (us), GB/s of one channel, and the most that channels add up to, by algorithm and protocol.
_WAYS: Mapping[str, tuple[float, float, float]] = {
    "tree/ll": (9.0, 2.0, 40.0), "tree/ll128": (13.0, 8.0, 150.0), "tree/simple": (26.0, 9.0, 180.0),
    "ring/ll": (11.0, 2.5, 50.0), "ring/ll128": (17.0, 10.0, 230.0), "ring/simple": (31.0, 11.0, 260.0),
    "nvls/simple": (28.0, 20.0, 330.0), "pat/simple": (22.0, 9.0, 120.0),
}  # fmt: skip
CHANNELS = 16


@cache
def _places(path: str, _content: bytes) -> list[Place]:
    """A table as it is read, once for each content."""
    return read_table(Path(path))


class MadeUpNccl:
    """`hindered` are settings in the environment; `stray` is what a bad choice of its own is off by, by size."""

    def __init__(self, hindered: Mapping[str, str] | None = None, *, worse: Mapping[str, str] | None = None,
                 noise: float = 0.01, seed: int = 1, best_chunk: int = 0) -> None:  # fmt: skip
        self.best_chunk = best_chunk  # other chunks are slower, its own too
        self.hindered = dict(hindered or {})
        self.worse = dict(worse or {})
        self.noise = noise
        self.random = random.Random(seed)
        self.trials = 0
        self.now = 0.0

    def time_us(self, way: Way, size: int, settings: Mapping[str, str]) -> float:
        """Without noise."""
        latency, each, most = _WAYS[way.name]
        channels = way.channels or min(CHANNELS, max(1, size // 32768))
        if way.channels == 0:
            channels = max(1, min(int(settings.get("NCCL_MAX_NCHANNELS") or 32), channels))
        share = 0.4 if settings.get("NCCL_BUFFSIZE") else 1.0
        if self.best_chunk and way.name.endswith("/simple"):
            share *= 1.0 if way.chunk == self.best_chunk else 0.7
        return latency + 0.1 * channels + size / (min(each * channels, most) * share * 1e3)

    def own(self, collective: str, size: int, settings: Mapping[str, str]) -> Way:
        """What it takes by itself, which `worse` makes a bad choice."""
        allowed = self.allowed(collective, settings)
        if collective in self.worse and self.worse[collective] in {way.name for way in allowed}:
            return Way(self.worse[collective])
        return min(allowed, key=lambda way: self.time_us(way, size, settings))

    def allowed(self, collective: str, settings: Mapping[str, str]) -> list[Way]:
        """The ways that the settings leave."""
        ways = [way for way in first_ways(collective, 1) if not way.is_own]
        for name, part in (("NCCL_ALGO", 0), ("NCCL_PROTO", 1)):
            wanted = settings.get(name, "").lower()
            left = [way for way in ways if way.name.split("/")[part] == wanted]
            ways = left if wanted and left else ways
        return ways

    def taken(self, collective: str, size: int, environment: Mapping[str, str | None]) -> float:
        """The time of a call under a variant's environment, without noise."""
        settings = {name: value for name, value in {**self.hindered, **environment}.items() if value}
        own = self.own(collective, size, settings)
        path = environment.get("BUSBW_TUNER_TABLE")
        for place in _places(path, Path(path).read_bytes()) if path else ():
            for rule in place.rules:
                if rule.collective == collective and rule.first <= size <= rule.last:
                    name = own.name if rule.way.name == "default" else rule.way.name
                    if Way(name) in self.allowed(collective, settings):
                        return self.time_us(Way(name, rule.way.channels, rule.way.chunk), size, settings)
                    return self.time_us(own, size, settings)
        return self.time_us(own, size, settings)

    def measure(self, plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        """As `run_trial`."""
        del folder, limit_s
        self.trials += 1
        self.now += 1.0
        words = dict(zip(plan.words[1::2], plan.words[2::2], strict=False))
        size, last, step = int(words["-b"]), int(words["-e"]), int(words["-f"])
        times = {}
        environment = plan.variants[variant].environment
        slow = self.random.gauss(1, self.noise)
        while size <= last:
            true = self.taken(plan.words[0], size, environment)
            times[Point(plan.words[0], size, "out_of_place")] = true * slow * self.random.gauss(1, self.noise)
            size *= step
        return Trial(number, variant, Outcome.MEASURED, 1.0, times)

    def best_us(self, collective: str, size: int) -> float:
        """What the best fixed setting gives, of those that a table can say, with nothing in the way."""
        return min(
            self.time_us(Way(way.name, channels), size, {})
            for way in self.allowed(collective, {}) for channels in (0, 1, 2, 4, 8, 16, 24, 32)
        )  # fmt: skip
