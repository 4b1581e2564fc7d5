"""What operators and strangers write: node lists, topologies, results; each mistake is one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.base.errors import UsageError, UserError
from busbw.base.files import read_text
from busbw.fleet.fabric import expand, fabric_of
from busbw.fleet.options import Options
from busbw.fleet.pods import read_pods
from busbw.fleet.results import head_line, read, result_line
from busbw.fleet.trial import Outcome, Trial
from busbw.fleet.words import compressed
from busbw.launch.hosts import once, parse_hostfile

TREE = """\
# from slurm.conf's neighbour
SwitchName=leaf1 Nodes=gpu[001-002]
SwitchName=leaf2 Nodes=gpu[003-004] LinkSpeed=400000
SwitchName=spine Switches=leaf[1-2]
"""
BLOCK = "BlockName=b1 Nodes=gpu[001-002]\nBlockName=b2 Nodes=gpu[003-004]\nBlockSizes=2,4\n"


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("gpu[001-003,7],login1", ("gpu001", "gpu002", "gpu003", "gpu7", "login1")),
        ("r[1-2]n[08-10]", ("r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10")),
        ("a, b", ("a", "b")),
        ("gpu[1-2].site.org", ("gpu1.site.org", "gpu2.site.org")),
    ],
)
def test_host_lists_name_nodes_and_are_written_back(text: str, nodes: tuple[str, ...]) -> None:
    assert expand(text) == nodes
    assert sorted(expand(compressed(nodes))) == sorted(nodes)


def test_topologies_of_tree_block_and_lines_agree_on_pods() -> None:
    tree, block = read_pods(TREE, "t"), read_pods(BLOCK, "b")
    lines = read_pods("gpu001 x\ngpu002 x\ngpu003 y\n\ngpu004 y # rack 2\n", "l")
    assert list(tree) == list(block) == list(lines) == ["gpu001", "gpu002", "gpu003", "gpu004"]
    assert tree["gpu003"] == tree["gpu004"] == "leaf2" != tree["gpu001"]
    assert block["gpu001"] == "b1"


def test_a_list_of_ranges_in_topology_yaml_names_every_node_and_a_broken_bracket_is_told_as_one() -> None:
    yaml = "- topology: t\n  tree:\n    switches:\n      - switch: s1\n        nodes: {}\n"
    found = read_pods(yaml.format('["gpu[001-002]", "gpu003"]'), "topology.yaml")
    assert list(found) == ["gpu001", "gpu002", "gpu003"]
    with pytest.raises(UserError, match=r"topology.yaml:5: 'gpu\[001-004' opens a bracket and does not close it"):
        read_pods(yaml.format("gpu[001-004"), "topology.yaml")


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (lambda: expand("gpu[5-1]"), "low to high"),
        (lambda: expand("gpu[1-9"), "opens a bracket and does not close it"),
        (lambda: expand("gpu1-9]"), "closes a bracket that it does not open"),
        (lambda: expand("gpu[[1-2],[3-4]]"), "a bracket within a bracket"),
        (lambda: expand("gpu[1-9:0]"), "no range from low to high"),
        (lambda: expand("n[1-19999][1-19999]"), "more than 20000"),
        (lambda: expand("n[1-2]" * 500), "brackets"),
        (lambda: expand("a;b"), "is no node"),
        (lambda: fabric_of((), {}, 1), "no node is named"),
        (lambda: fabric_of(("a", "b", "a"), {}, 1), "a is named twice"),
        (lambda: fabric_of(("a", "b"), {"x1": "p"}, 1), "another cluster's"),
        (lambda: read_pods("SwitchName=l1 Nodes=a\nSwitchName=l2 Nodes=a\n", "t"), "t:2: a is below l1 and l2"),
        (lambda: read_pods("SwitchName=l1 Nodes=ALL\n", "t"), "t:1: Nodes=ALL names no node"),
        (lambda: read_pods("hello\n", "t"), "t:1: 'hello' is neither"),
        (lambda: read_pods("a b c d\n", "t"), "t:1"),
    ],
)
def test_what_is_no_fabric_is_one_sentence(do, said: str) -> None:
    with pytest.raises(UserError) as raised:
        do()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


HEAD = head_line(fabric_of(("a", "b"), {"a": "p", "b": "p"}, 2), Options())


def line(**changes: object) -> str:
    usual = {"round": 0, "kind": "within", "channel": "rail0", "nodes": ["a", "b"], "samples": [1.0, 2.0]}
    return json.dumps({**usual, **changes})


def test_results_are_read_as_they_were_written() -> None:
    outcomes = [Outcome(Trial("within", ("a", "b"), "rail1", 3, True), (1.0, 2.5, 3.0)),
                Outcome(Trial("inside", ("a",), "nvlink", 1), (), "it died")]  # fmt: skip
    text = "\n".join([HEAD, *(result_line(0, outcome) for outcome in outcomes)]) + "\n"
    fabric, options, results = read(text, "f")
    assert fabric is not None and fabric.pods() == {"p": ("a", "b")} and fabric.rails == 2
    assert options is not None and options.smallest_loss == 0.03
    assert results.rounds == [outcomes]


def test_a_file_that_an_editor_marked_is_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\xef\xbb\xbf" + f"{HEAD}\r\n{line()}\r\n".encode())
    assert len(read(read_text(file, 9999, hint=""), "f")[2].rounds[0]) == 1


def test_a_file_of_a_later_busbw_is_one_sentence() -> None:
    with pytest.raises(UserError, match="f:1: this file has version 2, and 1 is read here"):
        read(HEAD.replace('"busbw_fleet": 1', '"busbw_fleet": 2'), "f")


def test_a_last_line_that_a_kill_cut_off_is_left_out() -> None:
    _, _, results = read(f"{HEAD}\n{line()}\n{line()[:30]}", "f")
    assert len(results.rounds[0]) == 1
    with pytest.raises(UserError, match="f:2"):
        read(f"{HEAD}\n{line()[:30]}\n{line()}\n", "f")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (line(nodes=["a", "zz"]), "zz is not among the 2 nodes of the plan"),
        (line(nodes=["a", "a"]), "a stands twice in one group"),
        (line(nodes=["a"]), "two or more between nodes"),
        (line(nodes="ab"), "`nodes` is a list"),
        (line(kind="beside"), "`kind` is one of"),
        (line(channel="rail0; rm"), "is no channel"),
        (line(channel="nvlink"), "is no channel of kind within"),
        (line(round=5), "results stand in order"),
        (line(round=-1), "`round` counts"),
        (line(round=True), "`round` counts"),
        (line(samples=[0]), "is no bandwidth"),
        (line(samples=[1e999]), "is no bandwidth"),
        (line(samples=[True]), "is no bandwidth"),
        (line(samples=[10**400]), "is no bandwidth"),
        (line(channel="rail2"), "rail2 is beyond the 2 rails of the head"),
        (line(channel="latency7"), "latency7 is beyond the 2 rails"),
        (line(samples=[1.0] * 10_001), "up to 10000"),
        (line(samples="9"), "`samples` is a list"),
        (line(reason=3), "`reason` is a sentence"),
        ("[1]", "a result is an object"),
        ("[" * 100_000, "is no JSON"),
        (HEAD, "a second time"),
        (line().replace("1.0", "NaN"), "is no bandwidth"),
    ],
)
def test_what_is_no_result_is_one_sentence_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        read(f"{HEAD}\n{text}\n\n", "f")
    assert said in str(raised.value)
    assert str(raised.value).startswith("f:2: ")
    assert len(str(raised.value)) < 300


AS_SCONTROL_SHOWS_IT = """\
SwitchName=s0 Level=0 LinkSpeed=1 Nodes=tux[0-1]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=tux[2-3]
SwitchName=s2 Level=1 LinkSpeed=1 Nodes=tux[0-3] Switches=s[0-1]
SwitchName=s9 Level=0 LinkSpeed=1 Nodes=(null)
"""
BLOCKS_OF_SCONTROL = """\
BlockName=s0 BlockIndex=0 Nodes=tux[0-1] BlockSize=2
BlockName=s1 BlockIndex=1 Nodes=tux[2-3] BlockSize=2
AggregatedBlock=s[0-1] BlockIndex=2 Nodes=tux[0-3] BlockSize=4
"""
BY_HAND = (
    'switchname = s0   Nodes = "tux[0-1]" # left\nSWITCHNAME=s1 \\\n\tNodes=tux2,\\\ntux3\n'
    "SwitchName=s2 \\\n  Switches=s[0-1]\n"
)
YAML = """\
---
- topology: flat
  cluster_default: false
  flat: true
- topology: tree
  cluster_default: true
  tree:
    switches:
      - switch: top     # children first
        children: s[0-1]
      - switch: s0
        nodes: tux[0-1]
      - nodes: 'tux[2-3]'
        switch: "s1"
- topology: blocks
  block:
    block_sizes:
      - 2
    blocks:
      - block: b1
        nodes: tux[0-3]
"""


@pytest.mark.parametrize(
    "text", [AS_SCONTROL_SHOWS_IT, BLOCKS_OF_SCONTROL, BY_HAND, YAML, f"{YAML}\n".replace("\n", "\r\n")]
)
def test_topologies_are_read_however_slurm_writes_them(text: str) -> None:
    assert read_pods(text, "t") == {"tux0": "s0", "tux1": "s0", "tux2": "s1", "tux3": "s1"}


TWO_FABRICS = """\
- topology: none
  cluster_default: true
  flat: true
- topology: gpu
  cluster_default: false
  block:
    block_sizes:
        - 4
    blocks:
        - block: nvl0
          nodes: h100-[0-1]
- topology: cpu
  tree:
    switches:
        - switch: root
          children: leaf
        - switch: leaf
          nodes: cpu-[0-1]
"""


def test_of_several_topologies_the_one_that_knows_the_nodes_counts() -> None:
    assert set(read_pods(TWO_FABRICS, "t").values()) == {"nvl0"}, "a flat default has no leaves"
    assert read_pods(TWO_FABRICS, "t", ("cpu-0", "cpu-1", "h100-0")) == {"cpu-0": "leaf", "cpu-1": "leaf"}
    with pytest.raises(UserError, match="t has no `switch:`"):
        read_pods("- topology: t\n  tree:\n    switches: []\n", "t")


def test_names_with_a_domain_are_below_the_leaf_of_their_short_name() -> None:
    fabric = fabric_of(("a.lab.org", "b", "c.x"), {"a": "p", "b": "q"}, 1)
    assert fabric.pods() == {"p": ("a.lab.org",), "q": ("b",), "": ("c.x",)}


def test_a_hostfile_of_slots_names_each_node_once_but_no_node_has_its_slots_twice() -> None:
    lines = parse_hostfile("a\na\nb\na\n", "h")
    assert once(lines) == ("a", "b")
    grid_engine = parse_hostfile("a 8 gpu.q@a UNDEFINED\nb 4 gpu.q@b <NULL>\nc 2\n", "h")
    assert [(host.name, host.slots) for host in grid_engine] == [("a", 8), ("b", 4), ("c", 2)]
    for more in ("a 8 b 8", "a b", "rank 0=a slot=0"):
        with pytest.raises(UserError, match=r"h:1: '.*' is more than a host; write one a line"):
            parse_hostfile(f"{more}\n", "h")
    assert once(parse_hostfile("a slots=8\nb:8\na slots=8\n", "h")) == ("a", "b", "a"), "which is told as a mistake"


@pytest.mark.parametrize("line", ["gpu[1-4]:8", "gpu[1-2,3,4] slots=8", "gpu[1-4]"])
def test_a_range_in_a_host_file_names_each_host(line: str) -> None:
    hosts = parse_hostfile(f"{line}\n", "h")
    assert [host.name for host in hosts] == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert {host.slots for host in hosts} == ({8} if "8" in line else {None})


@pytest.mark.parametrize(
    "line", ["gpu[4-1]", "gpu[1-]", "gpu[1--2]", "gpu[1,,2]", "gpu[1-99999999]:8", "gpu[1-2][3-4]"]
)
def test_a_range_that_is_none_is_one_sentence(line: str) -> None:
    with pytest.raises(UsageError, match=r"h:1: .*(is no range|is no host)"):
        parse_hostfile(line, "h")


@pytest.mark.parametrize("text", ["switches:\n  - switch: s1\n", "tree:\n  switches:\n"])
def test_a_yaml_that_is_no_topology_is_told_in_the_words_of_topology_yaml(text: str) -> None:
    with pytest.raises(UserError, match=r"none of Slurm's topology.yaml; write a list: `- topology: NAME`"):
        read_pods(text, "t.yaml", ("n1",))
