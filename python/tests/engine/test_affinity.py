"""Threads of the real engine bind themselves to the processors near their GPUs, on a machine that is pretended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from harness import Engine, read_record

SOURCE = Path(__file__).resolve().parents[2]
SIZES = ("-b", "8", "-e", "8")
# fake_nvml.cc: GPUs 0 and 1 are on the first socket, 2 and 3 on the second.
FIRST, SECOND = "0-511", "512-1023"


class Machine:
    """1024 processors on two sockets, four GPUs; what its threads bound themselves to."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.record = folder / "record.jsonl"
        self.log = folder / "cpus.log"
        fakes = engine.folder / "lib" / "fake_gpu"
        self.env = {
            "LD_LIBRARY_PATH": f"{fakes}:{os.environ.get('LD_LIBRARY_PATH', '')}",
            "LD_PRELOAD": str(fakes / "libbusbw_test_fake_cpus.so"),
            "BUSBW_TEST_CPUS_LOG": str(self.log),
            "BUSBW_TEST_GPUS": "4",
            "BUSBW_TEST_SOCKETS": "1",
        }

    def words(self, *more: str) -> tuple[str, ...]:
        library = self.engine.library("busbw_test_empty_gpu")
        return (*SIZES, "--library", library, "--record", str(self.record), *more)

    def run(self, *more: str) -> None:
        done = self.engine.run("all_reduce", *self.words(*more), env=self.env)
        assert done.code == 0, done.err

    def run_processes(self, count: int) -> None:
        program = str(self.engine.folder / "bin" / "busbw-engine")
        env = {**os.environ, "PYTHONPATH": str(SOURCE), "BUSBW_ENGINE": program, **self.env}
        argv = [sys.executable, "-m", "busbw", "run", "--ranks", str(count), "all_reduce", *self.words()]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr

    @property
    def ranks(self) -> list[dict[str, Any]]:
        ranks: list[dict[str, Any]] = read_record(self.record)[0]["ranks"]
        return ranks

    @property
    def bound(self) -> dict[tuple[int, int], str]:
        """By process and thread, what the thread runs on."""
        found = {}
        for line in self.log.read_text().splitlines() if self.log.exists() else ():
            process, thread, first, last, count = map(int, line.split())
            assert count == last - first + 1
            found[process, thread] = f"{first}-{last}"
        return found


@pytest.fixture
def machine(engine: Engine, tmp_path: Path) -> Machine:
    fakes = engine.folder / "lib" / "fake_gpu"
    if not (fakes / "libbusbw_test_fake_cpus.so").exists():
        pytest.skip("the pretended machine is not built")
    # On the pretended machine: one without GPUs is told so first, whatever was built.
    tried = Machine(engine, tmp_path / "tried")
    tried.record.parent.mkdir()
    if "without a CUDA compiler" in engine.run("all_reduce", *tried.words(), env=tried.env).err:
        pytest.skip("this build has no GPU side")
    return Machine(engine, tmp_path)


def test_each_thread_runs_near_its_gpu(machine: Machine) -> None:
    machine.run("-t", "4")
    assert [rank["cpus"] for rank in machine.ranks] == [FIRST, FIRST, SECOND, SECOND]
    assert sorted(machine.bound.values()) == [FIRST, FIRST, SECOND, SECOND]
    # The main thread serves rank 0.
    pid = machine.ranks[0]["pid"]
    assert machine.bound[pid, pid] == FIRST


def test_each_process_runs_near_its_gpu(machine: Machine) -> None:
    machine.run_processes(4)
    pids = [rank["pid"] for rank in machine.ranks]
    assert len(set(pids)) == 4
    assert [machine.bound[pid, pid] for pid in pids] == [FIRST, FIRST, SECOND, SECOND]
    assert [rank["cpus"] for rank in machine.ranks] == [FIRST, FIRST, SECOND, SECOND]


def test_a_thread_of_several_gpus_runs_near_all_of_them(machine: Machine) -> None:
    machine.run("-t", "2", "-g", "2")
    assert [rank["cpus"] for rank in machine.ranks] == [FIRST, FIRST, SECOND, SECOND]
    assert sorted(machine.bound.values()) == [FIRST, SECOND]


@pytest.mark.parametrize("words", [("-g", "4"), ("-t", "4", "--affinity", "none")])
def test_a_thread_of_both_sockets_and_one_that_is_told_so_stay_where_they_are(
    words: tuple[str, ...], machine: Machine
) -> None:
    machine.run(*words)
    assert machine.bound == {}
    assert all(not rank.get("cpus") for rank in machine.ranks)
