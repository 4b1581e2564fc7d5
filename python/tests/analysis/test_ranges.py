"""Ranges of sizes in words: every size in exactly one range, and the sentences people expect."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from busbw.analysis.ranges import Point, describe, find_ranges
from busbw.analysis.statistics import Interval
from busbw.analysis.units import format_bytes
from busbw.analysis.verdict import Verdict
from busbw.base.quantities import parse_bytes

K, M = 1024, 1 << 20


def _points(*pairs: tuple[int, float, Verdict]) -> list[Point]:
    return [Point(size, ratio, verdict) for size, ratio, verdict in pairs]


def _sweep(ratios: list[float], start: int = 8) -> list[Point]:
    verdicts = [Verdict.FASTER if r > 1.1 else Verdict.SLOWER if r < 0.9 else Verdict.UNDECIDED for r in ratios]
    return _points(
        *((start << i, ratio, verdict) for i, (ratio, verdict) in enumerate(zip(ratios, verdicts, strict=True)))
    )


def test_a_constant_gain_from_a_size_up_is_one_number() -> None:
    said = describe(find_ranges(_sweep([1.0, 1.01, 0.99, 1.0, 1.0, 1.01, 3.9, 3.85, 3.95])))
    assert said[0].startswith("up to 256 B no difference above ") and said[0].endswith(" % over 6 sizes together")
    assert said[1:] == ["from 512 B up B is 3.9 times as fast"]


def test_a_growing_gain_names_its_ends_and_the_largest_sizes() -> None:
    said = describe(find_ranges(_sweep([1.5, 2.0, 2.5, 3.0, 3.5, 3.8, 3.9, 4.0])))
    assert said == [
        "at all 8 sizes (8 B to 1 KiB) B is 1.50 to 4.0 times as fast",
        "at the largest sizes (256 B to 1 KiB) B is 3.9 times as fast",
    ]


def test_gains_and_losses_are_told_in_the_words_of_the_verdict() -> None:
    assert describe(find_ranges(_sweep([1.12, 1.12, 1.12])))[0].endswith("B is 1.12 times as fast")
    assert describe(find_ranges(_sweep([0.8, 0.8, 0.8])), "C")[0].endswith("C is 0.80 times as fast")
    sure = [Point(8 << i, 1.2, Verdict.FASTER, Interval(1.18, 1.22)) for i in range(3)]
    assert describe(find_ranges(sure))[0].endswith("B is 1.18 to 1.22 times as fast")
    equal = [Point(8 << i, 1.0, Verdict.NO_DIFFERENCE, Interval(0.995, 1.01)) for i in range(3)]
    assert describe(find_ranges(equal))[0].endswith("no difference above 1 %")


def test_a_lone_deviation_is_an_exception_of_its_range() -> None:
    said = describe(find_ranges(_sweep([2.0, 2.0, 2.0, 0.7, 2.0, 2.0])))
    assert said == ["at all 6 sizes (8 B to 256 B) B is 2.0 times as fast, except at 64 B (slower)"]


def test_few_undecided_sizes_stay_undecided() -> None:
    assert "undecided" in describe(find_ranges(_sweep([1.03, 0.96])))[0]


def test_sizes_with_wide_intervals_are_not_called_equal_together() -> None:
    wide = Interval(0.8, 1.3)
    points = [Point(8 << i, 1.2 if i % 2 else 0.85, Verdict.UNDECIDED, wide) for i in range(8)]
    assert find_ranges(points)[0].verdict is Verdict.UNDECIDED


@given(st.lists(st.tuples(st.floats(0.1, 10), st.sampled_from(list(Verdict))), min_size=1, max_size=30))
def test_every_size_lies_in_exactly_one_range_and_every_range_has_a_sentence(
    drawn: list[tuple[float, Verdict]],
) -> None:
    points = _points(*((8 << i, ratio, verdict) for i, (ratio, verdict) in enumerate(drawn)))
    ranges = find_ranges(points)
    assert [point for each in ranges for point in each.points] == points
    assert len(describe(ranges)) >= len(ranges)


@given(st.integers(0, 1 << 40))
def test_sizes_read_back_to_what_was_written(size: int) -> None:
    assert abs(parse_bytes(format_bytes(size)) - size) <= size * 0.001 + 1 or size > 1 << 10


def test_sizes_are_written_as_nccl_tests_reads_them() -> None:
    assert (format_bytes(8), format_bytes(64 * K), format_bytes(3 * M // 2)) == ("8 B", "64 KiB", "1.5 MiB")
    assert (parse_bytes("1G"), parse_bytes("64KiB"), parse_bytes("1.5M")) == (1 << 30, 64 * K, 3 * M // 2)
