"""An algorithm forced by NCCL_ALGO, so that NCCL's tuner no longer chooses by size."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.comparisons import light_where_compared
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Finding, Severity
from busbw.doctor.multicast_loss import largest_loss
from busbw.doctor.prescribed import is_prescribed
from busbw.doctor.remedy import evidence, removal, without
from busbw.expect.expectation import multicast
from busbw.machine.nccl.conf_values import unknown_name
from busbw.records import Record

NAME = "forced-algorithm"
NAME_OF_VARIABLE = "NCCL_ALGO"
_PAIR, _NEAR_RATE = 2, 0.94
_PORTS = (12.5, 25.0, 50.0, 100.0)
"""GB/s of ports of 100 to 800 Gb/s."""
_MOST = 2.0
"""Switches that reduce halve what each GPU sends: more than that no ring can lose by them."""


def _of_rings(cost: Cost) -> Cost:
    """The cost as far as the algorithm can be the reason; what stands beside it, such as a protocol, costs the rest."""
    if (cost.factor or 0.0) <= _MOST:
        return cost
    return Cost(f"up to {_MOST:g} times less all-reduce at large sizes (the NVSwitch does not reduce); the rest of the "
                "loss has another cause")  # fmt: skip


def _is_pair_at_rate(record: Record) -> bool:
    """Two ranks on two hosts that reach what a port carries: between two a tree moves as much as a ring."""
    hosts = {rank.host for rank in record.run.ranks}
    rate = max((each.busbw_GBps or 0.0 for each in record.cases), default=0.0)
    at_rate = any(_NEAR_RATE * port <= rate <= port for port in _PORTS)
    return len(record.run.ranks) == len(hosts) == _PAIR and at_rate


def examine(facts: Facts) -> Iterator[Finding]:
    setting = facts.settings.get(NAME_OF_VARIABLE)
    value = facts.value(NAME_OF_VARIABLE)
    if setting is None or value is None or unknown_name(NAME_OF_VARIABLE, value) is not None:
        return  # a name that NCCL does not know forces nothing
    only = value.lower().split(":")[-1]
    # Ring alone is what NCCL picks for large sizes inside a node; a tree alone is not.
    tree_only = only in {"tree", "collnetchain", "collnetdirect"}
    prescribed = is_prescribed(facts, NAME_OF_VARIABLE)
    pair = bool(facts.records) and all(_is_pair_at_rate(each) for each in facts.records)
    lost = None if prescribed or multicast({"NCCL_ALGO": value}) else largest_loss(facts)
    found = Finding(
        NAME,
        Severity.WARNING if lost or (not pair and (tree_only or (facts.several_nodes and not prescribed)))
        else Severity.NOTE,
        f"NCCL_ALGO={value} forces the algorithm at every size" + (", and NVLS is not among them" if lost else ""),
        (evidence(setting), *([lost.evidence] if lost else [])),
        _of_rings(lost.cost) if lost else Cost(
            "nothing here: two ranks reach what a port carries, and a tree moves as much as a ring between them" if pair
            else "large collectives lose what rings would reach" if tree_only
            else "none measured at 1 GiB on 4 H200 with Ring; small sizes and many nodes lose latency",
        ),
        removal(setting),
        without(setting),
    )  # fmt: skip
    yield light_where_compared(found, facts, setting.name)
