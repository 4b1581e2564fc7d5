"""Machines that share a name: told apart by their hardware, where it goes on in turns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.records import Case, End, Record, Run, Tool
from busbw.runs import store
from busbw.runs.history import machines_apart, series
from busbw.runs.index import Index


def keep(folder: Path, runs: Sequence[tuple[str, float]]) -> None:
    for number, (hardware, us) in enumerate(runs):
        name = f"run{number:04d}"
        case = Case(name, 0, "all_reduce", 1 << 20, "out_of_place", "measured", us, ranks=8)
        started = f"2026-05-{1 + number // 24:02d}T{number % 24:02d}:00:00Z"
        system = {"hardware": hardware} if hardware else {}
        run = Run(name, started, Tool("busbw", "1"), None, machine="node", system=system)
        store.add(Record(run, (case,), End(name, "completed", 1)), folder)


def names(folder: Path, **same: str) -> list[str]:
    with Index(folder) as index:
        return [each.machine for each in series(index, same=same)]


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        ("ab" * 10, 2),
        ("aabbab" * 4, 2),
        ("abcd" * 6, 4),
        # One that was replaced, one that came back from repair, other nodes each time, one that was borrowed.
        ("a" * 10 + "b" * 10, 1),
        ("a" * 8 + "b" * 8 + "a" * 8, 1),
        ("abcdefgh" * 6, 1),
        ("aaaabaaaabaaaabaaaa", 1),
        (" " * 20, 1),
    ],
)
def test_hardware_that_goes_on_in_turns_is_of_several_machines(turns: str, count: int, tmp_path: Path) -> None:
    keep(tmp_path, [(each.strip(), 100.0) for each in turns])
    found = names(tmp_path)
    assert len(found) == count
    assert (found == ["node"]) == (count == 1)


def test_somebodys_word_makes_one_machine_of_them(tmp_path: Path) -> None:
    keep(tmp_path, [(each, 100.0) for each in "ab" * 10])
    assert names(tmp_path, gpu7="node") == ["node"]


def test_a_machine_that_gets_slower_is_found_beside_one_of_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = random.Random(4)
    runs = []
    for number in range(80):
        hardware = chance.choice("ab")
        slower = 1.1 if hardware == "a" and number >= 40 else 1.0
        runs.append((hardware, (100 if hardware == "a" else 150) * slower * chance.gauss(1, 0.01)))
    keep(tmp_path, runs)
    assert main(["history", "--runs", str(tmp_path)]) == 1
    said = capsys.readouterr()
    (line,) = [each for each in said.out.splitlines() if "slower" in each]
    assert "node (hardware a)" in said.out.split(line)[0].splitlines()[-1]
    assert "machines that share a name are told apart" in said.err
    with Index(tmp_path) as index:
        assert machines_apart(series(index)) == ["node (hardware a)", "node (hardware b)"]
