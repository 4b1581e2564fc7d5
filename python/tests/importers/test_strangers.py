"""What the forms of strangers' logs must give beyond their facts: ranks of replays, units, wrong input and whole bytes."""

# ruff: noqa: E501 - the lines are as wide as the tools print them

from __future__ import annotations

import io
import json
import lzma
import os
import pickle
from pathlib import Path

import pytest
from world_jobs import replayed
from world_strangers import LINES, TEXT

from busbw.base.errors import UserError
from busbw.importers import FileReport, import_folder, import_stream
from busbw.importers.nccl_tests_plain import PlainRows
from busbw.importers.nccl_tests_rows import DEFAULT_LAYOUT, Sweep
from busbw.records import Record


def read(data: bytes, name: str = "job.log") -> tuple[list[Record], FileReport]:
    records: list[Record] = []
    report = import_stream(io.BytesIO(data), name, lambda sweep: records.append(sweep.record()))
    return records, report


def test_a_folder_of_replayed_ranks_is_one_run_with_the_slow_rank_named(tmp_path: Path) -> None:
    for rank, late in enumerate((0, 1, 2, 60)):
        (tmp_path / f"replayedCommsPerf.rank-{rank}.json").write_text(replayed(late, 4), encoding="utf-8")
    records: list[Record] = []
    import_folder(tmp_path, lambda sweep: records.append(sweep.record()))
    (record,) = records
    found = {case.collective: case for case in record.cases}
    assert found["all_reduce"].bytes == (1 << 20) * 2 and found["all_reduce"].type == "bfloat16"
    # What all ranks hold in the end, and what each gives in: sizes as nccl-tests counts them.
    assert found["all_gather"].bytes == found["reduce_scatter"].bytes == 4 * (1 << 18) * 2
    assert found["all_reduce"].context["ranks_reporting"] == 4 and found["all_reduce"].iterations == 8
    assert any(note.startswith("rank 3 is") for note in record.run.notes)
    assert any("host clock" in note for note in record.run.notes)


def test_waits_and_sends_of_a_replay_are_no_cases() -> None:
    calls = json.loads(replayed(0, 8))
    calls += [
        {"comms": "send", "in_msg_size": 8, "out_msg_size": 8, "dtype_size": 4, "dtype": "float", "latency_us": 3.0}
    ]
    calls += [
        {"compute": "gemm", "latency_us": 9.0, "marker_stack": "x"},
        "noise",
        {"comms": "all_reduce", "latency_us": -1},
    ]
    (record,), _ = read(json.dumps(calls).encode(), "replayedCommsPerf.rank-0.json")
    assert {case.collective for case in record.cases} == {"all_reduce", "all_gather", "reduce_scatter", "alltoallv"}
    said = " ".join(record.run.notes)
    assert "1 kernels of compute" in said and "2 sends, receives" in said


@pytest.mark.parametrize(
    "text", ['[{"comms": "wait", "latency_us": 1.0}]', '[{"comms": "init", "latency_us": 0, "marker_stack": ""}]']
)
def test_a_replay_without_transfers_is_one_sentence(text: str) -> None:
    records, report = read(text.encode(), "replayedCommsPerf.rank-0.json")
    assert not records and len(report.problems) == 1 and "et_replay" in report.problems[0]


def test_a_failed_check_of_hccl_is_kept_and_no_count_is_made_up() -> None:
    text = "$ mpirun -np 8 ./bin/all_gather_test -b 8K -e 16K -d fp32\ndata_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | check_result:\n"
    (record,), _ = read((text + "8192 | 12.50 | 18.25 | success\n16384 | 13.00 | 31.50 | failed\n").encode())
    assert [(case.wrong, case.context.get("check")) for case in record.cases] == [(0, None), (None, "failed")]
    assert record.cases[1].busbw_GBps == pytest.approx(31.5 * 7 / 8) and record.cases[0].collective == "all_gather"


@pytest.mark.parametrize(
    ("cells", "size", "busbw"),
    [
        ("1.048.576;34,8;30,13;52,73", 1 << 20, 52.73),
        ("1048576;34,8;30,13;52,7", 1 << 20, 52.7),
        ("1 048 576;34.8;30.13;52.73", 1 << 20, 52.73),
        ("16777216;1.234,5;13,6;23,8", 16777216, 23.8),
    ],
)
def test_decimal_commas_and_groups(cells: str, size: int, busbw: float) -> None:
    (record,), _ = read(f"size;time (us);algbw (GB/s);busbw (GB/s)\n{cells}\n".encode(), "all_reduce.csv")
    (case,) = record.cases
    assert (case.bytes, case.busbw_GBps) == (size, busbw)
    if "1.234,5" in cells:
        assert case.time_us == 1234.5


def test_a_comma_that_parts_cells_groups_no_digits() -> None:
    (record,), _ = read(b"size,time,algbw,busbw\n1024,10,102,178\n", "all_reduce.csv")
    assert (record.cases[0].bytes, record.cases[0].time_us, record.cases[0].busbw_GBps) == (1024, 10, 178)


def test_columns_of_a_second_library_are_its_own_run() -> None:
    table = "| Size | Time (us) | AlgBW (GB/s) | NCCL Time (us) | NCCL AlgBW (GB/s) |\n+----+----+----+----+----+\n"
    both, _ = read((table + "| 1.0 MiB | 9.5 | 110.38 | 19.5 | 53.77 |\n").encode(), "all_reduce.txt")
    found = {record.run.library.name if record.run.library else None: record.cases[0] for record in both}
    assert found[None].algbw_GBps == 110.38 and (found["NCCL"].time_us, found["NCCL"].algbw_GBps) == (19.5, 53.77)


@pytest.mark.parametrize("width", [60, 73, 80, 100])
def test_rows_that_a_terminal_wrapped_at_any_width_are_whole(width: int) -> None:
    wrapped = "".join(f"{line[at : at + width]}\n" if line[:1] == " " else f"{line}\n" if at == 0 else ""
                      for line in LINES for at in range(0, max(len(line), 1), width))  # fmt: skip
    (record,), report = read(wrapped.encode())
    (whole,), _ = read(TEXT.encode())
    assert record.cases == whole.cases or [(c.bytes, c.time_us, c.busbw_GBps, c.wrong) for c in record.cases] == [
        (c.bytes, c.time_us, c.busbw_GBps, c.wrong) for c in whole.cases
    ]
    assert report.problems == []


def test_a_message_of_json_with_several_lines_is_several_lines() -> None:
    text = (
        json.dumps({"message": "\n".join(LINES[:12])}) + "\n" + json.dumps({"message": "\r\n".join(LINES[12:]) + "\n"})
    )
    (record,), _ = read(text.encode())
    assert len(record.cases) == 6 and record.cases[0].ranks == 8


def test_lines_of_json_that_wrap_nothing_stay_as_they_are() -> None:
    text = '{"message": "hello"}\n{"message": 7}\n{"message": "broken \\u12"}\n{"other": [1]}\n' + TEXT
    (record,), _ = read(text.encode())
    assert len(record.cases) == 6


@pytest.mark.parametrize("cut", [30, 200])
def test_a_packed_file_that_was_cut_is_a_sentence_or_its_rows(cut: int) -> None:
    packed = lzma.compress(TEXT.encode() * 50)
    with pytest.raises(UserError, match=r"cannot read job\.log\.xz"):
        read(packed[:cut], "job.log.xz")


def test_a_bomb_of_xz_is_refused() -> None:
    with pytest.raises(UserError, match="unpacks to more than"):
        read(lzma.compress((b"x" * 60_000 + b"\n") * 400, preset=0), "bomb.xz")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_is_refused_with_the_command_that_dumps_json_and_never_run(protocol: int, tmp_path: Path) -> None:
    class Runs:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "was run"),)

    for value in ({"entries": [Runs()]}, [1, 2], {}):
        with pytest.raises(UserError, match=r"pickle.*json\.dump"):
            read(pickle.dumps(value, protocol=protocol), "nccl_trace_rank_0")
    assert not (tmp_path / "was run").exists()


def test_the_statistics_of_deepspeed_take_its_bandwidth_and_one_ranks_part() -> None:
    entry = {"count": 3, "avg_latency_ms": 1.0, "tput_avg_gbps": 8.0, "busbw_avg_gbps": 7.0, "msg_size_bytes": 1 << 20}
    document = {"summary": {"all_gather_into_tensor": {"x": entry}, "barrier_x": {}, "all_reduce": {"y": {"count": 1}}},
                "metadata": {"world_size": 8}}  # fmt: skip
    (record,), report = read(json.dumps({"avg": 1, **document}).encode(), "comms.json")
    (case,) = record.cases
    assert (case.bytes, case.busbw_GBps, case.algbw_GBps, case.iterations) == (8 << 20, 0.875, 1.0, 3)
    assert len(report.problems) >= 2


def test_a_quoted_comma_groups_digits_where_commas_part_cells() -> None:
    (record,), _ = read(b'size,algbw,busbw\n"1,024",10,17.5\n', "all_reduce.csv")
    assert record.cases[0].bytes == 1024


def test_a_second_library_without_a_time_has_none() -> None:
    table = "| Size | Time (us) | AlgBW (GB/s) | NCCL AlgBW (GB/s) |\n|--|--|--|--|\n| 1 MiB | 9.5 | 110.38 | 53.77 |\n"
    both, _ = read(table.encode(), "all_reduce.txt")
    assert [record.cases[0].time_us for record in both if record.run.library] == [None]


@pytest.mark.parametrize(
    ("figures", "keeps"),
    [
        ("100.0 10.49 18.35 0 100.0 10.49 18.35 0", True),
        ("100.0 10.49 18.35 0 0.10 10.49 18.35 0", False),  # too short in place alone
        ("0.10 10.49 18.35 0 100.0 10.49 18.35 0", False),
        ("100.0 10.49 900.0 0 100.0 10.49 18.35 0", False),
        ("100.0 10.49 18.35 0 100.0 10.49 900.0 0", False),
        ("1.00 10.49 18.35 0 100.0 10.49 18.35 0", False),  # the rate by size over time
    ],
)
def test_the_bounds_of_a_sweep_look_at_every_figure_of_a_row(figures: str, keeps: bool) -> None:
    sweep = Sweep(DEFAULT_LAYOUT, "all_reduce", {}, is_mscclpp=False)
    rows = PlainRows([f" 1048576 262144 float sum -1 {figures}"], sweep)
    assert rows.keep(450.0, 0.3, 8) is keeps
