"""Efficiency and its like from closed cases, and measurements that are none."""

from __future__ import annotations

import pytest

from busbw.analysis.overlap import efficiency, lost_processor_time, overlap_of
from busbw.base.errors import UserError

GOOD = {"product": "1x1x1", "calls": 10, "products": 5, "products_alone_us": [100.0, 110.0, 90.0],
        "calls_alone_us": [80.0, 80.0, 80.0], "products_beside_us": [120.0, 120.0, 120.0],
        "calls_beside_us": [150.0, 90.0, 140.0]}  # fmt: skip


def test_hidden_serial_and_hindering() -> None:
    assert efficiency(100, 40, 100) == 1
    assert efficiency(100, 100, 200) == 0.5
    assert efficiency(100, 40, 160) == 0.625
    assert lost_processor_time(100, 130, 132, 10) == pytest.approx(396)
    assert lost_processor_time(100, 90, 132, 10) == 0


def test_both_end_with_the_later_one() -> None:
    found = overlap_of(GOOD)
    assert found.together_us == 140  # of 150, 120 and 140
    assert found.efficiency == pytest.approx(100 / 140)
    assert found.exposed_us == pytest.approx(4)
    assert (found.product_slowdown, found.call_slowdown) == pytest.approx((1.2, 1.75))


@pytest.mark.parametrize(("together", "impossible"), [(110.0, False), (99.0, False), (97.0, True), (60.0, True)])
def test_less_together_than_one_alone_cannot_be(together: float, impossible: bool) -> None:
    found = overlap_of({**GOOD, "products_beside_us": [together] * 3, "calls_beside_us": [together - 5] * 3})
    assert found.is_impossible is impossible


@pytest.mark.parametrize("changed", [{"calls": 0}, {"calls_alone_us": []}, {"calls_alone_us": [1.0]},
                                     {"calls_alone_us": [0.0, 1, 1]}, {"products": "x"}, {"calls_beside_us": None},
                                     {"calls_alone_us": [float("nan"), 1, 1]}])  # fmt: skip
def test_what_is_no_measurement_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(UserError, match="no measurement of calls beside products"):
        overlap_of({**GOOD, **changed})
