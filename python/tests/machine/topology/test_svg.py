"""Drawings are well-formed SVG that shows every device and link, whatever the names."""

from __future__ import annotations

from xml.etree import ElementTree

from busbw.machine.nccl.graph_file import Channel, Graph, GraphFile
from busbw.machine.topology.model import Connection, Gpu, Machine, Nic, NvLinks, PathType
from busbw.machine.topology.svg import graph_svg, machine_svg


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")]


def test_a_machine_with_direct_links_shows_their_number() -> None:
    gpus = tuple(Gpu(i, f"000{i}:00:00.0", numa=i, nvlinks=(NvLinks(f"000{1 - i}:00:00.0", 12),)) for i in range(2))
    pair = Connection("GPU0", "GPU1", PathType.NVLINK, 12)
    shown = texts(machine_svg(Machine("<b>&", gpus, (Nic("eth\x1b0"),), connections=(pair,))))
    assert {"GPU0", "GPU1", "NV12", "NUMA node 1"} <= set(shown)
    assert any("eth" in each and "\x1b" not in each for each in shown)


def test_an_empty_machine_is_a_drawing_too() -> None:
    assert texts(machine_svg(Machine("none")))


def test_channels_are_drawn_as_edges_with_their_number() -> None:
    channels = tuple(Channel((0, 1, 2), (), 1) for _ in range(7))
    graph = Graph(0, 4, 7, 20.0, 20.0, "NVL", "PIX", channels, 1)
    shown = texts(graph_svg(GraphFile("g.xml", (graph,), ())))
    assert shown.count("7") == 3 and "ring: 7 x 20 GB/s, NVL" in shown
