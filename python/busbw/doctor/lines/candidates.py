"""Which patterns of which signatures may speak of a line, told by one look at the line's pieces."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from busbw.doctor.lines import benign, busy, course, life, locales, trouble
from busbw.doctor.lines.hit import Hit
from busbw.doctor.lines.triggers import Needs, TriggerIndex, triggers_of
from busbw.doctor.signature import Signature, holds

WRITERS: Mapping[str, re.Pattern[str]] = {
    "perftest": re.compile(
        r"\b(?:RDMA_Write|RDMA_Read|Send|Atomic\w*|Raw_?Ethernet\w*)\b.{0,40}\b(?:BW|Latency|Bandwidth)\b.{0,24}Test"
        r"|\bib_(?:write|read|send|atomic)_(?:bw|lat)\b|\b(?:local|remote) address: LID 0x",
        re.IGNORECASE,
    ),
    "dcgm": re.compile(r"\bdcgmi\b|\bnvvs\b|\| Diagnostic +\| Result|\bDCGM Version\b"),
    "gpud": re.compile(r"\bgpud\b"),
}
"""Programs that check machines, by what they print of themselves: what fails beside it is what they check."""
_WATCHED: Mapping[str, tuple[str, ...]] = {
    **{name: triggers_of(each.pattern) for name, each in WRITERS.items()},
    "closed": triggers_of(life.CLOSED.pattern),
    "again": course.AGAIN_WORDS,
    "back": course.BACK_WORDS,
    "work": busy.WORDS,
    "wish": course.WISH_WORDS,
    "end": course.WORDS,
    "dealt": life.DEALT_WORDS,
    "start": triggers_of(life.START.pattern),
    "on": triggers_of(life.ON.pattern),
    "alive": life.ALIVE_WORDS,
    "error": trouble.ERROR_WORDS,
    "odd": trouble.ODD_WORDS,
    "calm": trouble.CALM_WORDS,
    "level": triggers_of(trouble.LEVEL.pattern),
    "shown": (
        *(
            "packets transmitted",
            "pmtu ",
            "rate:",
            "gb/s",
            "gbps",
            "gb/sec",
            "mb/s",
            "busbw",
            "tflop",
            "tok/s",
            "tokens/s",
        ),
        *("samples/s", "img/s", "_ms", "fwd", "step_time", "compute_", "data:", "data_time", "data time", "data_load"),
        *("dataload", "data load", "\tdata", "| data", "debug=1", "nvcc ", "sanitizer", "powersave", "limit for gpu"),
        *("clocks set to", "gpu0", "osu_", "osu mpi", "cpus_allowed_list", "affinity list", "batch-generator"),
        *("power.default_limit", "default power limit", "pfc configuration", "_prio0_", " ber", "spine", "uplink"),
        *("next_data", "symbolerror", "symbol_error", "linkerrorrecovery", "initialize any net plugin"),
        *("wait_batch", "batch_wait", "batch wait", "data_wait", "input_wait", "wait_data", "wait data", "get_batch"),
        *("next() ", "next():", "next()=", "loader workers 0", "num_workers 0", "num_workers=0", "num_workers: 0"),
        *(
            "ids [",
            "ids: [",
            "ids=[",
            "ids (",
            "idx [",
            "indices [",
            "indices: [",
            "indices=[",
            "samples [",
            "examples [",
        ),
        *("ms per step", "ms/step"),
        *("load_batch", "next_batch", "fetch_batch", "batch_load", "batch_fetch"),
        # Servers that tell on which address they listen.
        *("endpoint ", "listen ", "local node ip: 127.", "on 127.0.0.1:", "on localhost:", "//127.0.0.1:"),
        *("file_baton", "filelock/_", "fcntl.flock", "fcntl.lockf", "lock_inode_wait", "fasteners/", "portalocker/"),
        *("not acquired on", "file lock '"),
        *("_reasons.active", "ar_sl_mask", "power brake", "cpus-per-task", "cpus/task", "rtx 40", "rtx 50"),
        *("nccl_p2p_disable=1", "nccl_p2p_level=loc"),
        # Processes that say that they are alone.
        *("rank 0/1", "rank 0 of 1", "rank: 0/1", "rank=0/1", "rank 0 out of 1", "process 0 of 1", "world_size=1"),
        *("world_size: 1", "world_size 1", "world size: 1", "world size 1", "world size=1", "num_processes: 1"),
        *("'world_size': 1", "waiting for data", "pending placement groups"),
        *("active_mtu:", "rx_oversize", "proto kernel scope link", "pcie relax order"),
        *("custom_all_reduce", "cuda graph addresses"),
        *("partner lacp pdu",),
        *("nccl.conf",),
        *("pretty_name=",),
        # Headings over figures of one job on few and on many GPUs.
        *("one gpu", "single gpu", "1 gpu", "one node", "single node", "1 node", "n_gpus=", "num_nodes: "),
        *("dist_train.sh", "single-node", "single machine", "one machine"),
    ),
}
"""Words without which an expression cannot be found in a line."""
SHOWN_WORDS = _WATCHED["shown"]
"""Those of lines at which findings look as they stand."""
_ALWAYS = frozenset(name for name, words in _WATCHED.items() if not words)
_NAMES = tuple(_WATCHED)
_MAX_PLANS = 20_000


class Candidate(NamedTuple):
    """A signature, and those of its patterns of which a trigger stands in a line."""

    signature: Signature
    patterns: tuple[int, ...]


class Seen(NamedTuple):
    """What a line may be: of which patterns, which harmless lines, in another language, and what else is in it."""

    candidates: tuple[Candidate, ...]
    harmless: tuple[re.Pattern[str], ...]
    foreign: bool
    watched: frozenset[str]


class _Plan(NamedTuple):
    """Patterns of which a trigger stands in a line, with what else they need, and what the line is without them."""

    patterns: tuple[tuple[str, int, Needs], ...]
    nothing: Seen


class Candidates:
    """The triggers of all patterns of the signatures, of harmless lines, and of messages in other languages."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self._named = {each.name: each for each in signatures}
        self._owners = [(each, number) for each in signatures for number in range(len(each.patterns))]
        words = [each.triggers[number] for each, number in self._owners]
        self._benign = len(words)
        self._watched = self._benign + len(benign.TRIGGERS)
        self._foreign = self._watched + len(_WATCHED)
        self._index = TriggerIndex([*words, *benign.TRIGGERS, *_WATCHED.values(), *locales.TRIGGERS])
        self._plans: dict[tuple[int, ...], _Plan] = {}

    def of(self, lowered: str) -> Seen:
        """What the line, which is in lower case, may be."""
        numbers = tuple(self._index.of(lowered))
        plan = self._plans.get(numbers)
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            plan = self._plans[numbers] = self._plan(numbers)
        found: dict[str, list[int]] = {}
        for name, number, needs in plan.patterns:
            if not holds(needs, lowered):
                continue
            if name in found:
                found[name].append(number)
            else:
                found[name] = [number]
        if not found:
            return plan.nothing
        candidates = tuple([Candidate(self._named[name], tuple(numbers)) for name, numbers in found.items()])
        return Seen(candidates, *plan.nothing[1:])

    def _plan(self, numbers: tuple[int, ...]) -> _Plan:
        """What lines with these triggers may be, before their other words are looked at."""
        patterns = list[tuple[str, int, Needs]]()
        harmless, watched, foreign = list[re.Pattern[str]](), set(_ALWAYS), False
        for each in numbers:
            if each < self._benign:
                signature, number = self._owners[each]
                # What a pattern needs is worked out when a trigger of it was seen: most never are in one run.
                patterns.append((signature.name, number, signature.needs[number]))
            elif each < self._watched:
                harmless.append(benign.PATTERNS[each - self._benign])
            elif each < self._foreign:
                watched.add(_NAMES[each - self._watched])
            else:
                foreign = True
        return _Plan(tuple(patterns), Seen((), tuple(harmless), foreign, frozenset(watched)))


@lru_cache(maxsize=4)
def of_all(signatures: tuple[Signature, ...]) -> Candidates:
    """The index of these signatures, made once."""
    return Candidates(signatures)


def look_for(
    line: str, number: int, candidates: Sequence[Candidate], hits: dict[str, Hit], *, foreign: bool = False
) -> bool:
    """Whether any of the signatures speaks of the line; of a `foreign` one as English tells it, shown as it stands."""
    spoken = locales.in_english(line) if foreign else line
    lowered = spoken.lower()
    found = False
    # Those that are a last resort stand behind all others (stable order of `sorted`).
    for each, patterns in sorted(candidates, key=_is_last):
        if found and each.last:
            break
        groups = each.match(spoken, lowered, patterns)
        if groups is None:
            continue
        found = True
        hits.setdefault(each.name, Hit()).add(line, number, groups, together=each.holds is not None)
    return found


def _is_last(each: Candidate) -> bool:
    return each.signature.last
