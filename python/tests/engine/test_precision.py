"""--precision: which memory its calls touch, because a place that a cache still holds flatters a figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import Engine

COUNT = 1024  # floats of 4 KiB


@pytest.fixture(scope="module")
def calls(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, int]]:
    """Addresses (send, recv) of every call of 4 KiB, with room for many times as many places as one batch needs."""
    library = engine.library("busbw_test_recording")
    if not Path(library).exists():
        pytest.skip("the test libraries are not built")
    file = tmp_path_factory.mktemp("calls") / "calls"
    words = ("-b", "4K", "-e", "8M", "-f", "2048", "-w", "0", "-c", "0", "--precision", "50%", "--max-seconds", "5")
    done = engine.run("all_reduce", *words, "--library", library, env={"BUSBW_TEST_CALLS": str(file)})
    assert done.code == 0, done.err
    lines = [line.split() for line in file.read_text().splitlines()]
    return [(int(send, 16), int(recv, 16)) for send, recv, count in lines if int(count) == COUNT]


def batches(calls: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """The calls after the two for an estimate, cut where they change between out of place and in place."""
    found: list[list[tuple[int, int]]] = [[]]
    for call in calls[2:]:
        if found[-1] and (call[0] == call[1]) != (found[-1][-1][0] == found[-1][-1][1]):
            found.append([])
        found[-1].append(call)
    return found


def test_placements_alternate_in_batches_of_as_many_iterations_as_asked_for(calls: list[tuple[int, int]]) -> None:
    found = batches(calls)
    assert len(found) >= 12 and len(found) % 2 == 0
    assert [len(batch) for batch in found] == [20] * len(found)
    assert all(send != recv for batch in found[::2] for send, recv in batch)


def test_a_batch_out_of_place_touches_nothing_that_an_earlier_one_has_touched(calls: list[tuple[int, int]]) -> None:
    receive = [recv for batch in batches(calls)[:24:2] for _, recv in batch]
    assert len(set(receive)) == len(receive)


def test_a_batch_in_place_touches_what_the_one_before_it_has_just_received(calls: list[tuple[int, int]]) -> None:
    found = batches(calls)
    for out_of_place, in_place in zip(found[::2], found[1::2], strict=True):
        assert [recv for _, recv in in_place] == [recv for _, recv in out_of_place]
