"""nccl.conf is read as NCCL reads it, which trims nothing and never overrides."""

from __future__ import annotations

import pytest

from busbw.machine.nccl.conf import Origin, in_force, read_conf


def test_comments_and_empty_lines_set_nothing_and_values_keep_their_equals_signs() -> None:
    conf = read_conf("# NCCL_A=1\n\nNCCL_B=x=y\n", "c")
    assert [(each.name, each.value, each.line) for each in conf.entries] == [("NCCL_B", "x=y", 3)]
    assert conf.problems == ()


@pytest.mark.parametrize(
    ("line", "says", "sets"),
    [
        ("NCCL_ALGO = Ring", "becomes part of its name", False),
        ("export NCCL_ALGO=Ring", "'export' becomes part of the name", False),
        ("  # NCCL_ALGO=Ring", "does not begin in the first column", False),
        ("NCCL_ALGO Ring", "has no =", False),
        ("2=3", "is no name", False),
        ("NCCL_ALGO=Ring ", "white space around the value", True),
        ("NCCL_ALGO='Ring'", "the quotes become part", True),
        ("NCCL_ALGO=" + "x" * 2000, "is cut after 1023", True),
    ],
)
def test_lines_that_nccl_reads_otherwise_than_meant_are_named(line: str, says: str, sets: bool) -> None:
    conf = read_conf(f"NCCL_DEBUG=WARN\n{line}\n", "c")
    [problem] = conf.problems
    assert says in problem.text and problem.line == 2
    assert len(conf.entries) == 1 + sets


def test_the_environment_wins_then_the_first_file_and_the_losers_are_kept() -> None:
    user, host = read_conf("NCCL_ALGO=Tree\nNCCL_PROTO=LL\n", "user"), read_conf("NCCL_ALGO=Ring\nNCCL_X=1\n", "host")
    found = in_force({"NCCL_PROTO": "Simple"}, [user, host])
    assert {name: each.value for name, each in found.items()} == {
        "NCCL_PROTO": "Simple", "NCCL_ALGO": "Tree", "NCCL_X": "1",
    }  # fmt: skip
    assert found["NCCL_ALGO"].hidden == (("Ring", Origin("host", 1, conf=True)),)
    assert found["NCCL_PROTO"].hidden == (("LL", Origin("user", 2, conf=True)),)


def test_a_file_of_windows_keeps_its_carriage_returns_in_the_values() -> None:
    found = read_conf("# all\r\nNCCL_ALGO=Ring\r\n\r\nNCCL_PROTO=LL\n", "nccl.conf")
    assert [(entry.name, entry.value, entry.line) for entry in found.entries] == [
        ("NCCL_ALGO", "Ring\r", 2),
        ("NCCL_PROTO", "LL", 4),
    ]
    assert [problem.line for problem in found.problems] == [2] and "carriage return" in found.problems[0].text
