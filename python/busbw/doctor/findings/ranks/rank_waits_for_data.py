"""One rank waits for its data and all others for that rank, by the times that each rank prints of its steps."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.lines.speakers import rank_of
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "rank-waits-for-data"
FEWEST, TIMES, LEAST_SECONDS, SHARE = 4, 3.0, 0.02, 0.5
OF_STEP = 0.1
"""Of a step that must be lost at least."""
_LONGEST = 400
_FIGURE = (
    r"(?:[ _]?time)?(?:[ _]?\(?(?:ms|s|sec)\)?)?[\s:=|\"']{1,12}(?P<figure>\d{1,9}(?:\.\d{1,9})?) ?(?P<unit>ms|s)?\b"
)
_DATA = re.compile(
    r"\b(?:t_)?(?:wait[ _]?(?:batch|data|input|loader)|(?:batch|input)[ _]?(?:wait|fetch|load(?:ing)?)"
    r"|data(?:[ _]?(?:wait|load(?:ing|er)?|fetch))?|(?:get|next|load|fetch)[ _]?(?:batch|data))" + _FIGURE,
    re.IGNORECASE,
)
_SYNC = re.compile(
    r"\b(?:t_)?(?:all[ _-]?reduce|reduce[ _-]?scatter|all[ _-]?gather|grad(?:ient)?s?[ _]?(?:sync|reduce|all_?reduce)"
    r"|reduce|sync|comms?|communication|barrier|nccl)" + _FIGURE,
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"\b(?:t_)?(?P<what>rest|other|misc|logg?(?:ing)?|monitor(?:ing)?|eval(?:uation)?|metrics?|callbacks?|hooks?"
    r"|sav(?:e|ing)|ckpt|checkpoint(?:ing)?|host|python|cpu)" + _FIGURE,
    re.IGNORECASE,
)
"""Work that one rank may do beside its steps, as rank 0 often does."""
_FIGURES = re.compile(r"(?<![\w.])(?P<figure>\d{1,9}\.\d{1,9}) ?(?P<unit>ms|s)?\b")
"""All times of a line; other figures among them make it less likely that anything is told."""
_MEAN = re.compile(r"\b(?:mean|avg|average|median|p50)\b", re.IGNORECASE)
_IN_MS = re.compile(r"\(ms\)|\bms per step\b|\bms/step\b|_ms\b|\d ?ms\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Step:
    data: float
    sync: float
    whole: float
    seen: Evidence
    what: str = ""


def examine(facts: Facts) -> Iterator[Finding]:
    steps: dict[str, list[_Step]] = defaultdict(list)
    means: dict[str, list[_Step]] = defaultdict(list)
    for shown in facts.shown:
        for rank, step in _steps(shown):
            (means if _MEAN.search(step.seen.fact) else steps)[rank].append(step)
    # The first step waits for the loader's start on every rank.
    usual = {rank: each[1:] for rank, each in steps.items() if len(each) > FEWEST}
    usual = usual if len(usual) > 1 else means
    if (slow := _slowest(usual)) is None:
        return
    rank, others = slow
    waits = median(each.data for each in usual[rank])
    idle = median(each.sync for other in others for each in usual[other])
    what = usual[rank][0].what
    named = ", ".join(sorted(others, key=int)[:8]) + (" ..." if len(others) > 8 else "")
    if what:
        seen = _middle(usual[rank]), _middle(usual[min(others, key=int)])
        yield _of_work(what, rank, named, (waits, idle), seen)
        return
    yield Finding(
        NAME, Severity.WARNING,
        f"rank {rank} waits {_ms(waits)} for its data in each step, and rank {named} for it: their {_ms(idle)} in the "
        "collective are no time of the network",
        (_middle(usual[rank]), _middle(usual[min(others, key=int)])),
        Cost("every step takes as long as on the rank that waits for its data"),
        f"look at the input of rank {rank}, not at NCCL: its storage and host (iostat, top), a larger or slower shard, "
        "fewer loader workers or processors there. More workers, prefetch_factor and data on a local disk help. Share "
        "samples out by their length or size",
        Proof(instruction="the same with made-up data (zeros in memory): the others' collectives get short"),
        stage=Stage.SETTING,
    )  # fmt: skip


def _of_work(what: str, rank: str, named: str, times: tuple[float, float], seen: tuple[Evidence, ...]) -> Finding:
    """The finding of a rank that does other work beside its steps, by the column's name."""
    work, idle = times
    return Finding(
        NAME, Severity.WARNING,
        f"rank {rank} spends {_ms(work)} of each step in work of its own (`{what}`), and rank {named} waits for it: "
        f"their {_ms(idle)} in the collective are no time of the network",
        seen,
        Cost("every step takes as long as on the rank with that work"),
        f"look at what rank {rank} alone does in each step (monitor, logging, metrics, a checkpoint, an evaluation). "
        "Do it seldom, every 100 steps or so, or in another thread or process, without synchronising the GPU (.item(), "
        ".cpu()). Or share it out over the ranks. NCCL and the network are not slow",
        Proof(instruction="the same run with that work turned off: the others' collectives get short"),
        stage=Stage.SETTING,
    )  # fmt: skip


def _slowest(steps: Mapping[str, list[_Step]]) -> tuple[str, list[str]] | None:
    """The rank that waits far longer for data than most, and those that spend that time in the collective."""
    if len(steps) < 2:
        return None
    waits = {rank: median(each.data for each in told) for rank, told in steps.items()}
    syncs = {rank: median(each.sync for each in told) for rank, told in steps.items()}
    rank = max(waits, key=lambda each: waits[each])
    usual = sorted(waits.values())[(len(waits) - 1) // 2]
    lost = waits[rank] - usual
    others = [each for each, sync in syncs.items() if sync >= SHARE * lost and waits[each] * TIMES <= waits[rank]]
    waits_too = syncs[rank] > SHARE * lost
    least = max(LEAST_SECONDS, OF_STEP * median(each.whole for each in steps[rank]))
    if lost < least or waits[rank] < TIMES * usual or waits_too or 2 * len(others) < len(steps):
        return None
    return rank, others


def _steps(shown: Shown) -> Iterator[tuple[str, _Step]]:
    for number, line in enumerate(shown.lines, 1):
        data = None if len(line) > _LONGEST else _DATA.search(line) or _OTHER.search(line)
        if data is None:
            continue
        sync, rank = _SYNC.search(line), rank_of(line)
        if sync is not None and rank:
            in_ms = _IN_MS.search(line) is not None
            seen = Evidence(clean(shortened(line.strip(), 160)), shown.source, number)
            whole = sum(_seconds(each, in_ms=in_ms) for each in _FIGURES.finditer(line))
            what = data.groupdict().get("what", "").lower()
            yield rank, _Step(_seconds(data, in_ms=in_ms), _seconds(sync, in_ms=in_ms), whole, seen, what)


def _seconds(found: re.Match[str], *, in_ms: bool) -> float:
    thousandths = found["unit"].lower() == "ms" if found["unit"] else in_ms
    return float(found["figure"]) / (1000.0 if thousandths else 1.0)


def _middle(steps: list[_Step]) -> Evidence:
    return sorted(steps, key=lambda each: each.data + each.sync)[len(steps) // 2].seen


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
