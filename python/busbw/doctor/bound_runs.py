"""The same test twice: once with each rank bound to a core by its launcher, and once without, and faster."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.finding import Evidence
from busbw.doctor.reading.shown import Shown

LARGE_BYTES = 1 << 20
SLOWER, FEWEST = 1.3, 3
"""By so much in the middle of so many large sizes: runs of one test on one machine differ by far less."""
_ONE_CORE = re.compile(
    r"(?:MCW )?rank (?P<rank>\d{1,7})\b.{0,12} bound to (?:socket|package)[\[ ](?P<socket>\d{1,3})\]?"
    r"\[core:? ?L?\d{1,4}(?:\[hwt:? ?[\d-]{1,9}\])?\](?:: |:?\s*$)"
)
_BY_SETTING = re.compile(
    r"(?P<set>OMPI_MCA_hwloc_base_binding_policy=(?:core|hwthread)|PRTE_MCA_\w{0,40}bind\w{0,20}=(?:core|hwthread)"
    r"|--?bind-to[ =](?:core|hwthread)|--cpu-bind[= ](?:\w{1,20},)?cores?\b)"
)
_FREE = re.compile(r"--?bind-to[ =]none|--cpu-bind[= ]none|\brank \d{1,7}\b.{0,12} (?:is )?not bound")
_HEAD = re.compile(r"#\s?(?:nThread \d|Collective test starting)")
_PROGRAM = re.compile(r"\b(?P<name>(?:all_reduce|all_gather|reduce_scatter|broadcast|alltoall|sendrecv|reduce)_perf)\b")
_RANK = re.compile(r"#\s{1,4}Rank\s{1,6}\d{1,6}\b.{0,120}?\[0x[0-9a-f]{1,4}\] (?P<gpu>.{3,60})")
_ROW = re.compile(
    r"\s{1,20}(?P<bytes>\d{1,14})\s{1,14}\d{1,14}\s{1,12}[a-z]\w{1,12}(?:\s{1,12}[a-z]\w{1,12})?\s{1,12}-?\d{1,6}\s{1,12}"
    r"\d[\d.]{0,12}\s{1,12}\d[\d.]{0,12}\s{1,12}(?P<busbw>\d[\d.]{0,12})\s"
)


@dataclass
class _Run:
    """One table, and what stands between it and the table before."""

    source: str
    line: int = 0
    program: str = ""
    gpus: list[str] = field(default_factory=list)
    bound: list[tuple[str, Evidence]] = field(default_factory=list)
    policy: str = ""
    free: bool = False
    rates: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Slowed:
    """What two runs tell together: how much slower, at which size, by what, and where that is seen."""

    factor: float
    told: str
    seen: tuple[Evidence, ...]


def slowed_by_binding(all_shown: Iterable[Shown]) -> Slowed | None:
    """The loss of the run whose ranks have a core each against the one whose ranks have not; None without both."""
    runs = [run for shown in all_shown for run in _runs(shown) if run.rates]
    for mine in runs:
        if not (mine.bound or mine.policy) or mine.free:
            continue
        for other in runs:
            if other.bound or other.policy or (mine.program, mine.gpus) != (other.program, other.gpus):
                continue
            sizes = [size for size in mine.rates if size >= LARGE_BYTES and mine.rates[size] and size in other.rates]
            if len(sizes) < FEWEST:
                continue
            factor = median(other.rates[size] / mine.rates[size] for size in sizes)
            if factor >= SLOWER:
                return _told(mine, other, max(sizes), factor)
    return None


def _told(mine: _Run, other: _Run, size: int, factor: float) -> Slowed:
    sockets = {socket for socket, _ in mine.bound}
    where = f", all of them on socket {next(iter(sockets))}" if len(sockets) == 1 and len(mine.bound) > 1 else ""
    by = f" ({clean(mine.policy)})" if mine.policy else ""
    rows = tuple(
        Evidence(f"{run.rates[size]:.4g} GB/s at {size} bytes, {how}", run.source, run.line)
        for run, how in ((mine, "bound"), (other, "not bound"))
    )
    rates = f"{mine.rates[size]:.3g} GB/s, and {other.rates[size]:.3g} without"
    return Slowed(
        factor, f"each rank is bound to one core{where}{by}: {rates}", (*rows, *[seen for _, seen in mine.bound[:2]])
    )


def _runs(shown: Shown) -> list[_Run]:
    """The tables of one log, each with the lines that came before it."""
    runs = [_Run(shown.source)]
    for number, line in enumerate(shown.lines, 1):
        run = runs[-1]
        if run.rates and ("# Avg bus bandwidth" in line or _HEAD.match(line)):
            runs.append(run := _Run(shown.source))
        if found := _ROW.match(line):
            run.rates[int(found["bytes"])] = float(found["busbw"])
            run.line = number
        elif found := _RANK.match(line):
            run.gpus.append(found["gpu"].strip())
        else:
            _read_launch(run, line, Evidence(clean(shortened(line.strip(), 160)), shown.source, number))
    return runs


def _read_launch(run: _Run, line: str, seen: Evidence) -> None:
    if found := _PROGRAM.search(line):
        run.program = found["name"]
    if "bound to" in line and (found := _ONE_CORE.search(line)):
        run.bound.append((found["socket"], seen))
    if "ind" in line and (found := _BY_SETTING.search(line)):
        run.policy = found["set"]
    run.free = run.free or _FREE.search(line) is not None
