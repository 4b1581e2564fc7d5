"""Where the reason for an impossible figure begins and ends: how flat, how much slower, and which one comes first."""

from __future__ import annotations

from dataclasses import replace

from test_impossible import H100, MIB, record, row

from busbw.expect.impossible import find
from busbw.records import Case


def reasons(*cases: Case) -> list[str]:
    return [each.reason.partition(":")[0] for each in find(record(*cases), H100)]


def at(index: int, mebibytes: int, rate: float) -> Case:
    """A row of an all-gather of that algorithm bandwidth."""
    return row(index, mebibytes * MIB, mebibytes * MIB / rate / 1e3, "all_gather")


def test_a_time_is_flat_from_an_eighth_of_the_size_on() -> None:
    assert "not synchronised" not in reasons(row(0, 512 * MIB, 300.0), row(1, 1024 * MIB, 300.0))
    assert reasons(row(0, 128 * MIB, 30.0), row(1, 1024 * MIB, 30.0)) == ["not synchronised"] * 2


def test_a_time_that_is_a_third_longer_is_flat_no_more() -> None:
    assert reasons(row(0, 128 * MIB, 30.0), row(1, 1024 * MIB, 38.0))[1] == "not synchronised"
    assert "not synchronised" not in reasons(row(0, 128 * MIB, 30.0), row(1, 1024 * MIB, 50.0))


def test_what_is_cached_is_half_as_fast_again_as_larger_messages() -> None:
    assert reasons(at(0, 1, 3000.0), at(1, 256, 2500.0))[0] != "cached"
    assert reasons(at(0, 1, 3000.0), at(1, 256, 1900.0))[0] == "cached"


def test_rows_that_contradict_themselves_are_told_before_anything_else() -> None:
    flat = [row(i, MIB << (3 * i), 31.0) for i in range(3)]
    wrong = [replace(each, busbw_GBps=2 * (each.busbw_GBps or 0.0)) for each in flat]
    assert set(reasons(*wrong)) == {"wrong bus factor"}


def test_a_flat_time_is_told_before_a_cache() -> None:
    rows = (row(0, 8 * MIB, 10.0), row(1, 64 * MIB, 11.0), row(2, 1024 * MIB, 4200.0))
    assert reasons(*rows)[-1] == "not synchronised"
