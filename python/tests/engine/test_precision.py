"""--precision: which memory its calls touch, because a place that a cache still holds flatters a figure."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from harness import Engine

FIRST, SECOND = 1024, 2048  # floats of 4 and 8 KiB, the sizes that the sweep starts with
Calls = list[tuple[int, int]]


@pytest.fixture(scope="module")
def calls(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Calls]:
    """By count, the addresses (send, recv) of every call, with room for many times as many places as a batch needs."""
    library = engine.library("busbw_test_recording")
    if not Path(library).exists():
        pytest.skip("the test libraries are not built")
    file = tmp_path_factory.mktemp("calls") / "calls"
    words = ("-b", "4K", "-e", "8M", "-f", "2", "-w", "0", "-c", "0", "--precision", "50%", "--row-budget", "5")
    done = engine.run("all_reduce", *words, "--library", library, env={"BUSBW_TEST_CALLS": str(file)})
    assert done.code == 0, done.err
    found: dict[int, Calls] = {}
    for send, recv, count in map(str.split, file.read_text().splitlines()):
        found.setdefault(int(count), []).append((int(send, 16), int(recv, 16)))
    return found


def batches(calls: Calls) -> list[Calls]:
    """The calls after the two for an estimate, cut where they change between out of place and in place.

    Each batch comes after one call that is not timed.
    """
    found: list[Calls] = [[]]
    for call in calls[2:]:
        if found[-1] and (call[0] == call[1]) != (found[-1][-1][0] == found[-1][-1][1]):
            found.append([])
        found[-1].append(call)
    assert all(batch[0] == batch[1] for batch in found)
    return [batch[1:] for batch in found]


def test_placements_alternate_in_batches_of_as_many_iterations_as_asked_for(calls: dict[int, Calls]) -> None:
    found = batches(calls[FIRST])
    assert len(found) >= 12 and len(found) % 2 == 0
    assert [len(batch) for batch in found] == [20] * len(found)
    assert all(send != recv for batch in found[::2] for send, recv in batch)


def test_where_no_size_came_before_each_batch_out_of_place_touches_new_memory(calls: dict[int, Calls]) -> None:
    receive = [recv for batch in batches(calls[FIRST])[:24:2] for _, recv in batch]
    assert len(set(receive)) == len(receive)


def test_a_batch_finds_as_much_known_memory_as_half_its_size_would_have_left(calls: dict[int, Calls]) -> None:
    places = [[recv for _, recv in batch] for batch in batches(calls[SECOND])[:24:2]]
    for before, after in itertools.pairwise(places):
        assert after[:10] == before[10:]
        assert not set(after[10:]) & set(before)


def test_a_batch_in_place_touches_what_the_one_before_it_has_just_received(calls: dict[int, Calls]) -> None:
    found = batches(calls[SECOND])
    for out_of_place, in_place in zip(found[::2], found[1::2], strict=True):
        assert [recv for _, recv in in_place] == [recv for _, recv in out_of_place]


@pytest.mark.parametrize("checks", ["1", "3"])
def test_a_wrong_element_is_found_in_both_placements(engine: Engine, checks: str) -> None:
    words = ("-b", "64", "-e", "64", "-t", "2", "-c", checks, "--precision", "50%", "--row-budget", "1")
    env = {"BUSBW_TEST_INNER": engine.library("busbw_cpu"), "BUSBW_TEST_ELEMENT": "3"}
    done = engine.run("all_reduce", *words, "--library", engine.library("busbw_test_corrupting"), env=env)
    (row,) = done.rows
    assert (row[8], row[12]) == ("1", "1")
    assert done.code == 7


def test_right_results_pass_in_both_placements(engine: Engine) -> None:
    words = ("-b", "64", "-e", "4K", "-f", "8", "-t", "2", "-c", "2", "--precision", "50%", "--row-budget", "1")
    done = engine.run("all_reduce", *words, "--library", engine.library("busbw_cpu"))
    assert done.code == 0, done.err
    assert [(row[8], row[12]) for row in done.rows] == [("0", "0")] * 3


def test_a_size_that_was_rounded_down_to_nothing_is_not_made_precise(engine: Engine) -> None:
    words = ("-b", "8", "-e", "8", "-t", "4", "-c", "0", "--precision", "0.001%", "--row-budget", "30")
    done = engine.run("all_gather", *words, "--library", engine.library("busbw_cpu"))
    assert done.code == 0, done.err
    (row,) = done.rows
    assert row[0] == "0"
    assert done.out.count("over 6 batches") == 2
