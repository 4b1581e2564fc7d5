"""Several libraries in one command: who has the turn, what is printed, what goes wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("BUSBW_BUILD", ROOT / "build"))


@pytest.fixture
def libraries(tmp_path: Path) -> tuple[str, str]:
    """The CPU library, and a copy of it under another name."""
    pytest.importorskip("numpy")
    first = BUILD / "lib" / "libbusbw_cpu.so"
    if not first.exists() or not (BUILD / "bin" / "busbw-engine").exists():
        pytest.skip(f"the engine and its CPU library are not built in {BUILD}")
    copy = tmp_path / "libcopy_cpu.so"
    shutil.copy(first, copy)
    return str(first), str(copy)


def busbw(tmp_path: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    everything = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "BUSBW_ENGINE": str(BUILD / "bin" / "busbw-engine"),
        "BUSBW_RUNS": str(tmp_path / "runs"),
        **environment,
    }
    argv = [sys.executable, "-m", "busbw", *words]
    return subprocess.run(argv, env=everything, capture_output=True, text=True, timeout=60, check=False)


def order_of_rows(tmp_path: Path) -> list[tuple[str, int]]:
    """Which library measured which size, in the order of the clock."""
    found = []
    for record in (tmp_path / "runs").glob("libraries-*/*/record.jsonl"):
        for line in map(json.loads, record.read_text().splitlines()):
            if line["kind"] == "case" and line["placement"] == "out_of_place":
                found.append((line["timestamp"], line["bytes"], record.parent.name))
    return [(name, size) for _, size, name in sorted(found)]


@pytest.mark.parametrize("ranks", [("all_reduce", "-t", "2"), ("run", "--ranks", "2", "all_reduce")])
def test_libraries_are_measured_case_by_case_in_turn(
    tmp_path: Path, libraries: tuple[str, str], ranks: tuple[str, ...]
) -> None:
    # Every case takes milliseconds, so that the clock of the records tells them apart.
    sizes = ("-b", "1M", "-e", "4M", "-f", "2", "-n", "4")
    chosen = [word for library in libraries for word in ("--library", library)]
    done = busbw(tmp_path, *ranks, *sizes, *chosen, "-N", "2")
    assert done.returncode == 0, done.stderr
    rows = order_of_rows(tmp_path)
    assert [size >> 20 for _, size in rows] == [1, 1, 2, 2, 4, 4] * 2
    # Each row by both, next to each other; who comes first differs from round to round.
    names = "".join(name for name, _ in rows)
    assert all(set(names[at : at + 2]) == {"A", "B"} for at in range(0, len(names), 2)), names
    assert "libcopy_cpu.so" in done.stdout


def test_measuring_ends_once_every_size_has_a_verdict(tmp_path: Path, libraries: tuple[str, str]) -> None:
    empty = BUILD / "lib" / "libbusbw_test_empty.so"
    if not empty.exists():
        pytest.skip("the test libraries are not built")
    done = busbw(
        tmp_path, "all_reduce", "-b", "1M", "-e", "2M", "-f", "2", "-c", "0", "--library", libraries[0],
        f"--library={empty}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("faster") >= 4
    # Two libraries, two sizes: three rounds are the least for a verdict, and 20 the most.
    rounds, rest = divmod(len(order_of_rows(tmp_path)), 2 * 2)
    assert rest == 0
    assert 3 <= rounds < 20
    assert "holds however often one looks" in done.stdout


def test_the_budget_ends_what_is_never_sure(tmp_path: Path, libraries: tuple[str, str]) -> None:
    chosen = [word for library in libraries for word in ("--library", library)]
    # All types and two operations: a round is a cycle over everything.
    sizes = ("-b", "8K", "-e", "8K", "-d", "all", "-o", "all", "-n", "2", "-w", "0", "-c", "0", "--batches", "1")
    done = busbw(tmp_path, "all_reduce", "-t", "2", *sizes, *chosen, "--budget", "1")
    assert done.returncode == 0, done.stderr
    assert "until the time is up" in done.stderr
    records = sorted((tmp_path / "runs").glob("libraries-*/?/record.jsonl"))
    cases = [
        [line for line in map(json.loads, record.read_text().splitlines()) if line["kind"] == "case"]
        for record in records
    ]
    assert [len(each) for each in cases] == [len(cases[0])] * 2
    cycles = [case["cycle"] for case in cases[0] if case["outcome"] == "measured"]
    assert cycles == sorted(cycles)
    assert len({(case["type"], case["op"]) for case in cases[0]}) > 20
    ends = [json.loads(record.read_text().splitlines()[-1]) for record in records]
    assert [end["outcome"] for end in ends] == ["completed"] * 2


def test_a_budget_without_a_second_library_is_refused(tmp_path: Path, libraries: tuple[str, str]) -> None:
    done = busbw(tmp_path, "all_reduce", "--library", libraries[0], "--budget", "9")
    assert done.returncode == 2
    assert "--time-limit ends a run" in done.stderr


def test_a_library_that_cannot_be_measured_leaves_the_others(tmp_path: Path, libraries: tuple[str, str]) -> None:
    chosen = [word for library in (*libraries, "/no/such/lib.so") for word in ("--library", library)]
    done = busbw(tmp_path, "all_reduce", "-b", "8", "-e", "8", "-t", "2", *chosen)
    assert done.returncode == 2
    assert "/no/such/lib.so ended with exit code 2" in done.stderr
    assert "B speed" in done.stdout


@pytest.mark.parametrize(
    "words, environment, said",
    [
        ((), {"OMPI_COMM_WORLD_RANK": "0"}, "OMPI_COMM_WORLD_RANK is set"),
        (("--record", "r.jsonl"), {}, "every library has its own record"),
        (("--launcher", "slurm", "--ranks", "2"), {}, "--launcher slurm would run them elsewhere"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    tmp_path: Path, libraries: tuple[str, str], words: tuple[str, ...], environment: dict[str, str], said: str
) -> None:
    chosen = [word for library in libraries for word in ("--library", library)]
    done = busbw(tmp_path, "all_reduce", *words, *chosen, **environment)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "runs").exists()
