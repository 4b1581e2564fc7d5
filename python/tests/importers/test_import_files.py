"""Files of any kind end in records or in a clear sentence, in bounded memory, whatever is in them."""

from __future__ import annotations

import gzip
import io
import json
from contextlib import suppress
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.importers import (
    FileReport,
    ImportedSweep,
    import_path,
    import_stream,
    load,
    nccl_tests_json,
    nccl_tests_text,
)
from busbw.importers.context import is_kept, machine_named, read_command, without_secrets
from busbw.importers.formats import DOCUMENT_FORMATS, LINE_FORMATS
from busbw.importers.lines import MAX_LINE
from busbw.importers.prefixes import split_prefix
from busbw.importers.values import collective_named, number, size_in_bytes, version_of_code
from busbw.records import Record, parse_records

SAMPLES = Path(__file__).parent / "samples"
TABLE = (SAMPLES / "rows-only.txt").read_bytes().splitlines(keepends=True)[0]
HEADER = (
    b"#                                                              out-of-place                       in-place\n"
    b"#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw"
    b"  #wrong\n"
)


def read(data: bytes, name: str = "job.log") -> tuple[list[Record], FileReport]:
    records: list[Record] = []
    return records, import_stream(io.BytesIO(data), name, lambda sweep: records.append(sweep.record()))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "job.log is empty"),
        (b" \n\n", "job.log is empty"),
        (b"\x7fELF\x02\x01", "job.log is a program"),
        (b"PK\x03\x04rest", "a zip archive"),
        (b"some text\0more", "a binary file"),
        (b"a.log".ljust(257, b"\0") + b"ustar" + bytes(250), "is an archive: unpack it"),
        (b"\x1f\x8b\x08\0cut off", "cannot read job.log to its end"),
    ],
)
def test_what_is_no_text_is_refused_by_what_it_is(data: bytes, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        read(data)


def test_rows_behind_an_unknown_prefix_are_read() -> None:
    lines = [b"<<job 7>> " + line for line in (HEADER + TABLE).splitlines(keepends=True)]
    records, report = read(b"".join(lines) + b"step 12 of 100 in float at 8 2 float sum\n")
    assert len(records) == 1 and report.problems == []


def test_a_prefix_is_learned_behind_long_output_too() -> None:
    lines = [f"job.{at}.worker> {line}\n".encode() for at, line in enumerate((HEADER + TABLE).decode().splitlines())]
    records, report = read(b"epoch 1 of 2\n" * 20_000 + b"".join(lines))
    assert len(records) == 1 and len(records[0].cases) == 2 and report.problems == []


def test_a_row_is_no_prefix_of_the_comment_behind_it() -> None:
    records, _ = read(HEADER + TABLE + TABLE.rstrip(b"\n") + b"# Out of bounds values : 0 OK\n" + TABLE * 2)
    assert sum(len(record.cases) for record in records) >= 6


def test_text_without_results_is_said_to_hold_none(tmp_path: Path) -> None:
    records, report = read(b"nothing\nto see\n")
    assert records == [] and report.summary() == "job.log: nothing that busbw can read; it seems to be plain text"
    path = tmp_path / "empty.log"
    path.write_bytes(b"nothing\nto see\n")
    with pytest.raises(UserError, match="holds no results that busbw can read"):
        load(path)


def test_a_folder_and_a_missing_file_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a directory"):
        import_path(tmp_path, print)
    with pytest.raises(UserError, match="No such file"):
        import_path(tmp_path / "none", print)


def test_a_table_without_rows_is_named() -> None:
    _, report = read(HEADER)
    assert report.problems == ["job.log:2: a table starts here, but holds no rows"]


def test_an_endless_line_is_left_out_and_what_follows_is_read() -> None:
    records, report = read(b"x" * (MAX_LINE * 3) + b"\n" + HEADER + TABLE)
    assert len(records) == 1 and records[0].run.source is not None and records[0].run.source.line == 3
    assert report.problems == ["job.log:1: a line of more than 64 Ki characters was left out"]


def test_a_row_cut_off_by_the_end_of_the_file_is_named() -> None:
    records, report = read(HEADER + TABLE + TABLE[:60])
    assert len(records[0].cases) == 2
    assert len(report.problems) == 1 and report.problems[0].startswith("job.log:4: looks like a row, but does not fit")


def test_a_row_broken_by_other_output_is_put_together() -> None:
    at = TABLE.index(b"-1") + 2
    lead, rest = TABLE[:at], TABLE[at:]
    summary = b"# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated\n#  rank 0 sends 8\nrank 1: 8 8\n"
    records, report = read(HEADER + TABLE + lead + summary + rest + TABLE)
    assert len(records[0].cases) == 6 and report.problems == []
    records, report = read(HEADER + TABLE + lead + b"node-1:2:3 [0] NCCL WARN careful\n" + TABLE)
    assert len(records[0].cases) == 4
    assert report.problems == [
        "job.log:4: a row was broken by other output and its rest not found: '1048576        262144     float     "
        "sum      -1'"
    ]


def test_compressed_and_utf_16_logs_are_read() -> None:
    log = HEADER + TABLE
    assert len(read(gzip.compress(log))[0]) == 1
    assert len(read(log.decode().encode("utf-16"))[0]) == 1
    assert len(read(b"\xef\xbb\xbf" + log)[0]) == 1
    assert len(read(log.replace(b"\n", b"\r\n"))[0]) == 1
    assert len(read(log.replace(b"\n", b"\r"))[0]) == 1


def test_a_busbw_record_is_imported_as_it_is() -> None:
    example_file = Path(__file__).parents[3] / "schema" / "examples" / "all_reduce-v1.jsonl"
    records, report = read(example_file.read_bytes(), "record.jsonl")
    assert records[0].run.run.startswith("20260102T030405Z") and report.formats == {"busbw record": 1}


def test_the_same_content_has_the_same_identifier_and_other_content_another() -> None:
    first, again = read(HEADER + TABLE)[0][0], read(HEADER + TABLE)[0][0]
    other = read(HEADER + TABLE.replace(b"100.00", b"101.00"))[0][0]
    twice = read((HEADER + TABLE + b"# Avg bus bandwidth    : 1\n") * 2)[0]
    assert first.run.run == again.run.run != other.run.run
    assert twice[0].run.run != twice[1].run.run


def test_an_endless_sweep_becomes_several_records(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nccl_tests_text.MAX_ROWS == 20_000
    monkeypatch.setattr(nccl_tests_text, "MAX_ROWS", 2_000)
    records, report = read(HEADER + TABLE * 4_500)
    assert [len(record.cases) for record in records] == [4_000, 4_000, 1_000]
    assert report.rows == 4_500


def json_run(results: list[dict[str, object]], **more: object) -> bytes:
    run = {"version": 3, "start_time": "2026-01-02 03:04:05", "args": ["all_reduce_perf"], **more, "results": results}
    return json.dumps(run, separators=(",", ":")).encode()


RESULT = {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "-1", "out_of_place": {"time": 1.0}}


def test_json_of_very_many_results_becomes_several_records(monkeypatch: pytest.MonkeyPatch) -> None:
    assert nccl_tests_json.MAX_ROWS == 20_000
    monkeypatch.setattr(nccl_tests_json, "MAX_ROWS", 2_000)
    records, report = read(json_run([RESULT] * 4_500), "x.json")
    assert [len(record.cases) for record in records] == [2_000, 2_000, 500] and report.rows == 4_500
    assert len({record.run.run for record in records}) == 3


@pytest.mark.parametrize("cut", [1, 2, 20, 60, 100, 150])
def test_json_cut_anywhere_gives_whole_figures_only(cut: int) -> None:
    whole = json_run([RESULT] * 3, note='a "quoted\\" string')
    records, _ = read(whole[:-cut], "x.json")
    assert {case.time_us for case in records[0].cases} <= {1.0, None}
    assert records[0].end is not None and records[0].end.outcome == "interrupted"


@pytest.mark.parametrize("part", [b"[{", b'"\\', b"[", b"[],", b'\\"'])
def test_hostile_json_is_refused_in_bounded_time_and_memory(part: bytes) -> None:
    filler = part * 60_000
    for start in (b'{"version":3,"start_time":"', b'{"version":3,"start_time":"x","results":'):
        records, report = read(start + filler, "x.json")
        assert records == [] and len(report.problems) == 1


def test_the_collective_can_be_named_where_nothing_says_it() -> None:
    table = HEADER + TABLE.replace(b"   -1", b"    0").replace(b" sum", b"none").replace(b" 262144", b"  32768")
    records, report = read(table)
    assert records == [] and "it could be gather or scatter; name it with --collective" in report.problems[0]
    named: list[Record] = []
    import_stream(io.BytesIO(table), "job.log", lambda sweep: named.append(sweep.record()), collective="gather")
    assert named[0].cases[0].collective == "gather" and named[0].cases[0].ranks == 8


def test_every_format_has_a_row_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "import.md").read_text(encoding="utf-8")
    for format_ in (*LINE_FORMATS, *DOCUMENT_FORMATS):
        first = {"markdown table of results": "Markdown tables", "mscclpp-test JSON lines": "JSON lines of `-o`"}
        assert first.get(format_.name, format_.name) in page


@pytest.mark.parametrize(
    ("line", "who", "rest"),
    [
        ("[1,3]<stdout>:  8", "1,3", "  8"),
        ("[prterun-node-7@1,3]<stdout>: 8", "1,3", " 8"),
        ("[1,0][node7:4]<stdout>:x", "1,0", "x"),
        (" 3: # nThread", "3", "# nThread"),
        ("[default0]:x", "default0", "x"),
        ("2026-01-02T03:04:05.678Z   8", "", "  8"),
        ("[2026-01-02 03:04:05,678]: x", "", "x"),
        ("2026/01/02 03:04:05 x", "", "x"),
        ("2026-01-02T03:04:05.678901234Z stdout F # x", "", "# x"),
        ("Sat Jan  3 04:05:06 2026[1,0]<stdout>:x", "1,0", "x"),
        ("Sat Jan  3 04:05:06 2026<stdout>:x", "", "x"),
        ("node-12: # OSU", "node-12", "# OSU"),
        ("node-12: Test NCCL failure x", "", "node-12: Test NCCL failure x"),
        ("           8             2     float", "", "           8             2     float"),
        ("vm:2466:2485 [0] NCCL INFO x", "", "vm:2466:2485 [0] NCCL INFO x"),
        ("| 1K | 2 |", "", "| 1K | 2 |"),
    ],
)
def test_launchers_prefixes_are_told_from_results(line: str, who: str, rest: str) -> None:
    assert split_prefix(line) == (who, rest)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1K", 1024),
        ("32KiB", 32768),
        ("4.0 GB", 1 << 32),
        ("1024", 1024),
        ("1.5M", 1572864),
        ("8 B", 8),
        ("x", None),
        ("1e3", None),
        ("", None),
        ("0.3K", None),
    ],
)
def test_sizes_are_powers_of_1024(text: str, size: int | None) -> None:
    assert size_in_bytes(text) == size


def test_columns_of_an_early_all_gather_are_an_all_to_all_where_the_file_is_named_so() -> None:
    text = (
        b"#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error\n"
        b"          32             1   float    89.00    0.00    0.00    N/A    85.13    0.00    0.00    N/A\n"
        b"  8589934592     268435456   float    33508  256.36  224.31    N/A    33234  258.47  226.16    N/A\n"
    )
    for name, expected in (("nccl_alltoall.log", "alltoall"), ("job.log", "all_gather"), ("x.log", "all_gather")):
        (record,) = read(text, name)[0]
        assert {case.collective for case in record.cases} == {expected}


def test_names_and_versions() -> None:
    assert collective_named("AllToAll") == "alltoall" and collective_named("all_gather_base") == "all_gather"
    assert collective_named("gossip") is None
    assert (version_of_code(22809), version_of_code(2708), version_of_code(21003)) == ("2.28.9", "2.7.8", "2.10.3")
    assert number("inf") is None and number("N/A") is None and number("1.2e+07") == 1.2e7
    assert (
        machine_named("nc48v4-pg0-1") == "Standard_NC48ads_A100_v4"
        and machine_named("NDmv4") == "Standard_ND96amsr_A100_v4"
    )
    assert machine_named("the-end-v4") is None


@pytest.mark.parametrize("name", ["NCCL_API_KEY", "SLURM_JWT_TOKEN", "HF_TOKEN", "PATH", "CUDA_PASSWORD", "nccl_debug"])
def test_secrets_and_unrelated_variables_are_not_kept(name: str) -> None:
    assert not is_kept(name)


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("run -x HF_TOKEN=abc -x NCCL_ALGO=Ring", "run -x HF_TOKEN=*** -x NCCL_ALGO=Ring"),
        ("run --api-key abc --token 'a b' x", "run --api-key *** --token *** x"),
        ("curl https://user:abc@host/x", "curl https://user:***@host/x"),
        ("monkey -b 8 ./all_reduce_perf", "monkey -b 8 ./all_reduce_perf"),
    ],
)
def test_secrets_of_a_command_are_replaced(command: str, kept: str) -> None:
    assert without_secrets(command) == kept


def test_what_a_terminal_would_obey_is_not_printed() -> None:
    _, report = read(HEADER + b"h: Test NCCL failure a.cu:1 '\x1b[2J\x07'\n")
    assert report.problems == ["job.log:2: h: Test NCCL failure a.cu:1 '?'"]


def test_a_command_gives_ranks_settings_and_program() -> None:
    command = read_command(
        [
            "#!/bin/bash",
            "#SBATCH --ntasks-per-node=4",
            "export NCCL_ALGO=Tree",
            "# export NCCL_PROTO=LL",
            "srun hostname",
            "srun --ntasks-per-node=4 --nodes 2 \\",
            "  ./all_gather_perf -b 8 -g 2",
        ]
    )
    assert command is not None
    assert (command.collective, command.ranks, command.environment) == ("all_gather", 16, {"NCCL_ALGO": "Tree"})
    assert command.text.startswith("srun --ntasks-per-node=4")
    assert read_command(["ls", "make MPI=1"]) is None


def test_digits_of_other_scripts_do_not_reach_the_json() -> None:
    sweeps: list[ImportedSweep] = []
    import_stream(io.BytesIO(HEADER + TABLE.replace(b"100.00", "10\u0663.00".encode())), "job.log", sweeps.append)
    for sweep in sweeps:
        assert "".join(sweep.lines()).isascii()
        assert parse_records(io.BytesIO("".join(sweep.lines()).encode()), "x") == [sweep.record()]


def test_lines_of_json_are_those_of_the_record() -> None:
    """The fast way for the usual rows and the way through cases must come to the same."""
    table = (
        HEADER
        + TABLE * 2
        + TABLE.replace(b"sum", b"min").replace(b"   -1", b"    3")
        + TABLE.replace(b"      0", b"    N/A")
    )
    sweeps: list[ImportedSweep] = []
    for data in (table, *(path.read_bytes() for path in sorted(SAMPLES.iterdir()))):
        with suppress(UserError):
            import_stream(io.BytesIO(data), "job.log", sweeps.append)
    assert sum(sweep.figures is not None for sweep in sweeps) >= 8
    for sweep in sweeps:
        assert parse_records(io.BytesIO("".join(sweep.lines()).encode()), "x") == [sweep.record()]


def test_a_row_that_contradicts_itself_is_told_and_left_out() -> None:
    group = "   100.0   10.49   18.35      0"
    good = f"     1048576        262144     float     sum      -1{group}{group}\n"
    rows = good + good.replace("18.35", "1.835", 1).replace("1048576", "1048577") + good.replace("100.0", "900.0", 1)
    records, report = read(HEADER + rows.encode() + b"# Avg bus bandwidth    : 18\n")
    assert len(records[0].cases) == 4 and sum("contradicts itself" in each for each in report.problems) == 2
