"""The five published pages, rebuilt by the five commands of the guide: every figure equal, none missing."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.cli.sources import resolve
from busbw.records import Case
from busbw.records.bandwidth import Gbps_from_GBps

ROOT = Path(__file__).parents[3]
PAGES = Path(os.environ.get("BUSBW_REFERENCE", ROOT.parent / "shared" / "reference"))
QUANTITIES = {
    "Latency (us)": "time",
    "AlgBW (GB/s)": "algbw",
    "BusBW (GB/s)": "busbw",
    "Algo throughput (Gbps)": "throughput",
}
PLACEMENTS = ("out of place", "in place")
WITH, WITHOUT = "with NCCL_GRAPH_FILE", "without NCCL_GRAPH_FILE"
# The sweeps of each page in their order: what a title must hold, and the column.
NCCL_TESTS = {
    "ncv4-slurm-nccl.md": [("NC96ads", WITH), ("NC96ads", WITHOUT), ("NC48ads", WITH), ("NC48ads", WITHOUT)],
    "nccl-notes.md": [
        ("NC12s_v3", "1 node of 1 GPU"),
        ("NC12s_v3", "1 node of 2 GPUs, without NCCL_P2P_LEVEL"),
        ("NC12s_v3", "1 node of 2 GPUs, with NCCL_P2P_LEVEL=NVL"),
    ],
    "aml-nccl-test.md": [("ND96asr_v4", "1 node of 8 GPUs"), ("ND96asr_v4", "2 nodes of 8 GPUs")],
}
TITLES = {
    "ncv4-slurm-nccl.md": "Azure NCCL Test on NCv4", "nccl-notes.md": "Notes on NCCL",
    "aml-nccl-test.md": "AML_NCCL_Test",
    "bandwidth-tests.md": "Bandwidth tests", "ndmv4-mscclpp-performance.md": "NDmv4 Performance",
}  # fmt: skip
CLUSTERS = ["1 node of 4 GPUs, V100, 16gb", "1 node of 4 GPUs, V100, 32gb", "16 nodes of 4 GPUs, V100 32GB",
            "4 nodes, V100 32GB", "4 nodes, A100 80GB"]  # fmt: skip
KERNELS = ["NCCL AllGather", "NCCL AllReduce", "NCCL AllToAll", "MSCCL AllToAll LL", "MSCCL AllToAll LL128",
           "MSCCL AllToAll Simple", "MSCCL++ AllGather K0", "MSCCL++ AllGather K1", "MSCCL++ AllGather K2",
           "MSCCL++ AllReduce"]  # fmt: skip

Figures = Mapping[tuple[str, str, str, str], str]
"""By title, quantity, column and size, as printed."""


def guide(page: str) -> list[str]:
    """The words of the guide's command for a page, after `busbw`."""
    text = (ROOT / "docs" / "guide" / "reports.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(TITLES[page])} \| `busbw ([^`]+)` \|$", text, re.MULTILINE)
    assert found, f"the guide has no command for {page}"
    return shlex.split(found[1])


def rebuilt(page: str, capsys: pytest.CaptureFixture[str]) -> Figures:
    """What the command prints, read as Markdown and without a look at the model that it came from."""
    assert main(guide(page)) == 0
    title, quantity, columns, found = "", "", [], {}
    for line in capsys.readouterr().out.splitlines():
        cells = [cell.strip().replace("\\", "") for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if line.startswith("### "):
            title = line[4:].replace("\\", "")
        elif line.startswith("**"):
            quantity = QUANTITIES[line.strip("*")]
        elif cells and cells[0] == "Message size":
            columns = cells[1:]
        elif cells and not cells[0].startswith(":"):
            for column, cell in zip(columns, cells[1:], strict=True):
                found[title, quantity, column, cells[0].replace(" ", "")] = cell.replace("**", "")
    return found


def at(figures: Figures, where: str, quantity: str, column: str, size: str) -> str:
    matches = [text for (title, *rest), text in figures.items() if where in title and rest == [quantity, column, size]]
    assert len(matches) == 1, (where, quantity, column, size)
    return matches[0]


def label(size: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size}{unit}"
        size //= 1024
    return f"{size}GiB"


def sweeps_of(page: str) -> list[list[list[str]]]:
    """The rows of each sweep, split at blanks: nothing of busbw reads the page here."""
    path = PAGES / page
    if not path.exists():
        pytest.skip(f"{path} is not here; BUSBW_REFERENCE names the folder")
    sweeps: list[list[list[str]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if re.match(r"\s*\d+\s+\d+\s+float\s+sum\s", line):
            if words[0] == "8":
                sweeps.append([])
            sweeps[-1].append(words)
    return sweeps


def expected_rows(cases: Sequence[Case]) -> list[list[str]]:
    """The same rows from the catalogue, for where the page itself is not at hand."""
    by: dict[int, dict[str, Case]] = {}
    for case in cases:
        by.setdefault(case.bytes, {})[str(case.placement)] = case
    found = []
    for size, both in by.items():
        figures = [
            str(figure)
            for case in (both["out_of_place"], both["in_place"])
            for figure in (case.time_us, case.algbw_GBps, case.busbw_GBps, 0)
        ]
        found.append([str(size), "", "", "", "", *figures])
    return found


def check(figures: Figures, sweeps: Sequence[list[list[str]]], where: Sequence[tuple[str, str]]) -> int:
    checked = 0
    for (title, column), rows in zip(where, sweeps, strict=True):
        for words in rows:
            for start, placement in zip((5, 9), PLACEMENTS, strict=True):
                for quantity, text in zip(("time", "algbw", "busbw"), words[start : start + 3], strict=True):
                    shown = at(figures, title, quantity, f"{column}, {placement}", label(int(words[0])))
                    if column == "1 node of 1 GPU" and quantity == "busbw":
                        assert float(text) == 0 and shown == "-", "one GPU has no bus bandwidth"
                    else:
                        assert float(shown) == float(text), (title, column, placement, quantity, words)
                    checked += 1
    return checked


@pytest.mark.parametrize("page", NCCL_TESTS)
def test_a_page_of_nccl_tests_is_rebuilt_from_the_catalogue(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = guide(page)
    records = [each.record for each in resolve([words[1]], by_variant=False)]
    sweeps = [expected_rows(record.cases) for record in records]
    assert check(rebuilt(page, capsys), sweeps, NCCL_TESTS[page]) == 6 * sum(map(len, sweeps)) > 0


@pytest.mark.parametrize(
    ("page", "figures"), [("ncv4-slurm-nccl.md", 744), ("nccl-notes.md", 522), ("aml-nccl-test.md", 372)]
)
def test_a_page_of_nccl_tests_is_rebuilt_as_it_was_published(
    page: str, figures: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(rebuilt(page, capsys), sweeps_of(page), NCCL_TESTS[page]) == figures


def test_the_page_of_throughputs_is_rebuilt(capsys: pytest.CaptureFixture[str]) -> None:
    figures = rebuilt("bandwidth-tests.md", capsys)
    shown = [at(figures, "AllReduce", "throughput", column, "4GB") for column in CLUSTERS]
    cases = [each.record.cases[0] for each in resolve(["catalogue:torch-bandwidth"], by_variant=False)]
    for text, case in zip(shown, cases, strict=True):
        rates = case.range.get("algbw_GBps") or (case.algbw_GBps,)
        printed = [round(2 * Gbps_from_GBps(rate), 4) for rate in rates if rate is not None]
        assert [float(part) for part in text.split(" to ")] == printed
    assert at(figures, "AllReduce", "busbw", CLUSTERS[0], "4GB") == "124.63", "83.089 x 2 x 3 / 4, worked out"
    if not (PAGES / "bandwidth-tests.md").exists():
        pytest.skip("the page is not here; BUSBW_REFERENCE names the folder")
    page = (PAGES / "bandwidth-tests.md").read_text(encoding="utf-8")
    published = re.findall(r"algo throughput: ([\d.]+)(?: to ([\d.]+))? Gbps", page)
    assert [[float(part) for part in text.split(" to ")] for text in shown] == [
        [float(part) for part in parts if part] for parts in published
    ]


def test_the_page_of_kernels_is_rebuilt(capsys: pytest.CaptureFixture[str]) -> None:
    figures = rebuilt("ndmv4-mscclpp-performance.md", capsys)
    checked = 0
    for each in resolve(["catalogue:ndmv4"], by_variant=False):
        library = each.record.run.library
        shape = {"1x8": "1 node of 8", "2x1": "2 nodes of 1", "2x8": "2 nodes of 8"}[each.label.split("-")[1]]
        for case in each.record.cases:
            if case.outcome == "measured" and library:
                work = {"all_gather": "AllGather", "all_reduce": "AllReduce", "alltoall": "AllToAll"}[case.collective]
                column = " ".join(part for part in (library.name, work, case.variant) if part)
                quantity, figure = ("time", case.time_us) if case.bytes == 1024 else ("busbw", case.busbw_GBps)
                assert float(at(figures, shape, quantity, column, label(case.bytes))) == figure
                checked += 1
    assert checked == 61
    if not (PAGES / "ndmv4-mscclpp-performance.md").exists():
        pytest.skip("the page is not here; BUSBW_REFERENCE names the folder")
    assert published_kernels(figures) == checked


def published_kernels(figures: Figures) -> int:
    """Every cell of the page against what was rebuilt; a dash is a dash, or a column that is not there."""
    shape, checked = "", 0
    for line in (PAGES / "ndmv4-mscclpp-performance.md").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"### (\d) nodes?, (\d) gpus?/node", line):
            shape = f"{found[1]} node{'s' if found[1] != '1' else ''} of {found[2]}"
        if not re.match(r"\| \d[KG] ", line):
            continue
        size, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        quantity, unit = ("time", "KiB") if "K" in size else ("busbw", "GiB")
        texts = [part.strip().strip("*") for cell in cells for part in cell.split("/")]
        for column, text in zip(KERNELS, texts, strict=True):
            if text != "-":
                assert float(at(figures, shape, quantity, column, f"{size[0]}{unit}")) == float(text)
                checked += 1
            else:
                assert all(
                    shown == "-" for (title, *rest), shown in figures.items()
                    if shape in title and rest == [quantity, column, f"{size[0]}{unit}"]
                )  # fmt: skip
    return checked


@pytest.mark.parametrize("page", NCCL_TESTS)
def test_the_averages_below_the_tables_are_on_the_page_too(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = guide(page)
    (source,) = (word for word in words if word.startswith("catalogue:"))
    expected = [each.record.end.average_busbw_GBps for each in resolve([source]) if each.record.end]
    assert main(words) == 0
    said = re.findall(r"^- Average bus bandwidth of all rows in GB/s.*", capsys.readouterr().out, re.MULTILINE)
    shown = [float(each) for each in re.findall(r" (\d+\.\d+)(?=;|$)", "\n".join(said), re.MULTILINE)]
    assert sorted(shown) == sorted(each for each in expected if each)
