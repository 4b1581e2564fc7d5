"""Parts of a bisection by themselves: what is shared, what is near, what is no order, what is sure."""

from __future__ import annotations

import math
from pathlib import Path

from test_bisect import MIB, Releases, stepped

from busbw.analysis.statistics import Interval
from busbw.analysis.verdict import Judgement, Verdict
from busbw.experiment.bisect.search import Bisection, Change, Probe, Track, _shifted, not_monotone
from busbw.experiment.bisect.text import sure_of
from busbw.experiment.factors import Level
from busbw.experiment.plan import Limits, Plan

KEY = ("all_reduce", MIB)


def judged(low: float, high: float, verdict: Verdict = Verdict.SLOWER) -> Judgement:
    return Judgement(verdict, "", math.sqrt(low * high), Interval(low, high))


def probe(value: int, low: float, high: float, before: int = 0) -> Probe:
    return Probe(before, value, {KEY: judged(low, high)}, 12)


def test_a_later_value_is_faster_where_its_interval_lies_above_the_margin() -> None:
    assert not_monotone([probe(4, 0.90, 0.95), probe(8, 0.975, 1.0)], KEY, 0.02) == [(4, 8)]
    assert not_monotone([probe(4, 0.90, 0.95), probe(8, 0.96, 1.0)], KEY, 0.02) == []


def test_what_was_compared_with_another_than_the_first_tells_nothing_of_the_order() -> None:
    assert not_monotone([probe(4, 0.80, 0.85), probe(8, 0.98, 1.0, before=4)], KEY, 0.02) == []


def test_of_a_small_step_half_way_is_near_within_half_of_it() -> None:
    # One per cent from the first to half way: what lies a per cent beyond is not near, though the margin is two.
    target = math.log(0.99)
    assert _shifted(judged(0.985, 0.9985), target, 0.02) is None
    assert _shifted(judged(0.987, 0.993), target, 0.02) is Verdict.NO_DIFFERENCE


def tracks(*inside: tuple[int, int]) -> Bisection:
    done = Bisection([str(n) for n in range(20)], lambda number: Level(str(number)), Plan((), ("all_reduce",)), Path())
    whole = judged(0.7, 0.72)
    done.tracks = [Track(("all_reduce", n), good, bad, -0.2, whole) for n, (good, bad) in enumerate(inside)]
    return done


def test_the_widest_interval_is_halved_first_and_of_equal_ones_that_of_most_sizes() -> None:
    assert tracks((0, 4), (8, 18))._next() == 13
    assert tracks((0, 4), (10, 14), (10, 14))._next() == 12
    assert tracks((3, 4))._next() is None


def test_a_change_is_sure_where_its_own_step_is_surely_slower_alone() -> None:
    whole = judged(0.7, 0.72)
    for verdict in Verdict:
        step = judged(0.7, 0.75, verdict)
        assert sure_of(Change(KEY, 4, 5, step, whole, sure=True)) == (verdict is Verdict.SLOWER)
    assert not sure_of(Change(KEY, 4, 6, judged(0.7, 0.75), whole, sure=True, between=(5,)))
    assert not sure_of(Change(KEY, 4, 5, None, whole, sure=True))
    # Where the way was not sure, a step that surely explains a third decides by itself (decision 0100).
    assert sure_of(Change(KEY, 4, 5, judged(0.7, 0.75), whole, sure=False))
    assert not sure_of(Change(KEY, 4, 5, judged(0.85, 0.95), whole, sure=False))


def test_the_chance_of_a_false_claim_is_shared_among_as_many_steps_as_there_may_be(tmp_path: Path) -> None:
    def width(count: int) -> float:
        machine = Releases({MIB: stepped(count, (1, 1.3))}, seed=5)
        limits = Limits(seconds=1e6, rounds=10, min_rounds=10)
        plan = Plan((), ("all_reduce",), limits=limits)
        done = Bisection([str(n) for n in range(count)], lambda n: Level(str(n)), plan, tmp_path / str(count),
                         machine.measure, lambda: machine.now)  # fmt: skip
        done.run()
        interval = done.probes[0].judgements[KEY].interval
        assert interval is not None
        return math.log(interval.high / interval.low)

    assert width(65) > 1.1 * width(3)
