"""A record goes where the user said, and an unused folder does not stay behind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.runs.destination import Destination, new_run_id, runs_directory


def test_the_option_wins_over_the_variable_and_that_over_the_users_data_folder(tmp_path: Path) -> None:
    environ = {"BUSBW_RUNS": "/b", "XDG_DATA_HOME": "/x", "HOME": "/h"}
    assert runs_directory("/a", environ) == Path("/a")
    assert runs_directory(None, environ) == Path("/b")
    assert runs_directory(None, {"XDG_DATA_HOME": "/x", "HOME": "/h"}) == Path("/x/busbw/runs")
    assert runs_directory(None, {"XDG_DATA_HOME": "x", "HOME": "/h"}) == Path("/h/.local/share/busbw/runs")
    assert runs_directory(None, {"HOME": "/h"}) == Path("/h/.local/share/busbw/runs")


def test_a_run_id_begins_with_its_time_and_names_the_host() -> None:
    run_id = new_run_id("node 7.example.org", seconds=0)
    assert re.fullmatch("19700101T000000Z-node-7-[0-9a-f]{6}", run_id)
    assert new_run_id("n", 0) != new_run_id("n", 0)


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
