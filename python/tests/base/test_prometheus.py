"""Metrics are valid text of Prometheus' format whatever names hold, and a file of them is never half written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.base.prometheus import Family, exposition, write_exposition

LINE = re.compile(r'[a-z_]+(\{([a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? [-+0-9.einfa]+')


def test_the_text_is_as_the_format_says() -> None:
    text = exposition(
        [Family("busbw_a", "gauge", "What it is.", [({"node": "n1", "kind": "x"}, 0.25), ({}, 12345678)])]
    )
    assert text == (
        '# HELP busbw_a What it is.\n# TYPE busbw_a gauge\nbusbw_a{node="n1",kind="x"} 0.25\nbusbw_a 12345678\n'
    )


def test_hostile_names_stay_within_their_label() -> None:
    text = exposition([Family("busbw_a", "gauge", "It.", [({"node": 'x"} 1\nbusbw_b{y="\\'}, 1.0)])])
    (line,) = [each for each in text.split("\n") if each and not each.startswith("#")]
    assert LINE.fullmatch(line), line


def test_the_file_is_replaced_at_once_and_for_the_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "busbw.prom"
    for value in (1.0, 2.0):
        write_exposition(file, [Family("busbw_a", "gauge", "It.", [({}, value)])])
    assert file.read_text().endswith("busbw_a 2\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(UserError, match="cannot be written"):
        write_exposition(tmp_path / "no" / "x", [])
