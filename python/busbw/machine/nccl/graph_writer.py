"""Writes NCCL's graph file (NCCL_GRAPH_FILE)."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from busbw.machine.nccl.graph_file import Graph


def write_graph(graphs: Sequence[Graph]) -> str:
    """The file that NCCL reads for these graphs."""
    lines = ['<graphs version="1">']
    for graph in graphs:
        lines.append(
            f'  <graph id="{graph.id}" pattern="{graph.pattern}" crossnic="0" nchannels="{len(graph.channels)}" '
            f'speedintra="{graph.speed_intra_GBps:g}" speedinter="{graph.speed_inter_GBps:g}" latencyinter="0" '
            f'typeintra={quoteattr(graph.type_intra)} typeinter={quoteattr(graph.type_inter)} samechannels="1">'
        )
        for channel in graph.channels:
            lines.append("    <channel>")
            ends = channel.nets[:1], channel.nets[1:2]
            lines += [f'      <net dev="{net}"/>' for net in ends[0]]
            lines += [f'      <gpu dev="{gpu}"/>' for gpu in channel.gpus]
            lines += [f'      <net dev="{net}"/>' for net in ends[1]]
            lines.append("    </channel>")
        lines.append("  </graph>")
    return "\n".join([*lines, "</graphs>", ""])
