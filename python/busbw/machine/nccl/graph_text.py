"""The channels of a graph file as text for terminals: equal ones are drawn once."""

from __future__ import annotations

from collections import Counter

from busbw.base.text import clean, sentences
from busbw.machine.nccl.graph_file import Graph, GraphFile


def describe(file: GraphFile) -> list[str]:
    """All lines."""
    lines = [clean(f"{file.source}: {len(file.graphs)} graphs")]
    for graph in file.graphs:
        lines += ["", *_graph(graph)]
    return lines


def _graph(graph: Graph) -> list[str]:
    if not graph.channels:
        return [f"{graph.name}: no channels"]
    rate = f"{len(graph.channels)} channels x {graph.speed_intra_GBps:g} GB/s = {graph.capacity_GBps:g} GB/s"
    head = f"{graph.name}: {rate}, type {clean(graph.type_intra)}"
    drawn = Counter((channel.nets, channel.gpus) for channel in graph.channels)
    lines = [head]
    for (nets, gpus), count in drawn.items():
        stops = [str(gpu) for gpu in gpus]
        if nets:
            way = " -> ".join([f"NIC {nets[0]}", *stops, f"NIC {nets[-1]}"])
        else:
            way = " -> ".join([*stops, stops[0]] if graph.id == 0 and stops else stops)
        lines += sentences([way], indent="  ", bullet=f"{count:>3} x  ")
    return lines
