"""Every collective, type, operation and placement, end to end, on ranks of the CPU library."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from harness import Engine, read_record

from busbw.cli.verbs import COLLECTIVES

SCHEMA = Path(__file__).parents[3] / "schema" / "record.schema.json"
UNCHECKED_IN_PLACE = {"alltoall", "alltoallv", "sendrecv"}
REDUCING = {"all_reduce", "reduce_scatter", "reduce"}


def wrong_counts(row: list[str]) -> tuple[str, str]:
    """The #wrong columns, counted from the end: hypercube's row has one word less."""
    return row[-5], row[-1]


@pytest.mark.parametrize("ranks", [("-t", "2"), ("-t", "4"), ("-g", "2"), ("-t", "2", "-g", "2")], ids=" ".join)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_type_and_operation_is_right(engine: Engine, collective: str, ranks: tuple[str, ...]) -> None:
    operations = ("-o", "all") if collective in REDUCING else ()
    done = engine.run(collective, "-b", "1K", "-e", "64K", "-f", "8", "-n", "2", "-d", "all", *operations, *ranks)
    assert done.code == 0, done.out + done.err
    types = 12 * (6 if operations else 1)
    assert len(done.rows) == types * 3
    for row in done.rows:
        out_of_place, in_place = wrong_counts(row)
        assert out_of_place == "0"
        assert in_place == ("N/A" if collective in UNCHECKED_IN_PLACE else "0")
    assert "# Out of bounds values : 0 OK" in done.out


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_one_wrong_element_is_counted_exactly(engine: Engine, collective: str) -> None:
    operations = ("-o", "all") if collective in REDUCING else ()
    done = engine.run(
        collective,
        *("-b", "4K", "-e", "4K", "-n", "1", "-t", "2", "-d", "all", *operations),
        *("--library", engine.library("busbw_test_corrupting")),
        env={"BUSBW_TEST_INNER": engine.library("busbw_cpu")},
    )
    assert done.code == 7, done.out + done.err
    assert done.rows
    for row in done.rows:
        out_of_place, in_place = wrong_counts(row)
        assert out_of_place == "1", row
        assert in_place == ("N/A" if collective in UNCHECKED_IN_PLACE else "1"), row
    assert "FAILED" in done.out


@pytest.mark.parametrize("element", [0, 32767, 32768, 999_999])
def test_a_wrong_element_is_found_wherever_it_lies(engine: Engine, element: int) -> None:
    # Results are checked 128 KiB at a time: 32768 floats.
    done = engine.run(
        "all_reduce",
        *("-b", "4000000", "-e", "4000000", "-n", "1", "-t", "2"),
        *("--library", engine.library("busbw_test_corrupting")),
        env={"BUSBW_TEST_INNER": engine.library("busbw_cpu"), "BUSBW_TEST_ELEMENT": str(element)},
    )
    assert done.code == 7, done.out + done.err
    assert [wrong_counts(row) for row in done.rows] == [("1", "1")]


@pytest.mark.parametrize("root", ["0", "1", "2", "all"])
@pytest.mark.parametrize("collective", ["broadcast", "reduce", "gather", "scatter"])
def test_roots(engine: Engine, collective: str, root: str) -> None:
    done = engine.run(collective, "-b", "8", "-e", "4K", "-f", "8", "-n", "2", "-t", "3", "-r", root)
    assert done.code == 0, done.out + done.err
    roots = {row[4] for row in done.rows}
    assert roots == ({"0", "1", "2"} if root == "all" else {root})


def test_a_record_holds_every_case_and_fits_the_schema(engine: Engine, tmp_path: Path) -> None:
    record = tmp_path / "new" / "record.jsonl"
    done = engine.run("all_reduce", "-b", "8", "-e", "1M", "-f", "4", "-t", "2", "--record", str(record))
    assert done.code == 0, done.out + done.err
    lines = read_record(record)
    import json

    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    for line in lines:
        validator.validate(line)
    assert [line["kind"] for line in lines[:1] + lines[-1:]] == ["run", "end"]
    cases = lines[1:-1]
    assert len(cases) == 2 * len(done.rows)
    assert [case["case"] for case in cases] == list(range(len(cases)))
    # The table shows what the record holds.
    assert float(done.rows[-1][5]) == pytest.approx(cases[-2]["time_us"], rel=0.01)
    assert float(done.rows[-1][7]) == pytest.approx(cases[-2]["busbw_GBps"], rel=0.01, abs=0.01)
    assert cases[-2]["wrong"] == 0


def test_precision_reports_its_interval(engine: Engine, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    done = engine.run(
        "all_reduce",
        *("-b", "64K", "-e", "64K", "-t", "2", "--precision", "20%", "--row-budget", "5", "--record", str(record)),
    )
    assert done.code == 0, done.out + done.err
    for case in read_record(record)[1:-1]:
        interval = case["interval"]
        assert interval["batches"] >= 6
        assert interval["low_us"] <= interval["median_us"] <= interval["high_us"]
        assert len(case["batches_us"]) == 2
        assert all(len(samples) == interval["batches"] for samples in case["batches_us"])
        if interval["reached"]:
            assert interval["high_us"] - interval["low_us"] <= 0.2 * interval["median_us"]
        else:
            assert case["time_us"] > 0


def test_an_empty_library_shows_no_bandwidth_errors(engine: Engine) -> None:
    done = engine.run("all_reduce", "-b", "8", "-e", "8", "-c", "0", "--library", engine.library("busbw_test_empty"))
    assert done.code == 0, done.out + done.err
    assert done.rows[0][8] == "N/A"


def test_what_a_library_lacks_is_a_skipped_case(engine: Engine, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    done = engine.run(
        "all_gather", "-b", "8", "-e", "8", "--library", engine.library("busbw_test_empty"), "--record", str(record)
    )
    assert done.code == 0
    assert not done.rows
    case = read_record(record)[1]
    assert case["outcome"] == "skipped"
    assert "ncclAllGather" in case["reason"]


def test_wrong_results_of_an_empty_library_are_found(engine: Engine) -> None:
    done = engine.run("all_reduce", "-b", "1K", "-e", "1K", "--library", engine.library("busbw_test_empty"))
    assert done.code == 7
    assert int(float(done.rows[0][8])) > 200  # of 256: a few sums may be the zero that lay there
    assert "FAILED" in done.out


def test_hypercube_needs_a_power_of_two(engine: Engine) -> None:
    done = engine.run("hypercube", "-b", "1K", "-e", "1K", "-t", "3")
    assert done.code == 0
    assert not done.rows
    assert "power of two" in done.out


@pytest.mark.parametrize(
    "mode",
    [
        ("-z", "1"),
        ("-z", "2"),
        ("-z", "3"),
        ("-m", "4"),
        ("-I", "1"),
        ("-u", "1"),
        ("-u", "3"),
        ("-R", "1"),
        ("-R", "2"),
        ("-p", "1"),
        ("-N", "2"),
        ("-w", "0"),
        ("-c", "3"),
        ("-C", "1"),
        ("-S", "1"),
        ("-M", "1"),
        ("-a", "3"),
        ("-y", "1"),
    ],
    ids="".join,
)
@pytest.mark.parametrize("collective", ["all_reduce", "sendrecv"])
def test_modes(engine: Engine, collective: str, mode: tuple[str, str]) -> None:
    done = engine.run(collective, "-b", "8", "-e", "64K", "-f", "16", "-n", "4", "-t", "2", *mode)
    assert done.code == 0, done.out + done.err
    assert len(done.rows) == 4 * (2 if mode == ("-N", "2") else 1)
    assert "# Out of bounds values : 0 OK" in done.out


def test_alltoallv_tells_what_each_rank_moved_below_the_row(engine: Engine) -> None:
    done = engine.run(
        "alltoallv",
        *("-b", "64K", "-e", "64K", "-n", "2", "-t", "2"),
        env={"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY": "1", "NCCL_TESTS_ALLTOALLV_SPREAD": "0.5"},
    )
    assert done.code == 0, done.out + done.err
    (row,) = done.rows
    lines = done.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.split()[:1] == row[:1])
    for first, time in ((at + 1, row[5]), (at + 4, row[9])):
        head = lines[first]
        said = "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated nranks=2 total_bytes=65536 spread=0.500 time_usec="
        assert head.startswith(said)
        # The row has as many digits as its column holds.
        assert float(head.removeprefix(said)) == pytest.approx(float(time), rel=0.01)
        for rank in (0, 1):
            assert lines[first + 1 + rank].startswith(f"#   rank={rank} send_bytes=65536 recv_bytes=65536 alg_bw=")
