"""`busbw predict` as a user types it."""

from __future__ import annotations

import json
import sys

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


def test_limits_take_the_gpus_of_a_node_that_are_asked_for(capsys):
    assert main(["predict", "--limits", "--machine", "dgx-h100", "--gpus-per-node", "4", "--nodes", "16"]) == 0
    said = capsys.readouterr().out
    assert "16 x 4" in said and "16 x 8" not in said and "16 x 2" not in said
    assert main(["predict", "--limits", "--machine", "dgx-h100", "--gpus-per-node", "9"]) == 2
    assert main(["predict", "--limits", "--machine", "dgx-h100", "--gpus-per-node", "1"]) == 2


def test_an_algorithm_that_a_clouds_guide_prescribes_is_told_with_its_rate(capsys):
    words = ["predict", "all_reduce", "--sizes", "8G", "--machine"]
    assert main([*words, "a3-high", "--nodes", "2"]) == 0
    assert "With it large all-reduces get 76.0 GB/s" in " ".join(capsys.readouterr().out.split())
    assert main([*words, "a3-high", "--nodes", "1"]) == main([*words, "a3-mega", "--nodes", "2"]) == 0
    assert "prescribes" not in capsys.readouterr().out


def test_another_network_than_the_machine_types_counts(capsys):
    words = ["predict", "all_reduce", "--machine", "ndv4", "--nodes", "2", "--sizes", "8G", "--json"]
    assert main([*words, "--nics", "1", "--nic-gbps", "100", "--net", "RoCE"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["predictions"]
    assert 11 < row["busbw_GBps"] < 12.5 * 2 * 15 / 16  # a tree between two nodes crosses once in each direction


def test_a_matrix_is_asked_for_its_gpus(tmp_path, capsys):
    rows = "\n".join(f"GPU{i}  " + "  ".join("X" if i == j else "NV18" for j in range(4)) for i in range(4))
    (tmp_path / "m.txt").write_text(f"      GPU0 GPU1 GPU2 GPU3\n{rows}\n")
    words = ["predict", "all_reduce", "--topology", f"{tmp_path}/m.txt", "--sizes", "1G"]
    assert main(words) == 2
    assert "NV18 between them, but not which GPUs they are" in capsys.readouterr().err
    assert main([*words, "--gpu", "H100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["machine"] == "4 x H100"
    assert main([*words, "--gpu", "MI300X"]) == 2
    assert "GPUs of AMD" in capsys.readouterr().err
    assert main([*words, "--gpu", "Voodoo2"]) == 2
    assert "is no GPU that is known" in capsys.readouterr().err


def test_nvlinks_that_a_file_leaves_to_the_driver_are_those_of_a_whole_board(tmp_path, capsys):
    buses = "".join(f'<pci busid="000{i}:00:00.0" class="0x030200"/>' for i in range(1, 9))
    (tmp_path / "t.xml").write_text(f'<system version="1"><cpu numaid="0">{buses}</cpu></system>')
    assert (
        main(["predict", "all_gather", "--topology", f"{tmp_path}/t.xml", "--gpu", "A100", "--sizes", "1G", "--json"])
        == 0
    )
    said = capsys.readouterr()
    assert "the 12 of a whole A100 are counted on" in said.err
    assert json.loads(said.out)["predictions"][0]["busbw_GBps"] == pytest.approx(235, rel=0.1)


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
        (["all_reduce", "--machine", "ndv44"], "nearest are ndv4"),
        (["all_reduce", "--machine", "ndv4", "--topology", "x"], "give one of them"),
        (["all_reduce", "--machine", "ndv4", "--nodes", "0"], "numbers from 1 on"),
        (["all_reduce", "--machine", "ndv4", "--nics", "-1"], "must be at least 1"),
        (["all_reduce", "--machine", "ndv4", "--sizes", "big"], "no size"),
        (["all_reduce", "--machine", "ndv4", "--gpus-per-node", "9"], "8 GPUs a node"),
        (["all_reduce", "--machine", "h200-x4", "--nodes", "2"], "--nics"),
        (["all_reduce", "--machine", "ndv4", "--from", "catalogue:ndv4"], "one is expected"),
    ],
)
def test_a_mistake_is_one_sentence(capsys, words, said):
    assert main(["predict", *words]) in {1, 2}
    assert said in capsys.readouterr().err


def test_limits_are_shown_by_collective_and_algorithm(capsys):
    assert main(["predict", "--limits", "--machine", "dgx-h100", "--nodes", "1,2"]) == 0
    said = capsys.readouterr().out
    rows = [line.split()[:2] for line in said.splitlines()]
    for row in (["all_reduce", "ring"], ["all_reduce", "tree"], ["all_reduce", "NVLS"], ["alltoall", "direct"]):
        assert row in rows
    assert all(len(line) <= 80 for line in said.splitlines())


GPU_RECORD = r"""
import json, sys
ranks = [{"rank": i, "host": "h", "device": {"kind": "gpu", "index": i, "name": "NVIDIA H200", "bus_id": None}}
         for i in range(4)]
case = {"schema": 1, "kind": "case", "run": "r", "case": 0, "collective": "all_reduce", "bytes": 1 << 30, "ranks": 4,
        "placement": "out_of_place", "outcome": "measured", "time_us": 4534.0, "algbw_GBps": 236.8, "busbw_GBps": 355.2}
run = {"schema": 1, "kind": "run", "run": "r", "started": None, "tool": {"name": "busbw", "version": "0"},
       "library": None, "ranks": ranks, "environment": {"NCCL_NVLS_ENABLE": "0"}}
end = {"schema": 1, "kind": "end", "run": "r", "outcome": "completed", "cases": 1}
print("the table")
with open(sys.argv[sys.argv.index("--record") + 1], "w") as stream:
    for line in (run, case, end):
        print(json.dumps(line, separators=(",", ":")), file=stream)
"""


@pytest.mark.parametrize("named", [False, True])
def test_a_run_on_gpus_ends_with_one_line_about_what_was_expected(capfd, tmp_path, monkeypatch, named):
    (tmp_path / "engine.py").write_text(GPU_RECORD)
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {tmp_path / "engine.py"} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("BUSBW_ENGINE", str(program))
    words = ["--record", str(tmp_path / "named.jsonl")] if named else []
    assert main(["all_reduce", "-b", "1G", *words]) == 0
    said = capfd.readouterr().out.splitlines()
    assert said[0] == "the table"
    assert said[1].startswith("# Expected: 101% of the 351 GB/s expected at 1 GiB (range 315 to 375, 4 x NVIDIA H200)")


@pytest.mark.parametrize("content", [b"", b"nothing", b'<system version="1"><cpu numaid="0">', b"<system>\xff"])
def test_a_topology_that_cannot_be_read_ends_with_2_as_with_topo_and_doctor(tmp_path, capsys, content):
    (tmp_path / "t.xml").write_bytes(content)
    file = f"{tmp_path}/t.xml"
    for words in (["predict", "all_reduce", "--topology", file], ["topo", file], ["doctor", "--topology", file]):
        assert main(words) == 2, words
    assert main(["predict", "all_reduce", "--machine", "nc40v5", "--nodes", "2"]) == 2
    capsys.readouterr()


@pytest.mark.parametrize(
    ("gpus", "links", "name", "says"),
    [
        (8, 99, "H100", "shows 99 NVLinks of a GPU, and H100 has 18"),
        (8, 18, "A100", "shows 18 NVLinks of a GPU, and A100 has 12"),
        (8, 18, "H100 PCIe", "NVLinks through a switch, and H100 PCIe has bridges from board to board alone"),
        (2, 18, "L40S", "L40S has none"),
        (2, 12, "RTX 3090", "RTX 3090 has 4"),
        (8, 18, "H100", ""),
        (8, 12, "H100", ""),  # some may be down
        (2, 12, "H100 PCIe", ""),
        (2, 4, "RTX 3090", ""),
    ],
)
def test_gpus_that_the_matrix_cannot_show_are_refused(tmp_path, capsys, gpus, links, name, says):
    cells = "\n".join(
        f"GPU{i}  " + "  ".join("X" if i == j else f"NV{links}" for j in range(gpus)) for i in range(gpus)
    )
    (tmp_path / "m.txt").write_text("  ".join(["", *(f"GPU{i}" for i in range(gpus))]) + f"\n{cells}\n")
    words = ["predict", "all_reduce", "--topology", f"{tmp_path}/m.txt", "--gpu", name, "--sizes", "1G"]
    assert main(words) == (2 if says else 0)
    assert says in capsys.readouterr().err


def test_a_bridge_of_two_rtx_3090_carries_half_of_112_gigabytes_at_most(tmp_path, capsys):
    (tmp_path / "m.txt").write_text("      GPU0  GPU1\nGPU0  X  NV4\nGPU1  NV4  X\n")
    words = ["predict", "all_reduce", "--topology", f"{tmp_path}/m.txt", "--gpu", "RTX 3090", "--sizes", "1G", "--json"]
    assert main(words) == 0
    (row,) = json.loads(capsys.readouterr().out)["predictions"]
    assert 35 < row["busbw_GBps"] < 56.25


def test_what_the_file_shows_beyond_the_figures_is_said_and_stands_in_the_json(tmp_path, capsys):
    gpus = "".join(
        f'<pci busid="000{i}:00:00.0" class="0x030200"><gpu dev="{i}" sm="90" gdr="0"><nvlink '
        f'target="fffffff:ff:ff.0" count="18" tclass="0x068000"/></gpu></pci><pci busid="001{i}:00:00.0" '
        f'class="0x020700"><nic><net name="mlx5_{i}" speed="400000" guid="0x{i + 9}"/></nic></pci>'
        for i in range(2)
    )
    (tmp_path / "t.xml").write_text(f'<system version="1"><cpu numaid="0">{gpus}</cpu></system>')
    words = ["predict", "all_reduce", "--topology", f"{tmp_path}/t.xml", "--sizes", "1G"]
    assert main([*words, "--nodes", "2", "--json"]) == 0
    assert "gdr=0 is marked of" in json.loads(capsys.readouterr().out)["notes"][0]
    assert main([*words, "--limits", "--nodes", "2"]) == 0
    assert "gdr=0 is marked of" in capsys.readouterr().out
    # One node has no network to go through the host for.
    assert main([*words, "--nodes", "1"]) == 0
    assert "gdr" not in capsys.readouterr().out
