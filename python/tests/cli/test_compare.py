"""`busbw compare` end to end: files in, 80 columns out, one sentence for every mistake."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.records import Case, Library, Record, Run, Tool, save_records


def record(name: str, factor: float = 1.0, ranks: int = 2, host: str = "\x1b[31mred") -> Record:
    cases = tuple(
        Case(name, i, "all_reduce", 8 << i, "in_place", "measured",
             (9 + (8 << i) / 1e4) * (factor if i > 6 else 1), 1.0, 1.0, type="float", op="sum", ranks=ranks)
        for i in range(20)
    )  # fmt: skip
    return Record(Run(name, None, Tool("busbw"), Library("NCCL", version="2.28"), environment={"NCCL_X": host}), cases)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    paths = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    save_records([record("a", 4.0)], paths[0])
    save_records([record("b", host="plain")], paths[1])
    return str(paths[0]), str(paths[1])


def test_the_text_fits_80_columns_and_carries_no_escape_sequence(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *files]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    assert "- Up to 512 B no difference" in text
    assert "- From 1 KiB up B is 4.0 times as fast." in text
    assert "NCCL_X" in text.split("all_reduce")[0], "differences come first"
    assert "One sample each: no interval." in text


def test_json_says_the_same(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--json", *files]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["sweeps"][0]["summary"][1] == "from 1 KiB up B is 4.0 times as fast"
    assert len(found["sweeps"][0]["cases"]) == 20


def test_unlike_shapes_end_in_one_sentence(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_records([record("c", ranks=4)], tmp_path / "c.jsonl")
    assert main(["compare", files[0], str(tmp_path / "c.jsonl")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1 and "ranks: 2 against 4" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "a"], "neither a file nor"),
        (["a"], "comparing needs two"),
        (["a#7", "a"], "there is no"),
        (["a", "b", "--sizes", "2M-1K"], "ends before it begins"),
        (["a", "b", "--margin", "x"], "takes a number"),
    ],
)
def test_a_mistake_is_named(
    words: list[str], said: str, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    paths = {"a": files[0], "b": files[1], "a#7": f"{files[0]}#7"}
    assert main(["compare", *(paths.get(word, word) for word in words)]) != 0
    assert said in capsys.readouterr().err


def test_the_reference_page_is_concluded_as_its_author_did(capsys: pytest.CaptureFixture[str]) -> None:
    """The page: without the graph file NC96v4 shows no difference, and NC48v4 has 4 times the bandwidth."""
    assert main(["compare", "catalogue:nc48v4-graph-file", "catalogue:nc48v4-no-graph-file", "--no-table"]) == 0
    text = capsys.readouterr().out
    assert "NCCL_GRAPH_FILE" in text.split("all_reduce")[0]
    assert "- At the largest sizes (2 GiB to 8 GiB) B is 3.9 times as fast." in text
    assert "- Up to 32 KiB no difference" in text
    assert main(["compare", "catalogue:nc96v4", "--no-table"]) == 0
    text = capsys.readouterr().out
    assert text.count("- At all 31 sizes (8 B to 8 GiB) no difference") == 2
    assert "times as fast" not in text


def test_published_machines_of_different_size_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "catalogue:nc48v4-graph-file", "catalogue:nc96v4-graph-file"]) == 1
    assert "ranks: 2 against 4" in capsys.readouterr().err


def test_files_that_are_no_runs_end_in_one_sentence(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 64)
    (tmp_path / "cut").write_bytes(Path(files[0]).read_bytes()[:90])
    (tmp_path / "folder").mkdir()
    (tmp_path / "newer").write_text('{"schema":99,"kind":"run","run":"x"}\n')
    for name in ("pipe", "empty", "binary", "cut", "folder", "newer"):
        assert main(["compare", str(tmp_path / name), files[1]]) == 1, name
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and name in said, said
