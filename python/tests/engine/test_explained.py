"""A library of busbw's own: found by its word, told which NCCL stands behind it, asked how it does each case."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from harness import Engine, Finished, read_record

from busbw.records import read_record as read_into_python

ROOT = Path(__file__).resolve().parents[3]


def run_empty(engine: Engine, explain: str, *arguments: str) -> Finished:
    library = engine.library("busbw_test_empty")
    words = ("-b", "8", "-e", "16", "-f", "2", "-c", "0", "-t", "2", "--library", library, *arguments)
    return engine.run("all_reduce", *words, env={"BUSBW_TEST_EXPLAIN": explain})


def test_what_a_library_says_of_its_way_is_in_the_table_and_the_record(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    done = run_empty(engine, "yes", "-d", "half", "-o", "max", "--record", str(path))
    assert done.code == 0, done.err
    assert "# algorithm 0 4 6 2, NCCL none" in done.out.splitlines()
    assert done.out.count("# algorithm ") == 2, "in place it is the same, and said once"
    assert [case.algorithm for case in read_into_python(path).cases][::2] == [
        "0 4 6 2, NCCL none",
        "0 8 6 2, NCCL none",
    ]
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "schema" / "record.schema.json").read_text())
    for line in read_record(path):
        jsonschema.validate(line, schema)


def test_what_a_library_says_cannot_leave_its_line(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    done = run_empty(engine, "hostile", "--record", str(path))
    assert done.code == 0, done.err
    assert len(done.rows) == 2
    assert read_record(path)[1]["algorithm"] == "?" * 255


def test_a_library_without_words_leaves_table_and_record_as_they_were(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    done = engine.run("all_reduce", "-b", "8", "-e", "8", "-t", "2", "--library", "cpu", "--record", str(path))
    assert done.code == 0, done.err
    assert "algorithm" not in done.out
    assert "algorithm" not in read_record(path)[1]


def on_pretended_gpus(engine: Engine, env: dict[str, str]) -> Finished:
    folder = engine.folder / "lib" / "fake_gpu"
    found = {"LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    done = engine.run("all_reduce", "-b", "8", "-e", "8", "-c", "0", "--library", "busbw", env={**found, **env})
    if "without a CUDA compiler" in done.err or not (folder / "libcuda.so.1").exists():
        pytest.skip("this build has no GPU side")
    return done


def test_our_gpu_library_is_told_which_nccl_stands_behind_it(engine: Engine) -> None:
    ours = {"BUSBW_GPU_LIBRARY": engine.library("busbw_test_empty_gpu"), "BUSBW_TEST_EXPLAIN": "yes"}
    behind = str(Path(engine.library("busbw_test_empty")).resolve())
    done = on_pretended_gpus(engine, {**ours, "BUSBW_NCCL_WHEEL": behind})
    assert done.code == 0, done.err
    assert f"# algorithm 0 2 7 0, NCCL {behind}" in done.out
    named = on_pretended_gpus(engine, {**ours, "BUSBW_NCCL_WHEEL": behind, "BUSBW_REAL_NCCL": "/my/libnccl.so"})
    assert "NCCL /my/libnccl.so" in named.out


def test_without_gpus_our_gpu_library_is_refused_in_one_sentence(engine: Engine) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has GPUs")
    done = engine.run("all_reduce", "-b", "8", "-e", "8", "--library", "busbw")
    assert done.code != 0
    assert "--library busbw needs GPUs, but" in done.err
    assert "--library cpu" in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert "nvcc" not in done.err, "a compiler is no help where there is no GPU"


def test_a_gpu_library_that_is_not_there_is_named(engine: Engine) -> None:
    done = on_pretended_gpus(engine, {"BUSBW_GPU_LIBRARY": "/nowhere/libbusbw_gpu.so", "BUSBW_REAL_NCCL": "x"})
    assert done.code != 0
    assert "/nowhere/libbusbw_gpu.so" in done.err
