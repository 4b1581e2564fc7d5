"""The pages whose figures are shipped: every sweep, row and cell, from the pages and from the catalogue."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.importers import FileReport, import_path
from busbw.records import Case, Record, catalogue

PAGES = Path(os.environ.get("BUSBW_REFERENCE", Path(__file__).parents[4] / "shared" / "reference"))
ENTRIES = [name for name in catalogue.names() if len(catalogue.load(name)) == 1]


def page(name: str) -> tuple[list[Record], FileReport]:
    if not (PAGES / name).exists():
        pytest.skip(f"{PAGES / name} is not here; BUSBW_REFERENCE names the folder")
    records: list[Record] = []
    return records, import_path(PAGES / name, lambda sweep: records.append(sweep.record()))


def rows(record: Record) -> int:
    return len({case.bytes for case in record.cases})


def test_the_slurm_page_has_4_sweeps_of_31_rows_with_their_machines_and_settings() -> None:
    records, report = page("ncv4-slurm-nccl.md")
    assert [(rows(record), len(record.cases), record.cases[0].ranks, record.run.machine) for record in records] == [
        (31, 62, 4, "Standard_NC96ads_A100_v4"),
        (31, 62, 4, "Standard_NC96ads_A100_v4"),
        (31, 62, 2, "Standard_NC48ads_A100_v4"),
        (31, 62, 2, "Standard_NC48ads_A100_v4"),
    ]
    assert ["NCCL_GRAPH_FILE" in record.run.environment for record in records] == [True, False, True, False]
    assert report.problems == [] and report.rows == 124
    assert sum("the heading says" in note for note in report.notes) == 2, (
        "the page's third heading names the wrong machine"
    )


def test_the_notes_page_has_3_sweeps_of_29_rows() -> None:
    records, report = page("nccl-notes.md")
    assert [(rows(record), record.cases[0].ranks) for record in records] == [(29, 1), (29, 2), (29, 2)]
    assert report.problems == []
    assert records[2].run.environment["NCCL_P2P_LEVEL"] == "NVL"
    assert records[0].run.environment == {}


def test_the_azure_ml_page_has_2_sweeps_of_31_rows() -> None:
    records, report = page("aml-nccl-test.md")
    assert [(rows(record), record.cases[0].ranks) for record in records] == [(31, 8), (31, 16)]
    assert report.problems == []
    assert [record.end.average_busbw_GBps for record in records if record.end] == [78.8923, 57.1241]


def test_every_algo_throughput_of_the_bandwidth_page_is_there_and_ranges_stay_ranges() -> None:
    records, report = page("bandwidth-tests.md")
    text = (PAGES / "bandwidth-tests.md").read_text(encoding="utf-8")
    assert report.problems == [] and len(records) == text.count("algo throughput:") == 5
    ranges = [record.cases[0].range.get("algbw_GBps") for record in records]
    assert ranges[:2] == [None, None]
    assert ranges[2] == pytest.approx((23.2939 / 16, 55.0766 / 16), abs=1e-6)
    assert [each is not None for each in ranges[2:]] == [True] * 3


def test_every_cell_of_the_ndmv4_page_is_there() -> None:
    records, report = page("ndmv4-mscclpp-performance.md")
    text = (PAGES / "ndmv4-mscclpp-performance.md").read_text(encoding="utf-8")
    cells = [
        cell
        for line in text.splitlines()
        if line.startswith(("| 1K", "| 1G", "| 4G"))
        for cell in line.split("|")[2:-1]
    ]
    figures = [part.strip() for cell in cells for part in cell.split("/")]
    cases = [case for record in records for case in record.cases]
    assert report.problems == [] and len(cases) == len(figures) == 70
    assert sum(case.best is True for case in cases) == text.count("**") // 2 - sum(
        text.count(f"**{caption}") for caption in ("Latency", "BusBW", "NOTE")
    )
    assert sum(case.outcome == "skipped" for case in cases) == figures.count("-")


@pytest.mark.parametrize(
    "name",
    ["ncv4-slurm-nccl.md", "nccl-notes.md", "aml-nccl-test.md", "bandwidth-tests.md", "ndmv4-mscclpp-performance.md"],
)
def test_the_catalogue_holds_what_the_pages_say(name: str) -> None:
    records, _ = page(name)
    shipped = {record.run.run: record for entry in ENTRIES for record in catalogue.load(entry)}
    for record in records:
        assert shipped[record.run.run].cases == record.cases


@pytest.mark.parametrize(
    ("name", "sweeps", "cases"),
    [
        ("nc96v4", 2, 124),
        ("nc48v4", 2, 124),
        ("v100-pcie", 3, 174),
        ("ndv4", 2, 124),
        ("ndv4-1node", 1, 62),
        ("ndmv4", 9, 70),
        ("torch-bandwidth", 5, 5),
        ("nc48v4-no-graph-file", 1, 62),
    ],
)
def test_the_catalogue_has_every_sweep_offline(name: str, sweeps: int, cases: int) -> None:
    records = catalogue.load(name)
    assert (len(records), sum(len(record.cases) for record in records)) == (sweeps, cases)


def test_every_entry_says_where_it_comes_from() -> None:
    for name in ENTRIES:
        source = catalogue.load(name)[0].run.source
        assert source is not None and source.file
        assert name in catalogue.describe(name)


def test_the_graph_file_costs_nc48v4_a_factor_of_about_four() -> None:
    def largest(name: str) -> Case:
        return max(catalogue.load(name)[0].cases, key=lambda case: case.bytes)

    with_file, without = largest("nc48v4-graph-file"), largest("nc48v4-no-graph-file")
    assert with_file.time_us and without.time_us
    assert 3.5 < with_file.time_us / without.time_us < 4.5


def test_an_unknown_entry_is_a_sentence_that_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="no entry 'nc12'; it has nc96v4-graph-file"):
        catalogue.load("nc12")
