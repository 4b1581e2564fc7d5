"""torch-bench with gloo on two real ranks: records like the engine's, checked results, the page's benchmark."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.importers import load
from busbw.records import read_record
from busbw.torch_bench.output import environment, joined, system
from busbw.torch_bench.place import find_place

SOURCE = Path(__file__).resolve().parents[2]
ENGINE = Path(os.environ.get("BUSBW_BUILD", SOURCE.parent / "build")) / "bin" / "busbw-engine"
PYTHON = os.environ.get("BUSBW_TORCH_PYTHON") or (sys.executable if importlib.util.find_spec("torch") else "")
needs_torch = pytest.mark.skipif(not PYTHON, reason="no torch here; BUSBW_TORCH_PYTHON names a Python that has it")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def busbw(*words: str, environ: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
    everything = {**os.environ, **AS_ROOT, "PYTHONPATH": str(SOURCE), "BUSBW_TORCH_PYTHON": PYTHON, **environ}
    argv = [sys.executable, "-m", "busbw", *words]
    return subprocess.run(argv, env=everything, capture_output=True, text=True, timeout=90, check=False)


@needs_torch
def test_six_collectives_are_measured_and_checked_into_the_engines_record(runs_of_this_test: Path) -> None:
    # 1000 bytes are no whole number of parts: sizes are rounded as nccl-tests rounds them.
    words = ("-b", "1000", "-e", "2000", "-n", "3", "--batches", "2", "-o", "max")
    done = busbw("torch-bench", "--ranks", "2", *COLLECTIVES, *words)
    assert done.returncode == 0, done.stderr
    [path] = runs_of_this_test.glob("*/record.jsonl")
    record = read_record(path)
    assert record.end and (record.end.outcome, record.end.out_of_bounds) == ("completed", 0)
    assert [case.collective for case in record.cases] == [name for name in COLLECTIVES for _ in range(2)]
    assert {(case.outcome, case.wrong) for case in record.cases} == {("measured", 0)}
    assert {case.op for case in record.cases} == {"max", None}
    assert dict(record.run.system) == system()
    by_name = {case.collective: case for case in record.cases if case.requested_bytes == 1000}
    assert {name: (case.bytes, case.count) for name, case in by_name.items()} == {
        "all_reduce": (1000, 250),
        "broadcast": (1000, 250),
        "sendrecv": (1000, 250),
        "all_gather": (992, 124),
        "reduce_scatter": (992, 124),
        "alltoall": (992, 124),
    }
    case = by_name["all_reduce"]
    assert [len(batches) for batches in case.batches_us] == [2, 2]
    assert case.time_us == pytest.approx(sum(map(sum, case.batches_us)) / 4)
    assert case.busbw_GBps == pytest.approx(case.bytes / (case.time_us or 0) / 1e3)  # the factor of two ranks is 1
    assert [rank.rank for rank in record.run.ranks] == [0, 1]
    assert "#wrong" in done.stdout


@needs_torch
def test_every_reduction_gives_what_it_should_or_says_why_not(tmp_path: Path) -> None:
    # Two ranks that import torch once: that takes far longer than what they measure.
    program = """
import os, sys
from pathlib import Path
from busbw.torch_bench.worker import main
words = ["all_reduce", "reduce_scatter", "-b", "96", "-n", "1", "-w", "1", "-d", "double"]
for op in sys.argv[2:]:
    folder = Path(sys.argv[1]) / op
    os.environ["BUSBW_RUN_FOLDER"] = str(folder)
    main([*words, "-o", op, "--record", str(folder / "record.jsonl")])
"""
    expected = {op: ("skipped", None) if op == "avg" else ("measured", 0) for op in ("sum", "prod", "min", "avg")}
    for op in expected:
        (tmp_path / op).mkdir()
    argv = [PYTHON, "-W", "ignore", "-c", program, str(tmp_path), *expected]
    environ = {**os.environ, "PYTHONPATH": str(SOURCE), "BUSBW_WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen(argv, env={**environ, "BUSBW_RANK": rank}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for rank in ("0", "1")
    ]
    said = [rank.communicate(timeout=90)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    for op, outcome in expected.items():
        cases = read_record(tmp_path / op / "record.jsonl").cases
        assert [(case.op, case.outcome, case.wrong) for case in cases] == [(op, *outcome)] * 2


@needs_torch
def test_a_wrong_element_is_counted(tmp_path: Path) -> None:
    program = """
import sys, torch, torch.distributed as dist
from busbw.torch_bench import collectives
from busbw.torch_bench.collectives import Case, Spec
collectives.CHUNK = 3  # as if the buffers were large
dist.init_process_group("gloo", init_method=sys.argv[1], rank=0, world_size=1)
for name in ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast"):
    case = Case(Spec(name, "float", "sum", 0, 0, 1, 8, torch.device("cpu")))
    case.call().wait()
    right = case.wrong()
    case._receive[3] += 1
    print(right, case.wrong())
"""
    argv = [PYTHON, "-W", "ignore", "-c", program, (tmp_path / "store").as_uri()]
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["0 1"] * 5, done.stderr


@needs_torch
def test_the_pages_benchmark_reads_back_through_its_importer(runs_of_this_test: Path, tmp_path: Path) -> None:
    done = busbw("torch-bench", "--ranks", "2", "--page", "-b", "4M")
    assert done.returncode == 0, done.stderr
    everything = done.stdout + "".join(line.removeprefix("[rank 1] ") for line in done.stderr.splitlines(True))
    assert everything.count("algo throughput:") == 10  # five trials, each rank
    [path] = runs_of_this_test.glob("*/record.jsonl")
    ours = read_record(path)
    assert [case.cycle for case in ours.cases] == [0, 1, 2, 3, 4]
    log = tmp_path / "page.txt"
    log.write_text(done.stdout)  # rank 0 alone
    [theirs] = load(log)
    assert [case.bytes for case in theirs.cases] == [4 << 20] * 5
    for mine, read in zip(ours.cases, theirs.cases, strict=True):
        assert read.algbw_GBps == pytest.approx(mine.bytes / mine.batches_us[0][0] / 1e3, rel=1e-3)


@needs_torch
@pytest.mark.parametrize("launcher", ["mpirun", "hydra", "torchrun"])
def test_other_launchers_start_it_too(launcher: str, runs_of_this_test: Path) -> None:
    names = {"mpirun": "mpirun.openmpi", "hydra": "mpiexec.hydra", "torchrun": "torchrun"}
    beside = str(Path(PYTHON).parent)
    program = shutil.which(names[launcher], path=f"{os.environ['PATH']}:{beside}")
    if program is None:
        pytest.skip(f"{names[launcher]} is not installed")
    words = ("--launcher", launcher, "--launcher-program", program, "--ranks", "2", "-b", "64", "-n", "1")
    done = busbw("torch-bench", *words)
    assert done.returncode == 0, done.stderr
    [path] = runs_of_this_test.glob("*/record.jsonl")
    record = read_record(path)
    assert len(record.run.ranks) == 2
    assert record.run.launcher == {"mpirun": "mpirun", "hydra": "mpiexec", "torchrun": "torchrun"}[launcher]


@needs_torch
def test_a_lost_rank_ends_the_job(tmp_path: Path, runs_of_this_test: Path) -> None:
    killer = tmp_path / "python"
    killer.write_text(
        f'#!/bin/sh\nif [ "$BUSBW_RANK" = 1 ]; then {PYTHON} "$@" & sleep 4; kill -9 $!; kill -9 $$; fi\n'
        f'exec {PYTHON} "$@"\n'
    )
    killer.chmod(0o755)
    done = busbw("torch-bench", "--python", str(killer), "--ranks", "2", "-b", "1M", "-n", "100000")
    assert done.returncode != 0
    assert "rank 1" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("reduce_all", "--ranks", "2"), "cannot measure 'reduce_all'"),
        (("--page", "alltoall", "--ranks", "2"), "benchmark of all_reduce"),
        (("-b", "x", "--ranks", "2"), "no size"),
        (("-b", "8", "-e", "4", "--ranks", "2"), "no size is left"),
        (("--python", "/no/python", "--ranks", "2"), "has no torch"),
        (("-f", "1", "--ranks", "2"), "at least 2"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(words: tuple[str, ...], why: str) -> None:
    done = busbw("torch-bench", *words)
    assert done.returncode in {1, 2}
    assert why in done.stderr and done.stderr.count("\n") == 1


@needs_torch
def test_a_backend_that_torch_lacks_is_one_sentence() -> None:
    done = busbw("torch-bench", "--backend", "mpi", "--ranks", "1", "-b", "8")
    assert done.returncode != 0
    assert "was built without mpi" in done.stderr and "Traceback" not in done.stderr


def test_the_place_comes_from_the_nearest_launcher() -> None:
    meeting = {"MASTER_ADDR": "a", "MASTER_PORT": "1"}
    place = find_place({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "RANK": "1", "WORLD_SIZE": "2", **meeting})
    assert place and (place.launcher, place.rank, place.size, place.store) == ("torchrun", 1, 2, "env://")
    assert find_place({}) is None
    with pytest.raises(UserError, match="below the size"):
        find_place({"RANK": "2", "WORLD_SIZE": "2", **meeting})
    with pytest.raises(UserError, match="where to meet"):
        find_place({"PMI_RANK": "0", "PMI_SIZE": "2"})


def test_no_secret_reaches_the_record() -> None:
    given = {"NCCL_DEBUG": "INFO", "BUSBW_SECRET": "x", "GLOO_SOCKET_IFNAME": "eth0", "HOME": "/", "NCCL_API_KEY": "y"}
    assert environment(given) == {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "INFO"}


def test_the_system_is_kernel_driver_and_hardware(tmp_path: Path) -> None:
    version = tmp_path / "sys/module/nvidia/version"
    assert system(tmp_path) == {"kernel": os.uname().release}
    version.parent.mkdir(parents=True)
    version.write_text("580.95.05\n")
    assert system(tmp_path)["driver"] == "580.95.05"
    version.write_bytes(b"\xff\xfe")
    assert "driver" not in system(tmp_path)
    net = tmp_path / "sys/class/net"
    for name, kind, address in (("eth0", "0", "02:00:00:00:00:01"), ("veth1", "3", "aa:00:00:00:00:09")):
        (net / name / "device").mkdir(parents=True)
        (net / name / "addr_assign_type").write_text(f"{kind}\n")
        (net / name / "address").write_text(f"{address}\n")
    by_net = system(tmp_path)["hardware"]
    assert by_net == hashlib.sha256(b"02:00:00:00:00:01\n").hexdigest()[:16]
    gpus = tmp_path / "proc/driver/nvidia/gpus"
    for bus, uuid in (("0000:18:00.0", "GPU-b"), ("0000:04:00.0", "GPU-a"), ("0000:2a:00.0", "GPU-????????")):
        (gpus / bus).mkdir(parents=True)
        (gpus / bus / "information").write_text(f"Model: \t NVIDIA H200\nGPU UUID: \t {uuid}\n")
    assert system(tmp_path)["hardware"] == hashlib.sha256(b"GPU-a\nGPU-b\n").hexdigest()[:16]


def test_hosts_say_each_value_once() -> None:
    hosts = [{"kernel": "6.8", "hardware": "b"}, {"kernel": "6.8", "hardware": "a"}, {"driver": "1"}]
    assert joined(hosts) == {"kernel": "6.8", "hardware": "a, b", "driver": "1"}
    assert "hardware" not in joined([{"hardware": str(number)} for number in range(65)])


@pytest.mark.skipif(not ENGINE.exists(), reason="the engine is not built")
def test_the_hardware_of_this_host_is_the_engines(tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    words = [ENGINE, "all_reduce", "--library", "cpu", "-b", "1K", "-e", "1K", "-n", "1", "-w", "1", "--record", record]
    subprocess.run(list(map(str, words)), check=True, capture_output=True, timeout=120)
    theirs = json.loads(record.read_text().splitlines()[0])["system"]
    ours = system()
    assert ours.get("hardware") == theirs.get("hardware") and ours["kernel"] == theirs["kernel"]
