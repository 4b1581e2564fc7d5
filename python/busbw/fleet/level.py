"""Judges what peers cannot show: all slower than expected or than in earlier results; a node slower than it was.

A level is the reference of all peers over all rounds, in GB/s: the same kind, channel and size of group. It is compared
with an expected bandwidth and with the level of earlier results. Earlier results also have most groups by name: a part
inside a node that lost more than the level did has become slower, even where it is still among its peers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from busbw.base.errors import UsageError
from busbw.fleet.options import SURE, Options
from busbw.fleet.results import Results
from busbw.fleet.samples import OF_MEDIAN
from busbw.fleet.trial import INSIDE, Key, Outcome, reference
from busbw.fleet.verdict import EVERYBODY, Verdict

CHANNELS = ("nvlink", "pcie", "nic", "rail")


class Level(NamedTuple):
    """What is usual among peers: GB/s and one standard error, as a share of it."""

    gbps: float
    error: float
    groups: int


Class = tuple[str, str, int]
"""Kind, channel without its number, and log2 of the size of the group, rounded up."""


@dataclass(frozen=True)
class Before:
    """What a fleet shall reach: bandwidths by channel in GB/s, and earlier results with the name of their file."""

    expected: Mapping[str, float] = field(default_factory=dict)
    earlier: Sequence[tuple[str, Results]] = ()


def read_expected(text: str) -> dict[str, float]:
    """`nvlink=450,rail=48`: GB/s for each channel."""
    found = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        try:
            level = float(value)
        except ValueError:
            level = math.nan
        if name not in CHANNELS or not equals or not 0 < level < 1e6:
            raise UsageError(f"--expected takes GB/s for {', '.join(CHANNELS)}, such as nvlink=450,rail=48; "
                             f"'{part[:40]}' is none of them")  # fmt: skip
        found[name] = level
    return found


def levels(results: Results) -> dict[Class, Level]:
    """The level of each class of groups."""
    found = {}
    for of, outcomes in _classes(results).items():
        medians = [statistics.median(outcome.samples) for outcome in outcomes]
        level = reference(medians, [])
        if level > 0:
            spread = [1.4826 * statistics.median(abs(s - m) for s in o.samples) / m
                      for o, m in zip(outcomes, medians, strict=True) if len(o.samples) >= 3]  # fmt: skip
            each = statistics.median(spread) if spread else 0.01
            samples = statistics.median(len(o.samples) for o in outcomes)
            found[of] = Level(level, max(0.001, OF_MEDIAN * each / math.sqrt(samples)), len(outcomes))
    return found


def _classes(results: Results) -> dict[Class, list[Outcome]]:
    found: dict[Class, list[Outcome]] = {}
    for outcome in (outcome for outcomes in results.rounds for outcome in outcomes if outcome.samples):
        trial = outcome.trial
        of = (trial.kind, trial.channel.rstrip("0123456789"), (len(trial.nodes) - 1).bit_length())
        found.setdefault(of, []).append(outcome)
    return found


def judge_levels(results: Results, before: Before, options: Options, named: Sequence[Verdict]) -> list[Verdict]:
    """Verdicts that peers cannot give; none of a part that `named` has already."""
    now = levels(results)
    found = [*_expected(now, before.expected, options)]
    for file, earlier in before.earlier:
        then = levels(earlier)
        found += _everybody(now, then, file, options)
        found += _parts(results, earlier, (now, then), file, options)
    known = {verdict.name for verdict in named}
    unique: dict[str, Verdict] = {}
    for verdict in sorted(found, key=lambda each: -each.loss):
        if verdict.name not in known:
            unique.setdefault(verdict.name, verdict)
    return list(unique.values())


def _expected(now: Mapping[Class, Level], expected: Mapping[str, float], options: Options) -> Iterator[Verdict]:
    for channel, gbps in expected.items():
        mine = [level for (_, name, _), level in now.items() if name == channel]
        if mine:
            # The best class: a ring over pods may lose what a ring in a pod does not, and each is below its own.
            best = max(mine, key=lambda level: level.gbps)
            loss = 1 - best.gbps / gbps
            if loss > max(options.smallest_loss, SURE * best.error):
                reason = f"{best.gbps:.4g} GB/s, expected {gbps:g}"
                yield Verdict("level", EVERYBODY, channel, min(1.0, loss), best.error, reason)


def _everybody(
    now: Mapping[Class, Level], then: Mapping[Class, Level], file: str, options: Options
) -> Iterator[Verdict]:
    for of in now.keys() & then.keys():
        loss = 1 - now[of].gbps / then[of].gbps
        error = math.hypot(now[of].error, then[of].error)
        if loss > max(options.smallest_loss, SURE * error):
            reason = f"{now[of].gbps:.4g} GB/s, {then[of].gbps:.4g} in {file}"
            yield Verdict("level", EVERYBODY, of[1], loss, error, reason)


def _parts(
    results: Results,
    earlier: Results,
    of_all: tuple[Mapping[Class, Level], Mapping[Class, Level]],
    file: str,
    options: Options,
) -> Iterator[Verdict]:
    """Parts inside nodes that lost more than all did."""
    mine, theirs = _by_part(results), _by_part(earlier)
    for key in mine.keys() & theirs.keys():
        of = (INSIDE, key[2].rstrip("0123456789"), 0)
        if of not in of_all[0] or of not in of_all[1]:
            continue
        share = of_all[0][of].gbps / of_all[1][of].gbps
        now, then = statistics.median(mine[key]), statistics.median(theirs[key])
        loss = 1 - now / (then * share)
        error = math.hypot(of_all[0][of].error, of_all[1][of].error)
        if loss > max(options.smallest_loss, SURE * error):
            reason = f"{now:.4g} GB/s, {then:.4g} in {file}"
            yield Verdict(of[1], key[1][0], key[2], loss, error, reason)


def _by_part(results: Results) -> dict[Key, tuple[float, ...]]:
    found: dict[Key, tuple[float, ...]] = {}
    for outcome in (outcome for outcomes in results.rounds for outcome in outcomes):
        if outcome.trial.kind == INSIDE and outcome.samples:
            found[outcome.trial.key] = found.get(outcome.trial.key, ()) + outcome.samples
    return found
