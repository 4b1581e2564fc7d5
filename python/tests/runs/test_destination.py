"""A record goes where the user said, and an unused folder does not stay behind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.runs.destination import Destination, new_run_id, runs_directory, split_record_options


def test_the_option_wins_over_the_variable_and_that_over_the_users_data_folder(tmp_path: Path) -> None:
    environ = {"BUSBW_RUNS": "/b", "XDG_DATA_HOME": "/x", "HOME": "/h"}
    assert runs_directory("/a", environ) == Path("/a")
    assert runs_directory(None, environ) == Path("/b")
    assert runs_directory(None, {"XDG_DATA_HOME": "/x", "HOME": "/h"}) == Path("/x/busbw/runs")
    assert runs_directory(None, {"HOME": "/h"}) == Path("/h/.local/share/busbw/runs")


def test_a_run_id_begins_with_its_time_and_names_the_host() -> None:
    run_id = new_run_id("node 7.example.org", seconds=0)
    assert re.fullmatch("19700101T000000Z-node-7-[0-9a-f]{6}", run_id)
    assert new_run_id("n", 0) != new_run_id("n", 0)


@pytest.mark.parametrize("spelling", [("--runs", "D"), ("--runs=D",)])
def test_runs_is_taken_out_of_the_engines_words(spelling: tuple[str, ...]) -> None:
    choice = split_record_options(["-b", "8", *spelling, "-e", "16"])
    assert (choice.words, choice.runs, choice.keep) == (("-b", "8", "-e", "16"), "D", True)


@pytest.mark.parametrize("spelling", [("--record", "F"), ("--record=F",)])
def test_a_record_named_by_the_user_is_left_to_the_engine(spelling: tuple[str, ...]) -> None:
    choice = split_record_options(["-b", "8", *spelling])
    assert choice.named == "F"
    assert split_record_options(choice.words).named == "F"


def test_no_record_is_taken_out() -> None:
    choice = split_record_options(["--no-record", "-b", "8"])
    assert (choice.words, choice.keep) == (("-b", "8"), False)


def test_a_missing_value_is_one_sentence() -> None:
    with pytest.raises(UserError, match="--runs needs a value"):
        split_record_options(["--runs"])


def test_an_empty_folder_is_removed_and_one_with_a_record_stays(tmp_path: Path) -> None:
    empty, full = Destination(tmp_path, "empty"), Destination(tmp_path, "full")
    for destination in (empty, full):
        destination.create()
    full.record.write_text("{}\n")
    assert (empty.close(), full.close()) == (False, True)
    assert (empty.folder.exists(), full.folder.exists()) == (False, True)


def test_a_folder_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be made .* --no-record"):
        Destination(tmp_path / "file", "run").create()
