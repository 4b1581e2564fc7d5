"""What the engine writes, read with other people's JSON and checked against the schema."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from busbw.records.reader import read_records

ROOT = Path(__file__).resolve().parents[3]
BINARIES = Path(os.environ.get("BUSBW_TEST_BINARIES", ROOT / "build" / "bin"))
LIBRARY = BINARIES.parent / "lib" / "libbusbw_cpu.so"
pytestmark = pytest.mark.skipif(
    not (BINARIES / "all_reduce_perf").exists() or not LIBRARY.exists(),
    reason="the engine or its CPU library is not built; `make build` builds them",
)


def command(program: str, *words: str) -> list[str]:
    return [str(BINARIES / program), "-t", "2", "--library", str(LIBRARY), *words]


def measure(folder: Path, program: str, *words: str) -> str:
    """Run to the end in `folder`, which must succeed, and give what was printed."""
    done = subprocess.run(command(program, *words), cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def strict(text: str) -> Any:
    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    "program, words",
    [
        ("all_reduce_perf", ["-b", "0", "-e", "64K", "-f", "8", "-I", "1"]),
        ("all_reduce_perf", ["-b", "64", "-e", "64", "-d", "all", "-o", "all", "-n", "2"]),
        ("all_reduce_perf", ["-b", "64", "-e", "64", "--precision", "20%", "--row-budget", "0.2"]),
        ("broadcast_perf", ["-b", "64", "-e", "64", "-r", "all"]),
        ("hypercube_perf", ["-b", "64", "-e", "64", "-c", "0"]),
        ("sendrecv_perf", ["-b", "64", "-e", "64", "-N", "2"]),
    ],
)
def test_every_line_of_a_record_of_the_engine_is_as_the_schema_has_it(
    tmp_path: Path, program: str, words: Sequence[str]
) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "schema" / "record.schema.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    measure(tmp_path, program, *words, "--record", "new/folder/r.jsonl")
    lines = [strict(line) for line in (tmp_path / "new" / "folder" / "r.jsonl").read_text().splitlines()]
    for line in lines:
        validator.validate(line)
    assert [line["kind"] for line in lines] == ["run", *["case"] * (len(lines) - 2), "end"]
    assert [line["case"] for line in lines[1:-1]] == list(range(len(lines) - 2))
    assert lines[-1]["cases"] == len(lines) - 2
    assert len(lines[0]["library"]["sha256"]) == 64


def test_the_reader_takes_a_record_of_the_engine(tmp_path: Path) -> None:
    measure(tmp_path, "all_reduce_perf", "-b", "64", "-e", "256", "-f", "2", "--record", "r.jsonl")
    (record,) = read_records(tmp_path / "r.jsonl")
    assert len(record.cases) == 6
    assert record.end is not None
    assert not record.run.extra and not record.end.extra and not any(case.extra for case in record.cases)


def test_rows_of_the_table_and_of_the_json_file_are_the_same(tmp_path: Path) -> None:
    text = measure(tmp_path, "all_reduce_perf", "-b", "64", "-e", "1K", "-f", "2", "-J", "out.json")
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    results = strict((tmp_path / "out.json").read_text())["results"]
    assert all(len(row) == 13 for row in rows)
    assert [[row[0], row[1], row[2], row[3], row[4]] for row in rows] == [
        [str(r["size"]), str(r["count"]), r["type"], r["redop"], r["root"].strip()] for r in results
    ]
    for row, result in zip(rows, results, strict=True):
        assert float(row[5]) == pytest.approx(result["out_of_place"]["time"], abs=0.06)
        assert float(row[9]) == pytest.approx(result["in_place"]["time"], abs=0.06)


def test_a_killed_run_leaves_every_measured_case_and_a_whole_json_file(tmp_path: Path) -> None:
    words = ["-b", "64", "-e", "64", "-N", "0", "--record", "r.jsonl", "-J", "out.json"]
    with subprocess.Popen(command("all_reduce_perf", *words), cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        path = tmp_path / "r.jsonl"
        lines_by_then = lines_after(process, path, 5)
        process.send_signal(signal.SIGKILL)
    # The kill may stop a write where a page ends: of the line that was being written, any part may be there.
    *whole, last = path.read_text(errors="replace").split("\n")
    assert len(whole) >= lines_by_then >= 5
    assert [strict(line)["kind"] for line in whole] == ["run", *["case"] * (len(whole) - 1)]
    (record,) = read_records(path)
    is_cut = "the last line is cut off" in " ".join(record.notes)
    assert last or not is_cut
    assert len(record.cases) == len(whole) - 1 + (bool(last) and not is_cut)
    assert len(strict((tmp_path / "out.json").read_text())["results"]) >= 1


def lines_after(process: subprocess.Popen[bytes], path: Path, count: int) -> int:
    """The number of whole lines once there are `count`, while the process still runs."""
    limit = time.monotonic() + 120
    while not path.exists() or path.read_text(errors="replace").count("\n") < count:
        assert process.poll() is None, f"the engine ended with {process.returncode} before anything was measured"
        assert time.monotonic() < limit, "nothing was measured"
        time.sleep(0.02)
    return path.read_text(errors="replace").count("\n")


def test_no_secret_reaches_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_API_KEY", "hunter2")
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    monkeypatch.setenv("NCCL_DEBUG", "VERSION")
    measure(tmp_path, "all_reduce_perf", "-b", "64", "-e", "64", "--record", "r.jsonl", "-J", "out.json")
    for name in ("r.jsonl", "out.json"):
        text = (tmp_path / name).read_text()
        assert "hunter2" not in text
        assert "NCCL_DEBUG" in text
    measure(tmp_path, "all_reduce_perf", "-b", "64", "-e", "64", "-J", "full.json", "--full-environment")
    assert "hunter2" in (tmp_path / "full.json").read_text()


def test_a_warning_goes_to_stderr_and_the_run_goes_on(tmp_path: Path) -> None:
    words = command("all_reduce_perf", "-b", "64", "-e", "64", "-K", "3")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert "busbw: -K has no effect without -I\n" in done.stderr
    assert "-K has" not in done.stdout
