"""Topologies as fabrics, inventories and Kubernetes print them, made from the formats of their tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from busbw.base.errors import UserError
from busbw.fleet.fabric import expand, fabric_of, unknown_to
from busbw.fleet.options import Options
from busbw.fleet.pods import read_above, read_pods
from busbw.fleet.results import head_line, read
from busbw.fleet.score import play
from busbw.fleet.simulate import Fault, World, make_fabric

GPUS = ("gpu1", "gpu2", "gpu3")
RIGHT = {"gpu1": "leaf1", "gpu2": "leaf1", "gpu3": "leaf2"}


def switch(guid: str, name: str, *ports: str) -> str:
    """A switch as ibnetdiscover prints it."""
    lines = [
        f'[{at}]\t"H-b859{at}"[1](b859{at}) \t\t# "{port}" lid {at} 4xNDR' for at, port in enumerate(ports, start=1)
    ]
    head = f'vendid=0x2c9\nswitchguid=0x{guid}({guid})\nSwitch\t65 "S-{guid}"\t\t# "{name}" enhanced port 0 lid 7 lmc 0'
    return "\n".join([head, *lines, '[33]\t"S-ffff"[1]\t\t# "MF0;spine-1:MQM9700/U1" lid 3 4xNDR', ""])


def links(*ends: tuple[str, str]) -> str:
    return json.dumps([{"source_guid": f"{number:x}", "source_port_node_description": first, "destination_guid": second,
                        "destination_port_node_description": f"{second}:19", "width": "4x"}
                       for number, (first, second) in enumerate(ends)])  # fmt: skip


def labelled(**labels: str) -> str:
    return json.dumps({"kind": "List", "items": [
        {"kind": "Node", "spec": {"podCIDR": "10.1.0.0/24"},
         "metadata": {"name": name, "labels": {key: value.format(pod=pod) for key, value in labels.items()}}}
        for name, pod in RIGHT.items()]})  # fmt: skip


def hyper_node(name: str, tier: int, kind: str, *members: str) -> dict[str, Any]:
    return {
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {
            "tier": tier,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": each}}} for each in members],
        },
    }


def lldp(*neighbours: str) -> str:
    return json.dumps({"lldp": {"interface": [
        {f"ens{at}": {"via": "LLDP", "chassis": {name: {"descr": "a switch"}}, "port": {"id": {"value": "swp1"}}}}
        for at, name in enumerate(neighbours)]}})  # fmt: skip


def lldp_json0(neighbour: str) -> str:
    port = {"name": "ens1", "via": "LLDP", "chassis": [{"id": [{"type": "mac"}], "name": [{"value": neighbour}]}]}
    return json.dumps({"lldp": [{"interface": [port]}]})


@pytest.mark.parametrize(
    "text",
    [
        switch("a1", "leaf1", "gpu1 mlx5_0", "gpu2 mlx5_0", "Mellanox Technologies Aggregation Node")
        + switch("a2", "leaf2", "gpu3 mlx5_0")
        + 'Ca\t1 "H-1"\t\t# "gpu1 mlx5_0"\n[1](1)\t"S-a1"[1]\t\t# lid 1 "leaf1"\n',
        switch("b1", "leaf9", "gpu1 mlx5_10", "gpu2 mlx5_1") + switch("b2", "leaf1", "gpu1 mlx5_2", "gpu2 mlx5_0")
        + switch("b3", "MF0;leaf2", "gpu3 HCA-1"),
        "CA: gpu1 mlx5_0:\n  0x1 11 1[  ] ==( 4X 106.25 Gbps Active/  LinkUp)==>  7 1[  ] \"leaf1\" ( )\n"
        "Switch: 0xa1 leaf1:\n"
        "  7    1[  ] ==( 4X       106.25 Gbps Active/  LinkUp)==>      11    1[  ] \"gpu1 mlx5_0\" ( )\n"
        "  7    2[  ] ==( 4X       106.25 Gbps Active/  LinkUp)==>      12    1[  ] \"gpu2 mlx5_0\" ( )\n"
        "  7    3[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )\n"
        "Switch: 0xa2 MF0;leaf2:\n"
        "  8    1[  ] ==( 4X       106.25 Gbps Active/  LinkUp)==>      13    1[  ] \"gpu3 mlx5_0\" ( )\n",
        "CA    11  1 0xb1 4x NDR - SW     7  1 0xa1 ( 'gpu1 mlx5_0' - 'MF0;leaf1' )\n"
        "CA    12  1 0xb2 4x NDR - SW     7  2 0xa1 ( 'gpu2 mlx5_0' - 'MF0;leaf1' )\n"
        "SW     7  9 0xa1 4x NDR - SW     3  1 0xff ( 'MF0;leaf1' - 'MF0;spine1' )\n"
        "CA    13  1 0xb3 4x NDR - SW     8  1 0xa2 ( 'gpu3 mlx5_0' - 'MF0;leaf2' )\n",
        links(("gpu1 mlx5_0", "leaf1"), ("gpu2 mlx5_0", "leaf1"), ("gpu3 mlx5_0", "leaf2"), ("gpu1 mlx5_10", "leaf2")),
        "".join(f'0xa{pod[-1]} "MF0;{pod}" {at} {at}[  ] ==( 4X 106.25 Gbps Active/  LinkUp)==> 0xb{at} 1{at} 1[  ] '
                f'"{name} mlx5_0" ( )\n' for at, (name, pod) in enumerate(RIGHT.items())),
        "".join(f'0xb{at} " {name} mlx5_0" 1{at} 1[  ] ==( 4X 106.25 Gbps Active/  LinkUp)==> 0xa{pod[-1]} {at} 1[  ] '
                f'"{pod}" ( )\n' for at, (name, pod) in enumerate(RIGHT.items())),
        switch("a1", "leaf1", "gpu1 mlx5_0", "gpu2 mlx5_0").replace("[2]", "[2][ext 1]")
        + switch("a2", "leaf2", "gpu3 mlx5_0").replace("[1]\t", "[1](b8591)\t"),
        "\n".join(f"{name}: {lldp(pod)}" for name, pod in RIGHT.items()),
        "\n".join(f"{name}: {lldp_json0(pod)}" for name, pod in RIGHT.items()),
        "".join(f"{name}: lldp.e1.via=LLDP\n{name}: lldp.e1.chassis.name={pod}\n" for name, pod in RIGHT.items()),
        labelled(**{"kubernetes.io/os": "linux", "example.com/tor-switch": "{pod}"}),
        labelled(**{"cloud.provider.com/topology-block": "b", "cloud.provider.com/topology-rack": "{pod}"}),
        labelled(**{"topology.nebius.com/tier-1": "a", "topology.nebius.com/tier-2": "{pod}"}),
        labelled(**{"topology.nebius.com/tier-1": "{pod}", "topology.nebius.com/tier-2": "a"}),
        labelled(**{"example.com/network-level-1": "a", "example.com/network-level-2": "{pod}"}),
        labelled(**{"nvidia.com/gpu.clique": "{pod}"}),
        json.dumps({"items": [hyper_node("leaf1", 1, "Node", "gpu1", "gpu2"), hyper_node("leaf2", 1, "Node", "gpu3"),
                              hyper_node("root", 2, "HyperNode", "leaf1", "leaf2")]}),
        json.dumps({"results": [{"name": name, "rack": {"id": 1, "name": pod}} for name, pod in RIGHT.items()]}),
        json.dumps({"switches": [{"name": "root", "children": ["leaf1", "leaf2"]},
                                 {"name": "leaf1", "children": ["gpu1", "gpu2"]},
                                 {"name": "leaf2", "children": ["gpu3"]}]}),
        json.dumps({"racks": [{"name": "leaf1", "nodes": [{"name": "gpu1", "gpus": 8}, {"name": "gpu2"}]},
                              {"name": "leaf2", "nodes": [{"hostname": "gpu3"}]}]}),
        json.dumps({"name": "all", "nodes": [{"name": name, "leaf": pod} for name, pod in RIGHT.items()]}),
        "NAME   STATUS   AGE   VERSION   LEAF\n"
        + "".join(f"{name}   Ready    9d    v1.31     {pod}\n" for name, pod in RIGHT.items()),
        "NAME   STATUS   LABELS\n"
        + "".join(f"{name}   Ready    a=b,network.topology.nvidia.com/leaf={pod}\n" for name, pod in RIGHT.items()),
        "NAME   STATUS            NOMINATED NODE   LEAF\ngpu1   Ready             -                leaf1\n"
        "gpu2   Ready (by ops)    -                leaf1\ngpu3   Ready             -                leaf2\n"
        "gpu4   Ready             <none>           <none>\n",
        json.dumps([{"source_port_node_description": f"{pod}:7", "source_guid": pod, "destination_guid": "1",
                     "destination_port_node_description": f"{name} mlx5_0"} for name, pod in RIGHT.items()]),
        switch("a1", "leaf1", "gpu1 mlx5_0", "gpu2 mlx5_0") + switch("a2", "leaf2", "gpu3 mlx5_0")
        + 'Ca\t2 "H-9"\t\t# "gpu9 mlx5_0"\n[2](9)\t"H-b1"[2]\t\t# "gpu4 mlx5_0" lid 1\n',
        "hostname,rack,unit\ngpu1,leaf1,12\ngpu2,leaf1,14\ngpu3,leaf2,12\n",
        "name;physical_host\ngpu1;/leaf1\ngpu2;/leaf1\ngpu3;/leaf2\n".replace("/", ""),
        "gpu1,leaf1\ngpu2,leaf1\ngpu3,leaf2\n",
        "leaf1: gpu[1-2]\nleaf2: gpu3\n",
        "gpu1: leaf1\ngpu2: leaf1\ngpu3: leaf2\n",
        "\ufeffSwitchName=leaf1 Switches=leaf2 Nodes=gpu[1-2]\r\nSwitchName=leaf2 Switches=leaf1 Nodes=gpu3\r\n",
        "- topology: t\n  tree:\n    switches:\n      - {switch: root, children: 'leaf[1-2]'}\n"
        "      - {switch: leaf1, nodes: \"gpu[1,2]\"}\n      - {switch: leaf2, nodes: gpu3}\n",
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  topology.conf: |\n    SwitchName=leaf1 Nodes=gpu[1-2]\n"
        "    SwitchName=leaf2 Nodes=gpu3\nmetadata:\n  name: slurm-config\n",
    ],
)  # fmt: skip
def test_the_leaf_of_each_node_is_read(text: str) -> None:
    assert {name: pod for name, pod in read_pods(text, "topo", GPUS).items() if name in GPUS} == RIGHT
    assert set(read_pods(text, "topo", GPUS)) <= {*GPUS, "leaf1", "leaf2"}


def test_switches_below_others_are_no_nodes() -> None:
    switches = [{"name": "root", "children": ["leaf1", "leaf2"]}, {"name": "leaf1", "children": ["gpu1"]},
                {"name": "leaf2", "children": ["gpu3"]}]  # fmt: skip
    assert read_pods(json.dumps(switches), "topo") == {"gpu1": "leaf1", "gpu3": "leaf2"}


def test_switches_that_nobody_named_are_told_apart_by_their_guid() -> None:
    text = "".join(
        switch(guid, "Quantum Mellanox Technologies", f"{name} mlx5_0")
        for guid, name in (("a1", "gpu1"), ("a2", "gpu3"))
    )
    assert read_pods(text, "topo", GPUS) == {"gpu1": "a1", "gpu3": "a2"}


def test_gcloud_as_csv_has_the_host_in_its_path() -> None:
    found = read_pods("name,physical_host\na,/b1/r1/h1\nb,/b1/r1/h2\nc,/b1/r2/h1\n", "topo", ("a", "b", "c"))
    assert found == {"a": "b1/r1", "b": "b1/r1", "c": "b1/r2"}


def test_an_inventory_may_have_whole_names() -> None:
    pods = read_pods("gpu1.site.org /dc1/rack1\ngpu2.site.org /dc1/rack1\n", "topo", ("gpu1", "gpu2"))
    assert fabric_of(("gpu1", "gpu2"), pods, 1).pod_of == {"gpu1": "/dc1/rack1", "gpu2": "/dc1/rack1"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SwitchName=leaf1 Nodes=gpu1 , gpu2\n", "', gpu2' belongs to no key"),
        ("include /etc/slurm/more.conf\nSwitchName=leaf1 Nodes=gpu1\n", "another file is included"),
        ("gpu1,gpu2\n", "gpu1 and gpu2 are both nodes"),
        ("---\nname: gpu1\nresourceStatus:\n  physicalHost: /b1/r1/h1\n", "is YAML; write it as JSON"),
        (f"gpu1: {lldp('leaf1', 'leaf2')}\n", "no node with its place"),
        ("gpu1: lldp.eno1.chassis.name=mgmt\ngpu1: lldp.ens1.chassis.name=leaf1\n", "keep the lines of one interface"),
        (switch("a1", "leaf1", "gpu1"), "has no port of a node"),
    ],
)
def test_what_says_no_place_gets_a_sentence(text: str, said: str) -> None:
    with pytest.raises(UserError) as problem:
        read_pods(text, "topo", expand("gpu[1-3]"))
    assert said in str(problem.value)


def test_a_line_that_is_far_too_long_says_nothing() -> None:
    """Patterns take longer than in proportion: a megabyte of the beginning of a pair took minutes."""
    pair = "CA 1 1 0xb1 4x NDR - SW 7 1 0xa1 ( 'gpu1 mlx5_0' - '{}' )\n"
    assert read_pods(pair.format("leaf1"), "topo", GPUS) == {"gpu1": "leaf1"}
    with pytest.raises(UserError):
        read_pods(pair.format("leaf1" * 200), "topo", GPUS)


def test_commas_of_a_line_with_two_words_stand_between_nodes() -> None:
    assert read_pods("gpu1,gpu2\tleaf1\n", "topo", GPUS) == {"gpu1": "leaf1", "gpu2": "leaf1"}


@pytest.mark.parametrize(
    "text",
    [
        "SwitchName=l1 Nodes=a\nSwitchName=l2 Nodes=b\nSwitchName=l3 Nodes=c\n"
        "SwitchName=t1 Switches=l[1-2]\nSwitchName=t2 Switches=l3\nSwitchName=core Switches=t[1-2]\n",
        "SwitchName=l1 Level=0 LinkSpeed=1 Nodes=a\nSwitchName=l2 Level=0 Nodes=b\nSwitchName=l3 Level=0 Nodes=c\n"
        "SwitchName=t1 Level=1 Nodes=a,b Switches=l[1-2]\nSwitchName=t2 Level=1 Nodes=c Switches=l3\n"
        "SwitchName=core Level=2 LinkSpeed=1 Nodes=a,b,c Switches=t[1-2]\n",
        "- topology: t\n  tree:\n    switches:\n      - switch: core\n        children: t[1-2]\n      - switch: t1\n"
        "        children: l[1-2]\n      - {switch: t2, children: l3}\n      - switch: l1\n        nodes: a\n"
        "      - switch: l2\n        nodes: b\n      - switch: l3\n        nodes: c\n",
    ],
)
def test_the_switch_above_the_leaves_is_read(text: str) -> None:
    pods = read_pods(text, "topo", ("a", "b", "c"))
    above = read_above(text, set(pods.values()), "f")
    assert (pods, above) == ({"a": "l1", "b": "l2", "c": "l3"}, {"l1": "t1", "l2": "t1", "l3": "t2"})
    fabric = fabric_of(("a", "b"), pods, 1, above)
    assert fabric.above == {"l1": "t1", "l2": "t1"}
    again, _, _ = read(head_line(fabric, Options()), "kept")
    assert again == fabric


def test_what_all_leaves_have_above_is_the_spine() -> None:
    text = "SwitchName=l1 Nodes=a\nSwitchName=l2 Nodes=b\nSwitchName=core Switches=l[1-2]\n"
    assert read_above(text, {"l1", "l2"}, "f") == {}
    cube = "SwitchName=l1 Switches=l2 Nodes=a\nSwitchName=l2 Switches=l1 Nodes=b\n"
    assert read_above(cube, {"l1", "l2"}, "f") == {}


@pytest.mark.parametrize("rail", [0, 1, 2])
def test_a_slow_uplink_of_the_level_above_is_named_as_one(rail: int) -> None:
    """Without the level it looks like the uplinks of two of its leaves."""
    fabric = make_fabric(128, 8, 3, 4)
    world = World(fabric, (Fault(f"uplink{rail}@top02", 0.2), Fault("uplink1@pod01", 0.1)), seed=rail)
    score = play(world, Options())
    assert (score.named, score.invented) == (2, ())


def test_above_that_is_no_table_is_refused() -> None:
    with pytest.raises(UserError, match="above"):
        read('{"busbw_fleet": 1, "nodes": ["a", "b"], "above": ["t1"]}', "kept")


@pytest.mark.parametrize("nodes", ["\n      - gpu1\n      - gpu2", " [gpu1, gpu2]", ' ["gpu1", "gpu2"]', " gpu[1-2]"])
@pytest.mark.parametrize("kind", ["switch", "block", "ring"])
def test_nodes_of_topology_yaml_in_a_list(kind: str, nodes: str) -> None:
    text = (
        f"- topology: t\n  {kind}s:\n    - {kind}: leaf1\n      nodes:{nodes}\n    - {kind}: leaf2\n      nodes: gpu3\n"
    )
    assert read_pods(text, "topo", GPUS) == RIGHT


@pytest.mark.parametrize("line", ["Include=/etc/slurm/t.conf", "include\tt.conf", "INCLUDE  /etc/slurm/t.conf"])
def test_an_included_file_is_told_however_it_is_written(line: str) -> None:
    with pytest.raises(UserError, match="topo:1: another file is included"):
        read_pods(f"{line}\n", "topo", GPUS)


def test_a_list_of_nodes_that_is_cut_is_told_with_its_line() -> None:
    with pytest.raises(UserError, match=r"topo:2: 'gpu\[2-' opens a bracket and does not close it"):
        read_pods("SwitchName=leaf1 Nodes=gpu1\nSwitchName=leaf2 Nodes=gpu[2-", "topo", GPUS)


def test_switches_of_topology_yaml_in_one_line() -> None:
    text = '- topology: t\n  tree:\n    switches: [{switch: leaf1, nodes: "gpu[1-2]"}, {switch: leaf2, nodes: gpu3}]\n'
    assert read_pods(text, "topo", GPUS) == RIGHT


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- topology: t\n  cluster_default: true\n  flat: true\n", "topo has no `switch:`, `block:` or `ring:`"),
        (
            "- topology: t\n  tree:\n    switches:\n    - switch: a\n      nodes: gpu[1-",
            r"topo:5: 'gpu\[1-' opens a bracket",
        ),
    ],
)
def test_topology_yaml_without_leaves_or_cut(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_pods(text, "topo", GPUS)


def test_ranges_with_steps_leading_zeros_and_several_brackets() -> None:
    assert expand("n[001-007:3,20]") == ("n001", "n004", "n007", "n20")
    assert expand("n[1-8/3],m") == ("n1", "n4", "n7", "m")
    assert expand("rack[0-1]gpu[08-09]") == ("rack0gpu08", "rack0gpu09", "rack1gpu08", "rack1gpu09")


def test_topology_yaml_with_quoted_keys_and_children_as_a_list() -> None:
    text = (
        '- "topology": t\n  tree:\n    "switches":\n      - "switch": "leaf1"\n        "nodes": "gpu[1-2]"\n'
        "      - switch: leaf2\n        nodes: gpu3\n      - switch: a\n        children: [leaf1]\n"
        "      - switch: b\n        children: [leaf2]\n"
    )
    assert read_pods(text, "topo", GPUS) == RIGHT
    assert read_above(text, {"leaf1", "leaf2"}, "topo") == {"leaf1": "a", "leaf2": "b"}


def test_broken_children_are_told_with_their_file() -> None:
    text = "SwitchName=l1 Nodes=gpu1\nSwitchName=l2 Nodes=gpu2\nSwitchName=top Switches=l[1-2\n"
    with pytest.raises(UserError, match=r"^topo: 'l\[1-2' opens a bracket"):
        read_above(text, {"l1", "l2"}, "topo")


def test_nodes_that_the_topology_does_not_name() -> None:
    assert unknown_to(["a", "b.site", "c"], {"a.site": "x", "b": "x"}) == ["c"]
    assert unknown_to(["c"], {"a": "x"}) == []  # of another cluster: that is refused
