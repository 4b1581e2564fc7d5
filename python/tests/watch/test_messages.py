"""Where a rank usually calls its next message, counted in its own calls."""

from __future__ import annotations

import pytest

from busbw.watch.messages import Called, has_passed
from busbw.watch.recording import Shape

SHAPE = Shape("send", 64, "float32", "sum", 1)


def at(*numbers: int) -> tuple[Called, ...]:
    return tuple((number, SHAPE) for number in numbers)


STEPS = at(*(20 * step + place for step in range(6) for place in (1, 3, 5, 7)))
"""Four messages in each step of twenty calls."""


@pytest.mark.parametrize(
    ("called", "newest", "expected"),
    [
        (STEPS, 107, False),
        (STEPS, 120, False),
        (STEPS, 121, True),
        (STEPS[:-1], 106, False),
        (STEPS[:-1], 107, True),
        (at(1, 6, 11, 16, 21), 25, False),
        (at(1, 6, 11, 16, 21), 26, True),
        (at(1, 6), 90, None),
        (at(1, 4, 16, 19, 40, 47), 90, None),
        (STEPS, 0, None),
        ((), 90, None),
    ],
)
def test_who_is_late_for_a_message_is_told_from_who_left_it_out(
    called: tuple[Called, ...], newest: int, expected: bool | None
) -> None:
    assert has_passed(called, newest) is expected
