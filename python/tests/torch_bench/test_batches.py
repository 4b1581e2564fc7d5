"""How torch-bench cuts its timed calls into samples; no torch is needed for that."""

from __future__ import annotations

import pytest

from busbw.torch_bench.batches import sample


class Ranks:
    """Two ranks: each call takes `us`, each batch `overhead_us` more; notes what was asked."""

    def __init__(self, us: float, overhead_us: float = 0.0) -> None:
        self.us, self.overhead_us = us, overhead_us
        self.asked: list[tuple[int, bool]] = []

    def timed(self, calls: int, warm: bool) -> list[float]:
        self.asked.append((calls, warm))
        return [self.us + self.overhead_us / calls, 3 * self.us + self.overhead_us / calls]


def test_a_long_case_shares_its_calls_among_six_samples() -> None:
    ranks = Ranks(2000.0)
    samples, time_us = sample(20, None, ranks.timed)
    assert ranks.asked == [(3, True), *[(3, False)] * 5]
    assert (len(samples), time_us) == (6, 4000.0)


def test_a_short_case_reports_the_batch_of_all_calls_alone() -> None:
    ranks = Ranks(10.0, overhead_us=30.0)
    samples, time_us = sample(20, None, ranks.timed)
    assert sorted(ranks.asked) == sorted([(20, True), (3, True), *[(3, False)] * 4])
    assert time_us == pytest.approx(20.0 + 1.5)
    assert samples[0] == [11.5, 31.5]
    assert [len(each) for each in samples] == [2] * 6


def test_fewer_calls_than_samples_are_one_call_each() -> None:
    ranks = Ranks(9000.0)
    assert len(sample(2, None, ranks.timed)[0]) == 6
    assert {calls for calls, _ in ranks.asked} == {1}


def test_what_is_asked_for_is_that_many_whole_batches() -> None:
    ranks = Ranks(10.0)
    samples, time_us = sample(20, 3, ranks.timed)
    assert ranks.asked == [(20, True)] * 3
    assert (len(samples), time_us) == (3, 20.0)
