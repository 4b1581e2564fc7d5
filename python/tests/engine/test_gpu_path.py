"""The engine's GPU side, end to end on any machine: with a driver, a management library and an NCCL that pretend."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from harness import Engine, Finished

ROOT = Path(__file__).resolve().parents[3]


class Pretended:
    """The engine on GPUs that are not there."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.folder = engine.folder / "lib" / "fake_gpu"

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> Finished:
        found = {"LD_LIBRARY_PATH": f"{self.folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
        library = self.engine.library("busbw_test_empty_gpu")
        return self.engine.run("all_reduce", *arguments, "--library", library, env={**found, **(env or {})})


@pytest.fixture(scope="module")
def gpus(engine: Engine) -> Pretended:
    pretended = Pretended(engine)
    if not (pretended.folder / "libcuda.so.1").exists():
        pytest.skip("the pretended driver is not built")
    if "without a CUDA compiler" in pretended.run("-b", "8", "-e", "8").err:
        pytest.skip("this build has no GPU side")
    return pretended


def lines(record: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, record.read_text().splitlines()) if line["kind"] == kind]


def check_against_schema(record: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "schema" / "record.schema.json").read_text())
    for line in record.read_text().splitlines():
        jsonschema.validate(json.loads(line), schema)


def test_context_is_in_the_record_and_below_each_row_when_asked_for(gpus: Pretended, tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    done = gpus.run("-b", "8", "-e", "64", "-f", "8", "-t", "2", "--context", "--record", str(record))
    assert done.code == 0, done.err
    assert len(done.rows) == 2
    assert done.out.count("# out of place: SM 1980 MHz; memory 3201 MHz; 41 to 47 C; 412 W; NVLink") == 2
    assert "# Time spent" in done.out
    check_against_schema(record)
    for case in lines(record, "case"):
        assert case["context"]["cases"] == 1
        assert [rank["rank"] for rank in case["context"]["ranks"]] == [0, 1]
        assert case["context"]["ranks"][1]["after"]["temperature_celsius"] == 47
    assert set(lines(record, "end")[0]["phases_s"]) >= {"devices", "communicators", "cases"}


def nvlink_bytes(case: dict[str, Any]) -> list[int]:
    readings = case["context"]["ranks"]
    return [rank["after"]["nvlink_sent_bytes"] - rank["before"]["nvlink_sent_bytes"] for rank in readings]


def test_traffic_of_a_row_is_that_of_its_own_calls(gpus: Pretended, tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    words = ("-b", "8", "-e", "64", "-f", "8", "-t", "2", "-w", "50", "-n", "20", "-o", "all", "--context")
    done = gpus.run(*words, "--record", str(record))
    assert done.code == 0, done.err
    cases = [case for case in lines(record, "case") if case["outcome"] == "measured"]
    assert {case["op"] for case in cases} == {"sum", "prod", "max", "min", "avg"}
    # Both ranks make one call before the timed ones and one that is checked.
    assert all(nvlink_bytes(case) == [2 * 22 << 20] * 2 for case in cases)


def test_with_precision_both_placements_share_a_reading(gpus: Pretended, tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    words = ("-b", "8", "-e", "64", "-f", "8", "-t", "2", "--precision", "50%", "--context")
    done = gpus.run(*words, "--record", str(record))
    assert done.code == 0, done.err
    assert done.out.count("# both placements: SM 1980 MHz; ") == 2
    check_against_schema(record)
    for out_of_place, in_place in zip(*[iter(lines(record, "case"))] * 2, strict=True):
        assert "context" not in out_of_place
        assert in_place["context"]["cases"] == 2
        # Each batch has one call before it. The row has two for an estimate, checked, and one that is checked in place.
        calls = sum((1 + case["iterations"]) * case["interval"]["batches"] for case in (out_of_place, in_place))
        assert all(traffic >> 21 == calls + 3 for traffic in nvlink_bytes(in_place))


def test_a_throttled_gpu_is_one_warning_until_it_changes(gpus: Pretended) -> None:
    done = gpus.run("-b", "8", "-e", "512", "-f", "8", "-t", "2", "--context", env={"BUSBW_TEST_THROTTLE": "0x40"})
    warnings = [line for line in done.out.splitlines() if "warning:" in line]
    assert warnings == [
        "# out of place: warning: the GPU of rank 1 ran throttled (hw_thermal_slowdown), SM clock 1215 MHz"
    ]
    assert "# Warning: GPUs ran throttled or were shared in 6 of 6 cases" in done.out


def test_a_shared_gpu_is_said_without_asking(gpus: Pretended) -> None:
    done = gpus.run("-b", "8", "-e", "1M", "-f", "2", "-t", "2", "-N", "40", env={"BUSBW_TEST_PROCESSES": "2"})
    assert "warning: another process computed on the GPU of ranks 0-1" in done.out
    assert "SM 1980 MHz" not in done.out


def test_slow_readings_are_shared_by_short_cases(gpus: Pretended, tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    done = gpus.run("-b", "8", "-e", "8", "-N", "20", "--record", str(record), env={"BUSBW_TEST_READ_US": "1000"})
    assert done.code == 0, done.err
    cases = lines(record, "case")
    read = [case for case in cases if "context" in case]
    assert len(read) < len(cases) / 5
    assert all(case["context"]["reading_us"] >= 2000 for case in read)


def test_context_without_gpus_says_why(engine: Engine) -> None:
    library = engine.library("busbw_cpu")
    done = engine.run("all_reduce", "-b", "8", "-e", "8", "--library", library, "--context")
    assert done.code == 0
    assert "context is read from GPUs" in done.err


@pytest.mark.parametrize("text", ["one", "", "-1", "0x1", "99999999999999999999"])
def test_a_device_that_is_no_number_is_refused(gpus: Pretended, text: str) -> None:
    done = gpus.run("-b", "8", "-e", "8", env={"NCCL_TESTS_DEVICE": text})
    assert done.code == 255
    assert f"NCCL_TESTS_DEVICE takes the number of the first GPU of this process, such as 0, not '{text}'" in done.err


def test_the_device_of_the_environment_is_taken(gpus: Pretended) -> None:
    done = gpus.run("-b", "8", "-e", "8", env={"NCCL_TESTS_DEVICE": "1"})
    assert done.code == 0, done.err
    assert "device  1 [0000:11:00]" in done.out


def test_gpus_are_opened_side_by_side(gpus: Pretended, tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    slow = {"BUSBW_TEST_GPUS": "8", "BUSBW_TEST_OPEN_MS": "500"}
    done = gpus.run("-b", "8", "-e", "8", "-t", "8", "--record", str(record), env=slow)
    assert done.code == 0, done.err
    assert 0.5 <= lines(record, "end")[0]["phases_s"]["devices"] < 2.5  # one after the other it would be 4


def test_precision_measures_both_placements_in_batches_of_the_same_shape(gpus: Pretended, tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    done = gpus.run("-b", "8", "-e", "8", "-t", "2", "-G", "3", "--precision", "50%", "--record", str(record))
    assert done.code == 0, done.err
    out_of_place, in_place = lines(record, "case")
    assert (out_of_place["placement"], in_place["placement"]) == ("out_of_place", "in_place")
    assert out_of_place["interval"]["batches"] == in_place["interval"]["batches"] >= 6
    assert out_of_place["iterations"] == in_place["iterations"] == 20
