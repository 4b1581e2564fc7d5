"""What is worth a try for a collective, what hinders it in the environment, and the variants of an experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from busbw.base.files import replace_text
from busbw.experiment.beside import words_beside
from busbw.experiment.factors import Factor, Level
from busbw.experiment.own_conf import refuse_where_it_stays
from busbw.experiment.plan import Plan
from busbw.experiment.tune_nccl.rules import Place, Rule, Way, hash_of_file, table_text
from busbw.machine.nccl.conf import set_by_files, values_here, without_effect

LARGEST = 1 << 62
CHANNELS = (32, 16, 8, 4, 2, 1)
"""In the order of trials: where fewer help at no size, still fewer are not tried."""
CHUNKS = (64 << 10, 256 << 10, 1 << 20)
"""Bytes of a piece; NCCL's own are 128 KiB to 512 KiB, and it takes no more than its buffers hold."""
ASKS_FOR_CHUNKS = [2, 30]
EMPTY_IS_NONE = [2, 24]
"""Since then an empty list of protocols is none, and no list without any."""

HINDERING = (
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
    "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS",
)  # fmt: skip
"""Variables that take choices away from NCCL: a tuner cannot give them back.

NCCL_NVLS_ENABLE is none of them: who switched multicast off had other reasons than speed, and it stays off.
"""

# NCCL src/graph/tuning.cc: which algorithms a collective has at all.
_RING = tuple(f"ring/{protocol}" for protocol in ("ll", "ll128", "simple"))
_TREE = tuple(f"tree/{protocol}" for protocol in ("ll", "ll128", "simple"))
_ONE_NODE: Mapping[str, tuple[str, ...]] = {
    "all_reduce": (*_RING, *_TREE, "nvls/simple"),
    "all_gather": (*_RING, "nvls/simple", "pat/simple"),
    "reduce_scatter": (*_RING, "nvls/simple", "pat/simple"),
    "broadcast": _RING,
    "reduce": _RING,
}
_NODES: Mapping[str, tuple[str, ...]] = {
    "all_reduce": ("nvls_tree/simple", "collnet_chain/simple", "collnet_direct/simple")
}


@dataclass(frozen=True)
class Asked:
    """What a person wants tuned: sizes in bytes from `first` to `last`, doubling or more."""

    collectives: tuple[str, ...]
    ranks: int
    first: int
    last: int
    type: str = "float"
    library: str = "auto"
    launch: tuple[str, ...] = ()
    plugin: str = "libnccl-tuner-busbw.so"
    loosened: tuple[str, ...] = ()
    """Variables that hinder, taken away in every variant but the baseline."""
    multicast: bool = True
    step: int = 2
    graphs: int = 0
    """Launches of a CUDA graph of the calls, 0 none: then what a processor takes to start a call is no noise."""
    beside: str = ""
    """The product that runs beside the calls: then the time of both together is what counts."""
    more: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further words for the engine, by collective."""
    loosening: Mapping[str, str | None] = field(default_factory=dict)
    """The value that this NCCL takes for none, of those of `loosened` that are not unset."""


def hindering(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Which of them the environment or NCCL's conf files set here."""
    by_files = set_by_files(environ)
    return tuple(name for name in HINDERING if environ.get(name) or name in by_files)


def loosening(names: Sequence[str], environ: Mapping[str, str], nccl: str) -> dict[str, str | None]:
    """How each of them is taken away from that NCCL: None unsets it, UsageError where a file sets it for good.

    Up to 2.23 an empty NCCL_ALGO or NCCL_PROTO leaves no algorithm or protocol at all (src/graph/tuning.cc), so that an
    empty value only answers a conf file, and only where it is none.
    """
    by_files = set_by_files(environ)
    bare = {name: value for name, value in environ.items() if name not in names}
    found: dict[str, str | None] = dict.fromkeys(names)
    for name in (each for each in names if each in by_files):
        found[name] = without_effect(name, values_here(bare)[name])
        if found[name] is None and name == "NCCL_PROTO" and _version(nccl) >= EMPTY_IS_NONE:
            found[name] = ""
        if found[name] is None:
            refuse_where_it_stays(name, environ)
    return found


def without_multicast(environ: Mapping[str, str]) -> bool:
    """Whether the environment, or else one of NCCL's conf files, switches NVLS off."""
    return values_here(environ).get("NCCL_NVLS_ENABLE", "").strip() == "0"


def first_ways(collective: str, nodes: int, *, multicast: bool = True) -> list[Way]:
    """Algorithms with protocols, NCCL's own first; without those that need multicast where it is off."""
    more = _NODES.get(collective, ()) if nodes > 1 else ()
    names = (*_ONE_NODE[collective], *more)
    return [Way(), *(Way(name) for name in names if multicast or not name.startswith("nvls"))]


def with_channels(best: Sequence[Way]) -> list[Way]:
    """The best of the first look with other numbers of channels; NCCL takes what a plugin says of CollNet unchecked."""
    return [
        Way(way.name, channels) for way in best for channels in CHANNELS
        if not way.name.startswith("collnet") and not way.channels
    ]  # fmt: skip


def with_chunks(fastest: Sequence[Way], nccl: str) -> list[Way]:
    """The fastest with other chunks, where this NCCL asks for them; LL and LL128 have pieces of their own."""
    if _version(nccl) < ASKS_FOR_CHUNKS:
        return []
    return [
        Way(way.name, way.channels, chunk) for way in fastest for chunk in CHUNKS
        if way.name.endswith("/simple") and not way.name.startswith("collnet")
    ]  # fmt: skip


def _version(nccl: str) -> list[int]:
    return [int(part) if part.isdecimal() else 0 for part in nccl.split(".")[:2]]


def plan_of(asked: Asked, collective: str, ways: Sequence[Way], facts: Mapping[str, str], folder: Path) -> Plan:
    """Things as they are, then each way for all sizes, by a table of its own."""
    levels = [Level("as it is", _of_graphs(asked))]
    for number, way in enumerate(ways):
        path = folder / "tables" / f"{number}.txt"
        rules = () if way.is_own else (Rule(collective, 0, LARGEST, way),)
        replace_text(path, table_text([Place(facts, rules)]))
        levels.append(Level(str(way), environment_of(asked, path)))
    return _plan(asked, collective, levels, seed=1)


def plan_to_prove(asked: Asked, collective: str, path: Path, seed: int) -> Plan:
    """Things as they are, and one table."""
    return _plan(
        asked, collective, [Level("as it is", _of_graphs(asked)), Level("the table", environment_of(asked, path))], seed
    )


def facts_plan(asked: Asked, out: Path) -> Plan:
    """One look at what the plugin sees: it writes that, and applies nothing."""
    environment: dict[str, str | None] = {
        "NCCL_TUNER_PLUGIN": asked.plugin, "BUSBW_TUNER_FACTS": str(out), "BUSBW_TUNER_TABLE": "/dev/null",
        "BUSBW_TUNER_ALIKE": None,
    }  # fmt: skip
    return _plan(asked, asked.collectives[0], [Level("as it is"), Level("facts", environment)], seed=0)


def environment_of(asked: Asked, table: Path) -> dict[str, str | None]:
    """What makes NCCL follow a table, on several nodes too: all ranks of a trial read this file."""
    alike = hash_of_file(table)
    return {
        **{name: asked.loosening.get(name) for name in asked.loosened}, **_of_graphs(asked),
        "NCCL_TUNER_PLUGIN": asked.plugin, "BUSBW_TUNER_TABLE": str(table.resolve()), "BUSBW_TUNER_ALIKE": alike,
    }  # fmt: skip


def _of_graphs(asked: Asked) -> dict[str, str | None]:
    """In a graph NCCL would register buffers, and take other ways than in a call by itself."""
    return {"NCCL_GRAPH_REGISTER": "0"} if asked.graphs else {}


def _plan(asked: Asked, collective: str, levels: list[Level], seed: int) -> Plan:
    library = ("--library", asked.library) if asked.library != "auto" else ()
    graphs = ("-G", str(asked.graphs)) if asked.graphs else ()
    words = (collective, "-b", str(asked.first), "-e", str(asked.last), "-f", str(asked.step), "-d", asked.type,
             "-w", "5", "-n", "20", "-c", "1", *graphs, *library, *asked.more.get(collective, ()))  # fmt: skip
    return Plan((Factor("settings", tuple(levels)),), words, asked.ranks, asked.launch, seed=seed)


def with_product(asked: Asked, what: str, folder: Path) -> Asked:
    """The same beside `what`: as much of it beside each size in every trial as things as they are take time for."""
    more = {name: words_beside(_plan(asked, name, [Level("as it is")], seed=0), what, folder / name)
            for name in asked.collectives}  # fmt: skip
    return replace(asked, beside=what, more=more)
