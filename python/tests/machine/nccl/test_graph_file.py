"""Graph files: read as NCCL reads them, with every fault named by its line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from busbw.base.errors import UserError
from busbw.machine.nccl.graph_file import EMPTY, check_against, read_graph
from busbw.machine.nccl.graph_text import describe
from busbw.machine.nccl.graph_writer import write_graph
from busbw.machine.topology.model import Gpu, Machine

from .samples import graph

TWO = Machine("two", gpus=(Gpu(0), Gpu(1)))


def test_channels_speeds_and_hexadecimal_devices_are_read() -> None:
    file = read_graph(graph([(0, 10, 2)] * 3, 12.5, "SYS"), "g.xml")
    ring = file.ring
    assert file.problems == () and ring is not None
    assert ring.channels[0].gpus == (0, 10, 2) and len(ring.channels) == 3
    assert ring.capacity_GBps == 37.5 and ring.type_intra == "SYS" and ring.line == 2


def test_the_number_of_the_system_in_the_top_byte_is_not_part_of_the_device() -> None:
    data = graph([(0, 1)]).replace(b'dev="0x1"', b'dev="0x100000000000001"')
    ring = read_graph(data, "g").ring
    assert ring is not None and ring.channels[0].gpus == (0, 1)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (graph([(0, 1)], declared=2), "nchannels says 2 and there are 1"),
        (graph([(0, 0)]), "goes through a GPU twice"),
        (graph([()]), "a channel without GPUs"),
        (graph([(0, 1), (0, 2)]), "other GPUs than the first one"),
        (graph([(0, 1)], kind="FAST"), 'typeintra="FAST" is none of LOC'),
        (graph([(0, 1)], speed=0), "channels without speed"),
        (graph([(0, 1)] * 65), "65 channels, NCCL takes 64"),
        (graph([(0, 1)]).replace(b'version="1"', b'version="2"'), "version is not 1"),
        (graph([(0, 1)]).replace(b"20.0", b"fast"), "is no number"),
        (graph([(0, 1)]).replace(b'"0x1"', b'"one"'), "is no whole number"),
        (graph([(0, 1)], declared=10**30), "is no whole number"),
    ],
)
def test_every_fault_is_named_with_its_line(data: bytes, says: str) -> None:
    problems = read_graph(data, "g.xml").problems
    assert any(says in each.text and each.line > 0 and each.fatal for each in problems), problems


def test_a_ring_must_go_through_the_machines_gpus_and_no_others() -> None:
    [missing] = check_against(read_graph(graph([(0, 1, 2)]), "g"), TWO)
    assert "names GPU 2, the machine has 0, 1" in missing.text
    [left_out] = check_against(read_graph(graph([(1,)]), "g"), TWO)
    assert "leaves out 0" in left_out.text
    assert check_against(read_graph(graph([(1, 0)]), "g"), TWO) == ()


def test_another_root_is_refused() -> None:
    with pytest.raises(UserError, match="the root is <system>"):
        read_graph(b"<system/>", "g")


def test_the_empty_graph_file_is_sound_and_has_no_ring() -> None:
    file = read_graph(EMPTY.encode(), "g")
    assert file.ring is None and not any(each.fatal for each in file.problems)


def test_equal_channels_are_described_once() -> None:
    assert "    5 x  0 -> 1 -> 0" in describe(read_graph(graph([(0, 1)] * 5), "g"))


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 8), st.integers(1, 6), st.sampled_from(["NVL", "PIX", "SYS"]))
def test_what_is_written_is_read_back(gpus: int, channels: int, kind: str) -> None:
    first = read_graph(graph([tuple(range(gpus))] * channels, 30, kind), "g")
    again = read_graph(write_graph(first.graphs).encode(), "g")
    assert again.problems == ()
    assert [(g.capacity_GBps, g.type_intra, [c.gpus for c in g.channels]) for g in again.graphs] == [
        (g.capacity_GBps, g.type_intra, [c.gpus for c in g.channels]) for g in first.graphs
    ]
