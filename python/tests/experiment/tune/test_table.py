"""The text of a table is what the library reads, and a new tuning leaves alone what it says nothing about."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.base.errors import UserError
from busbw.base.files import replace_text
from busbw.experiment.tune.table import Rule, default_path, merged, parse_table, read_table, table_text

SHARED = Path(__file__).parents[4] / "library" / "tests" / "gpu" / "tuned-table.txt"

RULES = st.builds(
    Rule,
    st.sampled_from(["all_reduce", "all_gather", "broadcast"]),
    st.sampled_from(["nccl", "two_shot/ll", "one_shot/ll@16x128"]),
    st.none() | st.integers(2, 8),
    st.sampled_from([(), ("float",), ("half", "bfloat16", "float")]),
    st.integers(0, 2**40),
    st.none() | st.integers(2**40, 2**64 - 1),
    st.sampled_from(["any", "NVIDIA H200"]),
    st.sampled_from(["", "beside", "windows"]),
)


def test_the_table_that_the_library_is_tested_with_is_what_this_writes() -> None:
    alike = ("half", "bfloat16", "float")
    rules = [
        Rule("all_reduce", "one_shot/ll@16x128", 4, alike, 0, 92681, "NVIDIA H200"),
        Rule("all_reduce", "two_shot/sentinel", 4, alike, 92682, 1 << 20, "NVIDIA H200"),
        Rule("all_gather", "nccl", 4, (), 0, 1 << 28, "NVIDIA H200"),
        Rule("broadcast", "direct/ll"),
    ]
    remark = "Written by `busbw tune`; a line is a rule, the first that fits holds."
    assert table_text(rules, [remark]) == SHARED.read_text()
    assert read_table(SHARED) == rules


@settings(deadline=None)
@given(st.lists(RULES, max_size=10))
def test_what_is_written_is_read(rules: list[Rule]) -> None:
    assert parse_table(table_text(rules, ["a remark"]), "t") == rules


@settings(deadline=None)
@given(st.text(max_size=200))
def test_whatever_a_table_holds_is_read_or_refused_in_a_sentence(text: str) -> None:
    try:
        rules = parse_table("busbw-table 1\n" + text, "t")
    except UserError as problem:
        assert str(problem).startswith("t:")
    else:
        assert all(isinstance(rule, Rule) for rule in rules)


def test_what_is_no_table_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("shopping list\n")
    with pytest.raises(UserError, match="notes is no table of algorithms"):
        read_table(path)
    path.write_text("busbw-table 1\nall_reduce ranks=99 nccl\n")
    with pytest.raises(UserError, match="notes:2: 'all_reduce ranks=99 nccl' is no rule"):
        read_table(path)
    assert read_table(tmp_path / "absent") == []


def test_rules_about_something_else_stay() -> None:
    two = Rule("all_reduce", "one_shot/ll", 2)
    beside = Rule("all_reduce", "staged/copy", 4, calls="beside")
    old = [Rule("all_reduce", "two_shot/ll", 4), two, Rule("all_gather", "nccl", 4), beside]
    new = [Rule("all_reduce", "nccl", 4)]
    assert merged(old, new) == [new[0], two, old[2], beside]


def test_the_old_name_of_calls_beside_work_is_read_as_the_new_one() -> None:
    (rule,) = parse_table("busbw-table 1\nall_reduce calls=gradients nccl\n", "t")
    assert rule.calls == "beside"


def test_a_table_is_saved_whole_in_a_folder_that_may_not_be_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "busbw" / "gpu-table.txt"
    replace_text(path, "busbw-table 1\n")
    assert path.read_text() == "busbw-table 1\n"
    assert [each.name for each in path.parent.iterdir()] == ["gpu-table.txt"]
    with pytest.raises(UserError, match="cannot be written"):
        replace_text(path / "below", "x")


def test_the_library_and_this_look_in_the_same_place() -> None:
    assert default_path({"XDG_CONFIG_HOME": "/c"}) == Path("/c/busbw/gpu-table.txt")
    assert default_path({"HOME": "/home/u"}) == Path("/home/u/.config/busbw/gpu-table.txt")
