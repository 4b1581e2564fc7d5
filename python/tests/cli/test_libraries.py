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
    assert "".join(name for name, _ in rows) in {"AB" * 6, "BA" * 6}
    assert "libcopy_cpu.so" in done.stdout


def test_a_verdict_is_printed_per_size_from_five_cycles_where_nothing_else_is_said(
    tmp_path: Path, libraries: tuple[str, str]
) -> None:
    empty = BUILD / "lib" / "libbusbw_test_empty.so"
    if not empty.exists():
        pytest.skip("the test libraries are not built")
    done = busbw(
        tmp_path, "all_reduce", "-b", "1M", "-e", "2M", "-f", "2", "-c", "0", "--library", libraries[0],
        f"--library={empty}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("faster") >= 4
    assert len(order_of_rows(tmp_path)) == 2 * 2 * 5


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
