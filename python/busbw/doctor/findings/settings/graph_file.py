"""A graph file (NCCL_GRAPH_FILE) whose channels cannot carry the links, or which cannot be used at all."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.capacity import channel_GBps, channels_GBps, links_GBps, loss
from busbw.doctor.facts import GIVEN, Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Severity
from busbw.doctor.remedy import evidence, removal, without
from busbw.machine.nccl.conf import Setting
from busbw.machine.nccl.graph_file import PATH_TYPES, Graph, GraphFile, check_against
from busbw.machine.topology.model import Machine, PathType

NAME = "graph-file"
ENOUGH = 0.7  # of what NCCL counts on per link; its own search is content with 0.97 on H200


def examine(facts: Facts) -> Iterator[Finding]:
    setting = facts.settings.get("NCCL_GRAPH_FILE")
    if setting is None or not setting.value:
        return
    if isinstance(facts.graph, str):
        yield _unusable(setting, [Evidence(facts.graph, setting.value)])
    elif facts.graph is None:
        yield _unseen(setting, facts)
    else:
        seen = facts.visible
        yield from _read(setting, facts.graph, seen if seen and seen.gpus else None)


def _read(setting: Setting, graph: GraphFile, machine: Machine | None) -> Iterator[Finding]:
    problems = [*graph.problems, *(check_against(graph, machine) if machine and machine.gpus else ())]
    fatal = [Evidence(each.text, graph.source, each.line) for each in problems if each.fatal]
    if fatal:
        yield _unusable(setting, fatal)
        return
    ring = graph.ring
    if ring is None:
        return
    links = links_GBps(machine)
    if machine is not None and links is not None:
        too_slow = ring.capacity_GBps < ENOUGH * links
        detour = _distance(ring.type_intra) > PathType.NVLINK.distance
        if too_slow or detour:
            yield _weak(setting, graph, ring, machine, links)
            return
        if ring.capacity_GBps > 1.2 * links:
            yield _too_bold(setting, graph, ring, links)
            return
    if setting.origin.where != GIVEN or machine is None:
        yield _in_force(setting, graph, ring, machine, fits=links is not None)


def _weak(setting: Setting, graph: GraphFile, ring: Graph, machine: Machine, links: float) -> Finding:
    count, ratio = len(ring.channels), links / ring.capacity_GBps
    factor = loss(machine, _carried(ring, machine))
    cost = f"about {factor:.1f} times less bus bandwidth" if factor else "less than the links carry"
    return Finding(
        NAME,
        Severity.WARNING,
        f"{_channels(ring)}, where {machine.nvlinks_per_gpu} NVLinks could carry {_times(ratio)} that",
        (
            evidence(setting),
            Evidence(f"{count} ring channels x {ring.speed_intra_GBps:g} GB/s = {ring.capacity_GBps:g} GB/s, "
                     f"typeintra={ring.type_intra}", graph.source, ring.line),
            Evidence(f"{machine.nvlinks_per_gpu} NVLinks per GPU, {links:.0f} GB/s as NCCL counts, every pair joined",
                     machine.source),
        ),
        Cost(
            f"{cost} in large collectives", factor,
            f"NCCL doubles ring channels to {2 * count} where links are fast; one channel carries about "
            f"{(channel_GBps(machine) or 0):g} GB/s on these GPUs",
        ),
        f"{removal(setting)}; NCCL then searches channels for this machine itself",
        without(setting),
    )  # fmt: skip


def _unusable(setting: Setting, problems: list[Evidence]) -> Finding:
    return Finding(
        NAME,
        Severity.ERROR,
        "the graph file cannot be used on this machine: NCCL fails or builds broken rings",
        (evidence(setting), *problems[:6]),
        Cost("communicators fail to initialise, or leave GPUs out"),
        removal(setting),
        without(setting),
    )


def _unseen(setting: Setting, facts: Facts) -> Finding:
    """A log or record names a graph file that is not here: only its effect can be judged."""
    lines = [evidence(setting)]
    links = links_GBps(facts.machine)
    factor = None
    for log in facts.logs:
        counts = log.largest.counts if log.largest else None
        if counts is not None:
            factor = loss(facts.machine, channels_GBps(counts.coll, facts.machine))
            what = f"{counts.coll} coll channels"
            if links is not None and facts.machine is not None:
                what += f", where {facts.machine.nvlinks_per_gpu} NVLinks per GPU carry about {links:.0f} GB/s"
            lines.append(Evidence(what, log.source, counts.line))
            break
    cost = f"about {factor:.1f} times less bus bandwidth in large collectives" if factor else "unknown without the file"
    return Finding(
        NAME,
        Severity.WARNING if factor else Severity.NOTE,
        "a graph file forces the channels" + (", too few for the links" if factor else ""),
        tuple(lines),
        Cost(cost, factor, "measured per channel on like GPUs" if factor else ""),
        f"{removal(setting)}; to judge the file itself: busbw doctor --topology FILE --graph FILE",
        without(setting),
    )


def _too_bold(setting: Setting, graph: GraphFile, ring: Graph, links: float) -> Finding:
    return Finding(
        NAME,
        Severity.NOTE,
        f"{_channels(ring)}: more than the {links:.0f} GB/s of the links",
        (evidence(setting), Evidence(f"{ring.capacity_GBps:g} GB/s claimed", graph.source, ring.line)),
        Cost("NCCL's tuner may choose wrongly, since it believes these speeds"),
        removal(setting),
        without(setting),
    )


def _in_force(setting: Setting, graph: GraphFile, ring: Graph, machine: Machine | None, *, fits: bool) -> Finding:
    unknown = "without --topology nobody can say whether they fit"
    unlinked = "not every pair of GPUs has NVLinks, so PCIe bounds them"
    judged = "the links carry them" if fits else unlinked if machine is not None else unknown
    return Finding(
        NAME,
        Severity.NOTE,
        f"a graph file replaces NCCL's search: {_channels(ring)}; {judged}",
        (evidence(setting), Evidence(f"{len(ring.channels)} channels", graph.source, ring.line)),
        Cost("none seen; it stops fitting once GPUs, ranks or NCCL change"),
        removal(setting),
        without(setting),
    )


def _channels(ring: Graph) -> str:
    return f"{len(ring.channels)} ring channels of {ring.speed_intra_GBps:g} GB/s, type {ring.type_intra}"


def _carried(ring: Graph, machine: Machine) -> float | None:
    """NCCL doubles the channels that it finds while there is room (src/graph/connect.cc)."""
    return channels_GBps(2 * len(ring.channels), machine) or ring.capacity_GBps


def _distance(type_intra: str) -> int:
    known = PATH_TYPES.get(type_intra)
    return known.distance if known is not None else 0


def _times(ratio: float) -> str:
    return f"about {ratio:.0f} times" if ratio >= 3 else f"{ratio:.1f} times"
