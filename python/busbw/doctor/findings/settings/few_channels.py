"""Too few channels for the links: a limit by NCCL_MAX_NCHANNELS and its kin, or a log that shows few."""

from __future__ import annotations

from collections.abc import Iterator

from busbw.doctor.capacity import channels_GBps, links_GBps, loss
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.findings.settings import p2p_disabled
from busbw.doctor.prescribed import is_prescribed
from busbw.doctor.remedy import evidence, removal, without

NAME = "few-channels"
SURELY_FEW = 2
"""Too few for any data centre GPU of the last ten years, where nobody knows which one it is."""
LIMITS = ("NCCL_MAX_NCHANNELS", "NCCL_MAX_NRINGS", "NCCL_MAX_CTAS")


def examine(facts: Facts) -> Iterator[Finding]:
    limits = [name for name in LIMITS if (facts.whole(name) or 0) > 0]
    for name in limits:
        yield from _limited(facts, name)
    if limits or facts.value("NCCL_GRAPH_FILE") or any(p2p_disabled.examine(facts)):
        return  # the log's few channels have their reason: through host memory NCCL makes two
    yield from _seen(facts)


def _limited(facts: Facts, name: str) -> Iterator[Finding]:
    setting, count = facts.settings[name], facts.whole(name) or 0
    machine = facts.machine
    links, carried = links_GBps(machine), channels_GBps(count, machine)
    factor = loss(machine, carried)
    if machine is not None and links is not None and carried is not None:
        fact = f"{count} channels carry about {carried:.0f} GB/s, {machine.nvlinks_per_gpu} NVLinks {links:.0f} GB/s"
        proofs = [evidence(setting), Evidence(fact, machine.source)]
    else:
        proofs = [evidence(setting)]
    yield Finding(
        NAME,
        Severity.WARNING
        if (factor or (links is None and count <= SURELY_FEW)) and not is_prescribed(facts, name)
        else Severity.NOTE,
        f"{name}={count} limits the channels" + (" below what the links can carry" if factor else ""),
        tuple(proofs),
        Cost(
            f"about {factor:.1f} times less bus bandwidth at large sizes" if factor else "none known here", factor,
            "one channel is one thread block; its rate is measured on like GPUs",
        ),
        removal(setting),
        without(setting),
    )  # fmt: skip


def _seen(facts: Facts) -> Iterator[Finding]:
    for log in facts.logs:
        largest = log.largest
        if largest is None or largest.counts is None or facts.machine is None or not facts.machine.gpus:
            continue
        if facts.several_nodes or (largest.nnodes or 1) > 1 or any(each.kind == "NET" for each in largest.transports):
            continue  # the network then decides how many there are
        factor = loss(facts.machine, channels_GBps(largest.counts.coll, facts.machine))
        if factor is None or factor < 1.3:
            continue
        yield Finding(
            NAME, Severity.WARNING, f"only {largest.counts.coll} channels for {facts.machine.nvlinks_per_gpu} NVLinks",
            (Evidence(f"{largest.counts.coll} coll channels", log.source, largest.counts.line),),
            Cost(f"about {factor:.1f} times less bus bandwidth", factor, "the rate of one channel on like GPUs"),
            "look for a communicator made with maxCTAs, or a limit in the program's configuration",
            Proof(set={"NCCL_MIN_NCHANNELS": str(max(16, 4 * largest.counts.coll))}),
        )  # fmt: skip
