"""Who is measured against whom: how each library is started by the engine, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpu_library.machine import REPOSITORY, Machine

OURS = "ours"
OURS_IN_WINDOWS = "ours -R 2"
OWN = (OURS, OURS_IN_WINDOWS)
"""Ours, without and with buffers in symmetric windows."""

IN_WINDOWS = ("all_gather", "alltoall", "broadcast")
"""What goes another way where its output is in a window."""

COPIES = str(REPOSITORY / "bench" / "gpu_library" / "programs" / "copies.table")
"""BUSBW_TABLE: this other way for messages of any size."""

ACCELERATED = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast")
HANDED_OVER = ("reduce", "sendrecv", "gather", "scatter", "alltoallv", "hypercube")

REDUCING = ("all_reduce", "reduce_scatter", "reduce")


@dataclass(frozen=True)
class Band:
    """A stretch of sizes that one measurement covers, and how often each is called.

    Large sizes get fewer calls: 400 calls of 1 GiB take two seconds in a graph and tell no more than twelve.
    """

    name: str
    first: int
    last: int
    factor: int = 4
    iterations: int = 20
    warmup: int = 5
    graph_launches: int = 20

    def words(self) -> tuple[str, ...]:
        graph = ("-G", str(self.graph_launches)) if self.graph_launches else ()
        sizes = ("-b", str(self.first), "-e", str(self.last), "-f", str(self.factor))
        return (*sizes, "-n", str(self.iterations), "-w", str(self.warmup), *graph)


_KI, _MI, _GI = 1 << 10, 1 << 20, 1 << 30

BANDS = (
    Band("graph", _KI, 16 * _MI),
    Band("graph", 64 * _MI, _GI, iterations=4, warmup=2, graph_launches=3),
    Band("eager", _KI, 16 * _MI, graph_launches=0),
    Band("eager", 64 * _MI, 4 * _GI, iterations=4, warmup=2, graph_launches=0),
)


@dataclass(frozen=True)
class Peer:
    """One library in one setting."""

    name: str
    library: str
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def libraries(machine: Machine) -> list[Peer]:
    """Everything that speaks the NCCL API; on the processors there is one library, so the settings are all there is."""
    nccl = str(machine.nccl)
    ours = Peer(OURS, str(machine.ours), environment={"BUSBW_REAL_NCCL": nccl})
    if machine.host:
        return [ours, Peer("NCCL", nccl)]
    found = [
        ours,
        Peer(OURS_IN_WINDOWS, ours.library, ("-R", "2"), ours.environment),
        Peer("NCCL", nccl),
        Peer("NCCL -R 2", nccl, ("-R", "2")),
        Peer("NCCL -R 2, no mixing", nccl, ("-R", "2"), {"NCCL_GRAPH_MIXING_SUPPORT": "0"}),
        Peer("NCCL -R 2 -x 2", nccl, ("-R", "2", "-x", "2")),
    ]
    if machine.mscclpp:
        found.append(Peer("MSCCL++", str(machine.mscclpp), environment={"MSCCLPP_NCCL_LIB_PATH": nccl}))
    return found


def contestants(machine: Machine, collective: str, band: Band) -> list[Peer]:
    """Who takes part in one table. What cannot do it, or is known to be beside the point there, stays out."""
    eager = band.graph_launches == 0
    chosen = []
    for peer in libraries(machine):
        if peer.name == "NCCL -R 2 -x 2" and not eager:
            continue  # its copies cannot be captured
        if peer.name == "NCCL -R 2, no mixing" and eager:
            continue  # the setting is about graphs
        if peer.name == OURS_IN_WINDOWS and (collective not in IN_WINDOWS or band.last <= 16 * _MI):
            continue  # it does what ours does
        if peer.name == "MSCCL++" and collective in {"alltoall", "reduce_scatter"}:
            continue  # alltoall it refuses, reduce-scatter it hands to NCCL
        chosen.append(peer)
    return chosen


def has_symm_mem(machine: Machine, collective: str, band: Band) -> bool:
    """Whether torch's symmetric memory takes part: it has an all-reduce, and its figures are those of graphs."""
    return collective == "all_reduce" and band.name == "graph" and not machine.host


def engine_argv(  # noqa: PLR0913, PLR0917 - one place for the whole command line
    machine: Machine, peer: Peer, collective: str, ranks: int, words: Sequence[str], record: str
) -> tuple[str, ...]:
    """One process per GPU by busbw's own launcher."""
    return (
        *(machine.python, "-m", "busbw", "run", "--ranks", str(ranks), collective),
        *(*words, *peer.words, "--library", peer.library, "--record", record),
    )


def engine_environment(machine: Machine, base: Mapping[str, str]) -> dict[str, str]:
    package = str(REPOSITORY / "python")
    path = ":".join(each for each in (package, base.get("PYTHONPATH", "")) if each)
    return {"BUSBW_ENGINE": str(machine.engine), "PYTHONPATH": path}
