"""Tables in the form of the reference page, in every format, with hostile names as plain text."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from busbw.base.text import clean, columns, shorten, wants_colour
from busbw.cli.main import main
from busbw.records import Case, Library, Record, Run, Tool, save_records

PAGE = """\
### 1 node of 8 GPUs, Standard\\_ND96amsr\\_A100\\_v4, in place

**Latency (us)**

| Message size | NCCL AllGather | NCCL AllReduce | NCCL AllToAll | MSCCL AllToAll LL | MSCCL AllToAll LL128 \
| MSCCL AllToAll Simple | MSCCL++ AllGather K0 | MSCCL++ AllGather K1 | MSCCL++ AllGather K2 | MSCCL++ AllReduce |
|:---:|:---:|:---:|:---:|:---:|:---:|:---:|:---:|:---:|:---:|:---:|
| 1 KiB | **12.53** | **16.96** | 9.34 | **7.76** | 21.06 | 28.50 | 157.91 | 143.21 | 447.0 | 326.4 |

**BusBW (GB/s)**

| Message size | NCCL AllGather | NCCL AllReduce | NCCL AllToAll | MSCCL AllToAll LL | MSCCL AllToAll LL128 \
| MSCCL AllToAll Simple | MSCCL++ AllGather K0 | MSCCL++ AllGather K1 | MSCCL++ AllGather K2 | MSCCL++ AllReduce |
|:---:|:---:|:---:|:---:|:---:|:---:|:---:|:---:|:---:|:---:|:---:|
| 1 GiB | **253.59** | **231.45** | **254.69** | 217.05 | 216.98 | 217.15 | 125.06 | **255.64** | 124.89 | 22.55 |
"""


def make(path: Path, name: str, library: str, speed: float = 1.0) -> str:
    cases = tuple(
        Case(name, i, "all_reduce", 1 << power, "in_place", "measured", 10.0 / speed, 1.0, 50.0 * speed, type="float",
             op="sum", ranks=2, batches_us=(tuple(time / speed for time in (9.0, 10.0, 10.0, 10.0, 11.0)),))
        for i, power in enumerate(range(3, 31))
    )  # fmt: skip
    save_records([Record(Run(name, None, Tool("busbw"), Library(library)), cases)], path)
    return str(path)


def test_the_ndmv4_page_comes_out_as_it_is_published(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "catalogue:ndmv4-1x8", "--format", "md"]) == 0
    assert capsys.readouterr().out.startswith(PAGE)


def test_missing_figures_are_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "catalogue:ndmv4-2x8", "--format", "md", "--bandwidth-sizes", "4G"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("| 4 GiB"))
    assert "| 37.81 | - | - | - | 44.60 | - | **234.08** |" in row


def test_the_text_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    for source in ("catalogue:ndmv4-1x8", "catalogue:nc48v4", "catalogue:ncv4"):
        assert main(["report", source]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80, source
        assert any("*" in line for line in lines)


def test_csv_and_json_hold_every_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [make(tmp_path / "a", "a", "A"), make(tmp_path / "b", "b", "=cmd()", 2.0)]
    assert main(["report", *files, "--format", "csv", "--every"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 56
    assert {row["column"] for row in rows} == {"A", "'=cmd()"}, "a spreadsheet must not run a name"
    assert main(["report", *files, "--format", "json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert {(row["bytes"], row["value"], row["best"]) for row in table if row["column"] == "=cmd()"} >= {(8, 5.0, True)}


def test_a_figure_is_the_published_one_to_its_last_digit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "catalogue:ndmv4-2x8", "--format", "csv"]) == 0
    values = {row["value"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    assert {"177.05", "183.82", "37.81", "234.08"} <= values


def test_a_sweep_shows_its_largest_size_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "catalogue:v100-2gpu", "--format", "json"]) == 0
    sizes = {row["bytes"] for row in json.loads(capsys.readouterr().out) if row["quantity"].startswith("BusBW")}
    assert sizes == {1 << 20, 128 << 20, 1 << 30, 2 << 30}


def test_what_differs_is_said_once_for_the_runs_that_share_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "catalogue:ndmv4-1x8", "--format", "md"]) == 0
    text = capsys.readouterr().out
    assert text.count("eth0") == 1
    notes = next(line for line in text.splitlines() if "eth0" in line)
    assert notes.startswith("- NCCL, MSCCL: library file") and "; MSCCL++: library file not known" in notes


def test_entries_of_a_group_keep_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "catalogue:nc48v4", "--format", "json", "--every"]) == 0
    assert {row["run"] for row in json.loads(capsys.readouterr().out)} == {"nc48v4-graph-file", "nc48v4-no-graph-file"}


def test_the_expected_bandwidth_is_that_of_the_thresholds_or_the_published_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = tmp_path / "limits.toml"
    limits.write_text('[[threshold]]\ncollective = "all_reduce"\nbytes = "1M"\nmin_busbw_GBps = 77\n')

    def expected(*words: str) -> dict[int, float]:
        assert main(["report", "catalogue:nc48v4-graph-file", "--format", "json", "--every", *words]) == 0
        rows = json.loads(capsys.readouterr().out)
        return {row["bytes"]: row["expected_GBps"] for row in rows if row["expected_GBps"] is not None}

    assert expected("--thresholds", str(limits)) == {1 << 20: 77}
    published = expected()
    assert set(published) == {64 << 20, 1 << 30, 8 << 30} and 200 < published[8 << 30] < 230


@pytest.mark.parametrize("kind", ["md", "html", "text", "svg"])
def test_hostile_names_stay_text(kind: str, tmp_path: Path) -> None:
    if kind == "svg":
        pytest.importorskip("matplotlib")
    hostile = "<script>x</script>|$\\frac{$\x1b[31m\n# heading"
    files = [make(tmp_path / "a", "a", hostile), make(tmp_path / "b", "b", "B")]
    output = tmp_path / f"report.{kind}"
    assert main(["report", *files, "--format", kind, "-o", str(output), "--title", hostile]) == 0
    text = output.read_text()
    assert "\x1b" not in text
    if kind != "text":
        assert "<script>x" not in text
    if kind == "md":
        assert all(line.count("|") - line.count("\\|") in (0, 5) for line in text.splitlines())


def test_a_png_is_a_png_and_the_same_runs_give_the_same_svg(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    source = make(tmp_path / "a", "a", "A")
    assert main(["report", source, "-o", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    for name in ("1.svg", "2.svg"):
        assert main(["report", source, "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()


def test_without_matplotlib_a_picture_ends_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert main(["report", make(tmp_path / "a", "a", "A"), "-o", str(tmp_path / "a.png")]) == 1
    assert "-m pip install matplotlib" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "x.docx"], "names no format"),
        (["--names", "a,b"], "2 names for 1 runs"),
        (["--latency-sizes", "1X"], "is no size"),
        (["-o", "/nowhere/at/all.html"], "cannot be written"),
    ],
)
def test_a_mistake_is_named(words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", make(tmp_path / "a", "a", "A"), *words]) != 0
    assert said in capsys.readouterr().err


def test_columns_align_wide_characters() -> None:
    assert columns(["a", "b"], [["漢字", "1"], ["x", "22"]], left=(0,)) == ["a      b", "漢字   1", "x     22"]


def test_names_are_cut_in_the_middle_and_cleaned() -> None:
    assert shorten("abcdefghijklmnop", 10) == "abcd..mnop"
    assert clean("a\x1b[31m\nb") == "a\ufffd[31m\ufffdb"


def test_colour_needs_a_terminal_and_no_objection() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert wants_colour(Terminal(), {})
    assert not wants_colour(io.StringIO(), {})
    assert not wants_colour(Terminal(), {"NO_COLOR": "1"})
    assert not wants_colour(Terminal(), {"TERM": "dumb"})
