"""One table or record of any number of cases costs a command its sum of work: it is read in part, and that is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.base.effort import ALLOWED, EFFORT, PER_EXAMINED
from busbw.cli.main import main
from busbw.doctor.facts import gather
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.doctor.verdict import Outcome, verdict
from busbw.gate import judge
from busbw.importers import import_path, load
from busbw.importers.draft import ImportedSweep
from busbw.importers.work_limit import PER_CASE, PER_FIGURES
from busbw.records import read_records
from busbw.runs import index, plain, store
from busbw.runs.index import Index

LITTLE = ALLOWED / 50
ROWS = 12_000
SIZES = range(1024, 1024 + 4 * ROWS, 4)


def document(results: list[dict[str, Any]]) -> str:
    """nccl-tests' JSON."""
    about = {"version": 3, "start_time": "", "args": ["./all_reduce_perf"], "env": [], "nccl_version": 22809}
    return json.dumps({**about, "config": {"nthreads": 1, "ngpus": 8}, "results": results})


def superbench() -> str:
    keys = [(f"nccl-bw:nvlink/allreduce_{n}_{what}", value)
            for n in SIZES for what, value in (("time", 20.25), ("algbw", n / 20.25e3))]  # fmt: skip
    return json.dumps({"node": "n1", **{key: [value] for key, value in keys}})


TABLES: dict[str, Callable[[], str]] = {
    "nccl-tests.log": lambda: (
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
        "validation: 1 graph: 0\n# Collective test starting: all_reduce_perf\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw"
        " #wrong\n" + "".join(
            f"{n:12} {n // 4:12} float sum -1 {n / 1e3:.2f} 1.00 1.75 0 {n / 1e3:.2f} 1.00 1.75 0\n" for n in SIZES)
    ),
    "osu.log": lambda: "# OSU MPI Allreduce Latency Test v7.2\n# Size Avg Latency(us)\n" + "".join(
        f"{n} 20.25\n" for n in SIZES),
    "imb.log": lambda: "# Benchmarking Allreduce\n# #processes = 16\n#bytes #repetitions t_min[usec] t_max[usec] "
    "t_avg[usec]\n" + "".join(f"{n} 1000 20.1 20.5 20.25\n" for n in SIZES),
    "all_reduce-hccl.log": lambda: "data_size(Bytes): | avg_time(us): | alg_bandwidth(GB/s): | check:\n" + "".join(
        f"{n} | 20.25 | {n / 20.25e3:.5f} | success\n" for n in SIZES),
    "gloo.log": lambda: "Algorithm: allreduce_ring\nOptions: processes=8, inputs=1\n\n   elements   min (us)   "
    "p50 (us)   p99 (us)   max (us)   samples\n" + "".join(f"{n // 4} 20.1 20.2 20.3 20.4 100\n" for n in SIZES),
    "mscclpp.jsonl": lambda: "".join(
        f'{{"name":"allreduce","kernel":1,"ranks":8,"ranksPerNode":8,"algBw":1.0,"busBw":1.75,"size":{n},"time":9.5}}\n'
        for n in SIZES),
    "table.csv": lambda: "collective,size,ranks,time_us,algbw\n" + "".join(
        f"all_reduce,{n},8,20.25,{n / 20.25e3:.6f}\n" for n in SIZES),
    "table.md": lambda: "## all_reduce\n\n| size (B) | time (us) | algbw (GB/s) |\n|---|---|---|\n" + "".join(
        f"| {n} | 20.25 | {n / 20.25e3:.6f} |\n" for n in SIZES),
    "rows.json": lambda: json.dumps(
        [{"collective": "all_reduce", "ranks": 8, "size": n, "time_us": 20.25, "algbw": n / 20.25e3} for n in SIZES]),
    "nccl-tests.json": lambda: document([
        {"size": n, "count": n // 4, "type": "float", "redop": "sum", "root": -1,
         "out_of_place": {"time": 20.25, "alg_bw": n / 20.25e3, "bus_bw": n / 20.25e3 * 1.75, "nwrong": 0}}
        for n in SIZES]),
    "deepspeed.json": lambda: json.dumps({"metadata": {"world_size": 8}, "summary": {"all_reduce": {
        str(n): {"msg_size_bytes": n, "count": 3, "avg_latency_ms": 0.02, "tput_avg_gbps": 1.0, "busbw_avg_gbps": 1.0}
        for n in SIZES}}}),
    "superbench.json": superbench,
}  # fmt: skip


def imported(path: Path, allowed: float) -> tuple[list[ImportedSweep], str]:
    """The sweeps that such an effort gives, and what is said of the rest."""
    sweeps: list[ImportedSweep] = []
    EFFORT.left = allowed
    report = import_path(path, sweeps.append)
    return sweeps, report.skimmed_over if report.is_part else ""


def cost_of_document(text: str, name: str) -> float:
    """A document is paid for as a whole before any row of it is."""
    return len(text) / (1 << 20) * 36_000 if name.endswith(".json") else 0.0


@pytest.mark.parametrize("name", TABLES)
def test_a_long_table_is_imported_up_to_the_sum_and_says_so(name: str, tmp_path: Path) -> None:
    text = TABLES[name]()
    (tmp_path / name).write_text(text)
    sweeps, said = imported(tmp_path / name, LITTLE + cost_of_document(text, name))
    assert "no further, as reading costs too much" in said
    per_row = PER_FIGURES / 2 if name == "nccl-tests.log" else PER_CASE
    assert 100 < sum(map(len, sweeps)) <= LITTLE / per_row + 1
    assert any("no further" in note for sweep in sweeps for note in sweep.run.notes)


@pytest.mark.parametrize("name", TABLES)
def test_a_long_table_that_will_be_examined_is_read_up_to_what_that_costs(name: str, tmp_path: Path) -> None:
    text = TABLES[name]()
    (tmp_path / name).write_text(text)
    EFFORT.left = LITTLE + cost_of_document(text, name)
    said: list[str] = []
    records = load(tmp_path / name, tell=said.append)
    assert 100 < sum(len(record.cases) for record in records) <= LITTLE / PER_EXAMINED + 2
    assert "no further" in said[0]


def test_a_short_table_before_a_long_one_stays(tmp_path: Path) -> None:
    short = "# OSU MPI Allgather Latency Test v7.2\n# Size Avg Latency(us)\n8 2.5\n16 2.6\n\n"
    (tmp_path / "osu.log").write_text(short + TABLES["osu.log"]())
    EFFORT.left = LITTLE
    first, second = load(tmp_path / "osu.log")
    assert len(first.cases) == 2 and len(second.cases) > 100


def record(cases: int = ROWS, run: str = "r") -> str:
    about = {"schema": 1, "run": run}
    lines: list[dict[str, Any]] = [
        {**about, "kind": "run", "started": "2026-05-01T00:00:00Z", "tool": {"name": "busbw", "version": "1"},
         "library": None, "ranks": [], "environment": {}},
        *({**about, "kind": "case", "case": at, "collective": "all_reduce", "bytes": n, "placement": "out_of_place",
           "type": "float", "op": "sum", "outcome": "measured", "ranks": 8, "time_us": 20.25,
           "algbw_GBps": n / 20.25e3, "busbw_GBps": n / 20.25e3 * 1.75} for at, n in enumerate(SIZES[:cases])),
        {**about, "kind": "end", "outcome": "completed", "cases": cases},
    ]  # fmt: skip
    return "".join(json.dumps(line) + "\n" for line in lines)


LIMITS = """
[[threshold]]
collective = "all_reduce"
bytes = "1K"
max_time_us = 100
ranks = 8
source = "x"
"""
COMMANDS = {
    "report FILE": 1, "report FILE --format html --output OUT.html": 1, "report FILE --every --format csv": 1,
    "compare FILE FILE": 1, "gate FILE --thresholds limits.toml": 2, "baseline make FILE --output OUT.toml": 1,
    "import FILE --output OUT.jsonl": 1,
}  # fmt: skip
"""The exit code of each where a part alone was read."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["record.jsonl", "osu.log", "table.csv"])
def test_a_command_that_read_a_part_says_so_and_whole_lifts_the_bound(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = record() if name == "record.jsonl" else TABLES[name]()
    if name == "osu.log":
        text = "mpirun -np 8 osu_allreduce\n" + text
    Path(name).write_text(text)
    Path("limits.toml").write_text(LIMITS)
    words = [name if word == "FILE" else word for word in command.split()]
    EFFORT.left = LITTLE
    assert main(words) == COMMANDS[command]
    told = capsys.readouterr().err
    assert f"{name}: the file was read to line " in told and "--whole" in told
    EFFORT.left = LITTLE
    assert main([*words, "--whole"]) == 0
    assert "no further" not in capsys.readouterr().err


def test_a_baseline_of_a_part_has_fewer_thresholds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("record.jsonl").write_text(record())
    counts = []
    for more in ([], ["--whole"]):
        EFFORT.left = LITTLE
        main(["baseline", "make", "record.jsonl", "--output", "out.toml", *more])
        counts.append(Path("out.toml").read_text().count("[[threshold]]"))
    assert 100 < counts[0] <= LITTLE / PER_EXAMINED + 1 < counts[1] == ROWS


def test_a_gate_that_failed_in_what_was_read_says_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("record.jsonl").write_text(record())
    Path("limits.toml").write_text(LIMITS.replace("100", "1"))
    EFFORT.left = LITTLE
    assert main(["gate", "record.jsonl", "--thresholds", "limits.toml"]) == 1


def test_a_size_in_the_part_that_was_not_read_fails_no_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("record.jsonl").write_text(record())
    Path("limits.toml").write_text(LIMITS + LIMITS.replace('"1K"', str(SIZES[-1])))
    for left, code, checks in ((LITTLE, 2, "1 of 1"), (float(ALLOWED), 0, "2 of 2")):
        EFFORT.left = left
        assert main(["gate", "record.jsonl", "--thresholds", "limits.toml"]) == code
        assert f"{checks} checks passed" in capsys.readouterr().out


def test_a_gate_of_very_many_thresholds_and_kinds_of_cases_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = record(60).splitlines()
    kinds = [line.replace('"ranks": 8', f'"ranks": {at}') for at, line in enumerate(lines)]
    Path("record.jsonl").write_text("\n".join([lines[0], *kinds[1:-1], lines[-1]]) + "\n")
    Path("limits.toml").write_text(LIMITS.replace("ranks = 8\n", "") * 60)
    monkeypatch.setattr(judge, "MOST_PAIRS", 3000)
    assert main(["gate", "record.jsonl", "--thresholds", "limits.toml"]) == 2
    assert "60 kinds of cases are more than a gate compares with 60 thresholds" in capsys.readouterr().err
    assert main(["gate", "record.jsonl", "--thresholds", "limits.toml", "--whole"]) == 1


def test_a_record_of_our_own_is_read_whole(tmp_path: Path) -> None:
    """A campaign of many hours reads its own records again and again in one process."""
    (tmp_path / "record.jsonl").write_text(record())
    EFFORT.left = 1.0
    (own,) = read_records(tmp_path / "record.jsonl")
    assert len(own.cases) == ROWS and not own.notes
    said: list[str] = []
    (foreign,) = read_records(tmp_path / "record.jsonl", said.append)
    assert len(foreign.cases) == 1
    assert foreign.notes == (f"{tmp_path}/record.jsonl: the file was read to line 2 and no further",)
    assert len(said) == 1


def test_a_large_file_leaves_room_for_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("large.jsonl").write_text(record())
    Path("small.jsonl").write_text(record(20, run="s"))
    EFFORT.left = LITTLE
    assert main(["report", "large.jsonl", "small.jsonl", "--every", "--format", "json"]) == 1
    told = capsys.readouterr()
    assert "small.jsonl" not in told.err
    rows = json.loads(told.out)
    assert sum(row["run"] == "small.jsonl" for row in rows) == 20


def test_the_doctor_calls_no_part_of_a_record_healthy(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.write_text(record())
    EFFORT.left = LITTLE
    names = (str(path),)
    snapshot, records = read_inputs(Inputs(files=names, named=names))
    assert 100 < len(records[0].cases) < ROWS
    said = verdict(gather(snapshot, records), [])
    assert said.outcome is Outcome.UNKNOWN
    assert any("no further" in each for each in said.unread)


def kept(root: Path, name: str, text: str) -> None:
    (root / name).mkdir(parents=True)
    (root / name / "record.jsonl").write_text(text)


def test_an_index_holds_the_first_cases_of_a_long_record_and_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "MOST_LINES", 500)
    kept(tmp_path, "20260501-000001", record())
    with Index(tmp_path) as known:
        assert known.rows("SELECT cases, outcome, problem FROM runs") == [
            (499, "completed", "only its first 499 cases are in the index")
        ]


def test_one_command_enters_so_many_bytes_of_records_and_tells_of_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = record(500)
    monkeypatch.setattr(index, "MOST_BYTES_ENTERED", 5 * len(text) // 2)
    for at in range(5):
        kept(tmp_path, f"20260501-00000{at}", text)
    for left in (3, 1):
        with Index(tmp_path) as known:
            assert known.rows("SELECT count(*) FROM runs") == [(5 - left,)]
        assert f"{left} older runs are not in the index yet" in capsys.readouterr().err
    monkeypatch.setattr(index, "MOST_BYTES_ENTERED", 1)
    with Index(tmp_path) as known:
        assert known.rows("SELECT count(*) FROM runs") == [(5,)]


def test_a_long_kept_run_is_shown_in_part(capsys: pytest.CaptureFixture[str]) -> None:
    kept(store.location(None), "20260501-000001", record())
    EFFORT.left = LITTLE
    assert main(["runs", "show", "20260501-000001"]) == 1
    told = capsys.readouterr()
    assert "no further" in told.err and told.out.count("all_reduce") < LITTLE / PER_EXAMINED + 2
    EFFORT.left = LITTLE
    assert main(["runs", "show", "20260501-000001", "--whole"]) == 0
    assert capsys.readouterr().out.count("all_reduce") == ROWS


def test_a_record_in_which_each_case_is_of_a_curve_of_its_own_is_read_less_far(tmp_path: Path) -> None:
    """What is drawn and compared begins anew with each curve: 20,000 of them took a report 17 s."""
    read = []
    for roots in (1, 10**9):
        path = tmp_path / f"{roots}.jsonl"
        lines = [json.loads(line) for line in record().splitlines()]
        for number, line in enumerate(lines):
            if line["kind"] == "case":
                line["root"] = number % roots
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        EFFORT.left = LITTLE
        with EFFORT.examining():
            (part,) = read_records(path, lambda _: None)
        read.append(len(part.cases))
    assert read[1] * 5 < read[0] < ROWS
