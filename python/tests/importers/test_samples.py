"""Each tool's format, read from small invented samples; the whole records are kept beside them as golden files."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from busbw.importers import FileReport, import_path
from busbw.records import Case, Record, encode, parse_records, record_lines

SAMPLES = Path(__file__).parent / "samples"
GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.name for path in SAMPLES.iterdir())
UPDATE = "BUSBW_UPDATE_GOLDEN" in os.environ


def imported(name: str) -> tuple[list[Record], FileReport]:
    records: list[Record] = []
    report = import_path(SAMPLES / name, lambda sweep: records.append(sweep.record()))
    return records, report


def only(name: str) -> Record:
    records, _ = imported(name)
    assert len(records) == 1
    return records[0]


def case_of(record: Record, size: int, placement: str | None) -> Case:
    return next(case for case in record.cases if case.bytes == size and case.placement == placement)


def as_golden(records: list[Record], report: FileReport) -> str:
    """Everything but paths, one object a line."""
    lines: list[Any] = []
    for record in records:
        lines += [encode(record.run), *map(encode, record.cases), encode(record.end) if record.end else None]
    here = str(SAMPLES) + "/"
    said = [*report.problems, *report.notes, *(f"{count} x {text}" for text, count in report.conversions.items())]
    lines.append({"said": [text.replace(here, "") for text in [*said, report.summary()]]})
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_imports_as_its_golden_file_says(name: str) -> None:
    golden = GOLDEN / f"{name}.jsonl"
    found = as_golden(*imported(name))
    if UPDATE:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_imported_can_be_written_and_read_back(name: str) -> None:
    records, _ = imported(name)
    text = "".join(line for record in records for line in record_lines(record))
    assert parse_records(io.BytesIO(text.encode()), name) == records


@pytest.mark.parametrize("name", NAMES)
def test_what_is_imported_satisfies_the_schema(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(__file__).parents[3] / "schema" / "record.schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    for record in imported(name)[0]:
        for line in record_lines(record):
            validator.validate(json.loads(line))


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_of_a_sample_is_kept(name: str) -> None:
    records, _ = imported(name)
    assert "do-not-keep" not in "".join(line for record in records for line in record_lines(record))


def test_an_unchecked_placement_is_neither_right_nor_wrong() -> None:
    record = only("nccl-2.19.txt")
    assert case_of(record, 1024, "out_of_place").wrong == 0
    assert case_of(record, 1024, "in_place").wrong is None
    assert case_of(record, 4194304, "out_of_place").wrong == 3
    assert record.end is not None and (record.end.outcome, record.end.out_of_bounds) == ("failed", 1)


def test_a_time_in_scientific_notation_is_a_number() -> None:
    assert case_of(only("nccl-2.19.txt"), 4194304, "out_of_place").time_us == 1.2e7


def test_versions_and_ranks_come_from_the_lines_before_the_table() -> None:
    run = only("nccl-2.19.txt").run
    assert run.library is not None and (run.library.version, run.library.version_code) == ("2.28.9", 22809)
    assert run.tool.version == "2.19.6" and run.program == "alltoall_perf"
    assert [rank.device.bus_id for rank in run.ranks if rank.device] == ["0000:1b:00", "0000:43:00"]
    assert (run.processes, run.threads_per_process, run.devices_per_thread) == (1, 1, 2)
    assert run.options == {
        "nthreads": 1,
        "ngpus": 2,
        "minbytes": 1024,
        "maxbytes": 4194304,
        "stepfactor": 64,
        "warmup_iters": 1,
        "iters": 20,
        "agg_iters": 1,
        "check": 1,
        "cudagraph": 0,
        "unalign": 0,
    }


def test_the_old_error_column_is_a_deviation_and_no_count() -> None:
    record = only("nccl-error-column.txt")
    case = case_of(record, 32768, "out_of_place")
    assert case.wrong is None and case.context == {"max_error": 2e-07}
    assert record.cases[0].collective == "reduce_scatter" and case.ranks == 4
    assert record.run.environment == {"NCCL_DEBUG": "WARN"}


def test_the_oldest_tables_give_milliseconds() -> None:
    case = case_of(only("nccl-2.0-milliseconds.txt"), 8388608, "out_of_place")
    assert case.time_us == 1000.0 and case.algbw_GBps == 8.39 and case.conversion == "time from milliseconds"


def test_per_iteration_columns_and_timestamps_are_told_from_the_rest() -> None:
    record = only("nccl-iterations.txt")
    case = case_of(record, 4096, "in_place")
    assert (case.time_us, case.busbw_GBps, case.wrong) == (8.1, 0.25, None)
    assert case.context == {
        "iteration_min_us": 7.6,
        "iteration_max_us": 12.1,
        "iteration_p99_us": 11.6,
        "iteration_cv_percent": 4.3,
    }
    assert case.timestamp == "2026-01-02T03:04:05"
    assert (case.iterations, case.aggregated, case.graph_launches, case.checks) == (50, 2, 4, 0)


def test_an_empty_reduction_does_not_shift_the_columns() -> None:
    case = case_of(only("nccl-hypercube.txt"), 65536, "out_of_place")
    assert (case.op, case.type, case.root, case.time_us, case.busbw_GBps) == (None, "float", None, 32.0, 1.54)


def test_launch_time_is_not_taken_for_elapsed_time() -> None:
    case = case_of(only("nccl-cputime-split.txt"), 1048576, "out_of_place")
    assert case.cpu_time_us == 3.0 and case.time_us == pytest.approx(52.429, abs=1e-3)


def test_ranks_of_a_split_are_those_of_one_communicator() -> None:
    record = only("nccl-cputime-split.txt")
    assert len(record.run.ranks) == 4 and record.cases[0].ranks == 2


def test_roots_and_cycles_are_told_apart() -> None:
    record = only("nccl-broadcast-cycles.txt")
    found = [(case.root, case.cycle or 0, case.bytes) for case in record.cases if case.placement == "in_place"]
    assert found == [(0, 0, 4), (0, 0, 8), (1, 0, 4), (1, 0, 8), (0, 1, 4), (0, 1, 8)]
    assert (
        record.end is not None and record.end.outcome == "failed" and "unhandled system error" in str(record.end.reason)
    )


def test_a_row_broken_by_a_message_is_put_together() -> None:
    record = only("mpirun-tag-broken-row.txt")
    assert [case.time_us for case in record.cases if case.placement == "out_of_place"] == [8.0, 8.2, 9.0]
    assert record.run.machine == "Standard_NC48ads_A100_v4"
    assert record.run.library is not None and record.run.library.version == "2.18.5"
    assert record.run.environment == {"NCCL_IB_DISABLE": "1"}


def test_copies_started_without_mpi_are_separate_and_named() -> None:
    records, report = imported("srun-l-copies.txt")
    assert [[case.time_us for case in record.cases if case.placement == "out_of_place"] for record in records] == [
        [4.0, 4.2],
        [4.1, 4.3],
    ]
    assert any("started without MPI" in note for note in report.notes)


@pytest.mark.parametrize("name", ["azureml-timestamps.txt", "mpirun-timestamp-output.txt"])
def test_a_launchers_time_before_each_line_is_stripped(name: str) -> None:
    assert [case.time_us for case in only(name).cases] == [8.0, 8.1]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_json_of_every_version_is_read(version: int) -> None:
    record = only(f"nccl-json-{version}.json")
    case = case_of(record, 65536, "out_of_place")
    assert (case.time_us, case.wrong, case.root, case.average, case.ranks) == (16.0, 2, None, "max", 2)
    assert case_of(record, 65536, "in_place").wrong is None
    assert record.end is not None and record.end.average_busbw_GBps == 1.5
    assert record.run.environment == {"NCCL_ALGO": "Ring"} and record.run.started == "2026-01-02T03:04:05"
    assert case.iterations_us == (() if version == 1 else ((7.5, 8.0, 12.0),))


def test_json_of_a_killed_run_gives_the_results_that_are_whole() -> None:
    record = only("nccl-json-killed.json")
    assert {case.bytes for case in record.cases} == {1024, 65536}
    # The file ends within the digits of this bandwidth: what is left of them is no number.
    cut_off = case_of(record, 65536, "in_place")
    assert (cut_off.time_us, cut_off.algbw_GBps, cut_off.busbw_GBps) == (17.0, None, None)
    assert record.end is not None and record.end.outcome == "interrupted"


def test_infinity_and_nan_are_no_numbers() -> None:
    text = (SAMPLES / "nccl-json-infinity.json").read_text(encoding="utf-8")
    assert "Infinity" in text and '"nan"' in text
    case = case_of(only("nccl-json-infinity.json"), 1024, "out_of_place")
    assert (case.time_us, case.algbw_GBps, case.busbw_GBps) == (8.0, None, None)


def test_mscclpp_prints_one_placement_and_its_place_says_which() -> None:
    assert {case.placement for case in only("mscclpp-in-place.txt").cases} == {"in_place"}
    case = only("mscclpp-out-of-place.txt").cases[0]
    assert (case.placement, case.time_us, case.wrong, case.variant) == ("out_of_place", 5.0, None, "kernel 6")


def test_mscclpp_json_lines_start_a_sweep_per_test() -> None:
    records, _ = imported("mscclpp-lines.jsonl")
    assert [(record.cases[0].collective, len(record.cases)) for record in records] == [
        ("all_gather", 2),
        ("all_reduce", 1),
    ]


def test_algo_throughput_counts_send_and_receive() -> None:
    record = only("torch-per-rank.txt")
    first = record.cases[0]
    assert (first.algbw_GBps, first.busbw_GBps, first.bytes, first.ranks) == (62.5, 62.5, 4_000_000_000, 2)
    assert first.time_us == 64_000.0 and "send plus receive" in str(first.conversion)
    assert [(case.context["rank"], case.cycle or 0) for case in record.cases] == [
        ("node-h:0", 0),
        ("node-h:1", 0),
        ("node-h:0", 1),
    ]


def test_the_table_of_torch_is_in_gigabytes_of_ten() -> None:
    record = only("torch-table.txt")
    assert [case.bytes for case in record.cases] == [32768, 1 << 20, 1 << 34]
    assert record.cases[1].time_us == pytest.approx(52.429, abs=1e-3) and record.cases[0].ranks == 8
    assert record.run.library is not None and record.run.library.version == "2.27.7"


def test_deepspeed_counts_differently_and_is_converted() -> None:
    (reduce, gather), _ = imported("deepspeed.txt")
    large = reduce.cases[1]
    assert large.bytes == 1 << 32 and large.time_us == 42950.0
    assert large.algbw_GBps == pytest.approx(100.0, rel=1e-3) and large.busbw_GBps == 150.0
    assert gather.cases[0].bytes == 4 * 1024 and gather.cases[0].algbw_GBps == pytest.approx(0.2048)


def test_deepspeed_raw_numbers_take_their_units_from_the_header() -> None:
    case = only("deepspeed-raw.txt").cases[0]
    assert (case.collective, case.bytes, case.time_us, case.busbw_GBps) == ("sendrecv", 4194304, 172.352, 24.336)


def test_a_table_of_deepspeed_whose_bandwidth_cannot_be_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deepspeed.txt"
    path.write_text((SAMPLES / "deepspeed.txt").read_text().replace("1200.000 ", "9600.000 "))
    records: list[Record] = []
    report = import_path(path, lambda sweep: records.append(sweep.record()))
    assert 1 << 32 not in {case.bytes for record in records for case in record.cases}
    assert any("all_reduce has 1 to 2" in problem for problem in report.problems), report.problems


def test_osu_latencies_become_bandwidth_where_the_ranks_are_known() -> None:
    records, report = imported("osu.txt")
    reduce, alltoall, barrier = (record.cases for record in records)
    assert reduce[1].busbw_GBps == pytest.approx(1024 / 4.0 / 1000 * 1.5) and reduce[1].range == {"time_us": (3.5, 4.5)}
    assert reduce[0].iterations == 1000 and reduce[0].type == "float"
    assert alltoall[1].bytes == 4096 and "part of one" in str(alltoall[1].conversion)
    assert (barrier[0].bytes, barrier[0].time_us, barrier[0].busbw_GBps) == (0, 2.5, None)
    assert any("Bandwidth" in problem for problem in report.problems)


def test_a_page_gives_each_sweep_its_heading_command_and_settings() -> None:
    records, report = imported("page.md")
    with_file, without_file, nccl, other, exact, ranged = records
    assert with_file.run.environment == {"NCCL_ALGO": "Ring", "NCCL_TOPO_FILE": "/opt/topo.xml"}
    assert without_file.run.environment == {"NCCL_ALGO": "Ring"}
    assert with_file.run.source is not None and str(with_file.run.source.heading).endswith("With the topology file")
    assert "all_reduce_perf" in str(with_file.run.source.command)
    assert nccl.run.environment == {}, "the next chapter does not inherit the command of the one before"
    assert [case.best for case in nccl.cases] == [True, None, None]
    assert [(case.variant, case.outcome, case.best) for case in other.cases] == [
        ("A", "measured", None),
        ("B", "skipped", None),
        ("A", "measured", None),
        ("B", "measured", True),
    ]
    assert exact.cases[0].algbw_GBps == 100.0
    assert ranged.cases[0].algbw_GBps is None and ranged.cases[0].range == {"algbw_GBps": (1.0, 2.0)}
    assert [problem.split(": ", 1)[0].rsplit(":", 1)[1] for problem in report.problems] == ["41", "46"]


def test_rows_without_a_header_are_taken_with_a_note_and_broken_ones_named() -> None:
    records, report = imported("rows-only.txt")
    assert len(records[0].cases) == 4 and records[0].cases[0].ranks == 8
    assert any("no header line" in note for note in report.notes)
    assert [problem.split(": ", 1)[0].rsplit(":", 1)[1] for problem in report.problems] == ["3"]
