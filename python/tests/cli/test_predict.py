"""`busbw predict` as a user types it."""

from __future__ import annotations

import json

import pytest

from busbw.cli.main import main


def test_sizes_and_nodes_make_rows_within_a_terminals_width(capsys):
    assert main(["predict", "all_reduce", "--machine", "ndv4", "--nodes", "1,2,12500", "--sizes", "1K,1G"]) == 0
    said = capsys.readouterr().out
    assert said.count("1 GiB") == 3
    assert "12500 x 8" in said
    assert all(len(line) <= 80 for line in said.splitlines())


def test_a_run_of_one_node_is_carried_over_to_two(capsys):
    words = ["predict", "all_reduce", "--machine", "ndv4", "--nodes", "2", "--sizes", "8G", "--json"]
    assert main([*words, "--from", "catalogue:ndv4-1node"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["terms"] == "fitted to catalogue:ndv4-1node"
    (row,) = found["predictions"]
    assert row["busbw_GBps"] == pytest.approx(187.67, rel=0.15)
    assert row["busbw_range_GBps"][0] < row["busbw_GBps"] < row["busbw_range_GBps"][1]


def test_another_network_than_the_machine_types_counts(capsys):
    words = ["predict", "all_reduce", "--machine", "ndv4", "--nodes", "2", "--sizes", "8G", "--json"]
    assert main([*words, "--nics", "1", "--nic-gbps", "100", "--net", "RoCE"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["predictions"]
    assert row["busbw_GBps"] < 20


def test_the_list_and_the_check_are_tables(capsys):
    assert main(["predict", "--list"]) == 0
    assert "ndv4" in capsys.readouterr().out
    assert main(["predict", "--check"]) == 0
    assert "ndv4-2node" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--machine", "ndv4"], "say what to predict"),
        (["allreduce", "--machine", "ndv4"], "did you mean all_reduce"),
        (["all_reduce", "--machine", "ndv44"], "did you mean ndv4"),
        (["all_reduce", "--machine", "ndv4", "--topology", "x"], "give one of them"),
        (["all_reduce", "--machine", "ndv4", "--nodes", "0"], "at least one node"),
        (["all_reduce", "--machine", "ndv4", "--nics", "-1"], "positive number"),
        (["all_reduce", "--machine", "ndv4", "--sizes", "big"], "no size"),
        (["all_reduce", "--machine", "ndv4", "--gpus", "9"], "8 GPUs a node"),
        (["all_reduce", "--machine", "h200-x4", "--nodes", "2"], "--nics"),
        (["all_reduce", "--machine", "ndv4", "--from", "catalogue:ndv4"], "one is expected"),
    ],
)
def test_a_mistake_is_one_sentence(capsys, words, said):
    assert main(["predict", *words]) in {1, 2}
    assert said in capsys.readouterr().err
