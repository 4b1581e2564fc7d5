"""A training whose steps wait for their data, by the times that its own lines tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.loader_stalls import Stall, stall
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "data-bound"
FEWEST, SHARE, LEAST_SECONDS = 6, 0.5, 0.02
_UNIT = r"\s?(?:\((?P<%s>ms|s|sec)\)|(?=[:= \t]))\s{0,4}[:=]?\s{0,6}(?P<%s>\d{1,9}(?:\.\d{1,9})?)\s?(?P<%s>ms|s)?\b"
_DATA = re.compile(
    r"\b(?:t_)?data(?:[ _]?(?:load(?:ing|er)?|wait|fetch))?(?:[ _]?time)?" + _UNIT % ("u1", "data", "u2"),
    re.IGNORECASE,
)
_TIME = re.compile(
    r"(?<!data )(?<!loading )\b(?:(?:batch|step|iter(?:ation)?|total)[ _]?)?time" + _UNIT % ("u1", "time", "u2")
    + r"|\b(?:step|iter|batch|t_step)" + (_UNIT % ("u3", "step", "u4")).replace("?P<u4>ms|s)?", "?P<u4>ms|s)"),
    re.IGNORECASE,
)  # fmt: skip
_PERCENT = re.compile(
    r"\bdata[ _]?(?:load(?:ing|er)?|wait|fetch)\w{0,8}[^%\n]{0,40}?(?P<part>\d{1,3}(?:\.\d{1,2})?) ?%", re.IGNORECASE
)
_WORKERS = re.compile(r"will create (?P<made>\d{1,4}) worker processes in total.{0,120}system is (?P<most>\d{1,4})\b")
_PHASES = re.compile(
    r"\b(?:wait(?:ing|ed)?|blocked|stalled)(?: time)? (?:for|on) (?:the )?(?:data|batch(?:es)?|input|loader)\W{1,4}"
    r"(?P<data>\d{1,9}(?:\.\d{1,9})?)\s?(?P<u1>ms|s)\b.{0,60}?"
    r"\b(?:comput\w{1,6}|forward\w{0,12}|training|gpu|busy)(?: time)?\W{1,4}"
    r"(?P<rest>\d{1,9}(?:\.\d{1,9})?)\s?(?P<u2>ms|s)\b",
    re.IGNORECASE,
)
"""Times of waiting and of computing beside each other, of a step or of an epoch."""
_OF_STEP = re.compile(r"\b(?:step|iter(?:ation)?|it|batch|epoch)\b\W{0,4}\d", re.IGNORECASE)
_NEXT = re.compile(
    r"(?:\bnext\(\w{0,20}\)|\b(?:next|get|fetch|load|read|wait)[ _]?(?:batch|samples?|data|input)\b|\bdata_?loader\b"
    r"|\b(?:batch|data|input)[ _](?:fetch|load(?:ing)?|wait|read)\b)(?: time)?\W{1,4}"
    r"(?P<data>\d{1,9}(?:\.\d{1,9})?) ?(?P<u1>ms|s)\b",
    re.IGNORECASE,
)
_WORK = re.compile(r"\b(?:fw|fwd|forward|bwd?|backward|fwbw|comput\w{1,6}|train|model|opt\w{0,8})\b", re.IGNORECASE)
_TIMES = re.compile(r"(?<![\w.])(?P<time>\d{1,9}(?:\.\d{1,9})?) ?(?P<unit>ms|s)\b(?!/)")
"""What a program calls its fetch of a batch, beside its work; all times of the line are at most the step's."""
_NO_WORKERS = re.compile(r"\b(?:num_|loader |dataloader |data )workers ?[=: ] ?0\b", re.IGNORECASE)
_LONG_S, _FEW = 1.0, 3
"""Of times so long fewer lines are enough: each is of many steps."""
_BINDS = re.compile(
    r"(?P<said>--bind-to[ =](?:core|hwthread)\b|--cpu-bind=\S{0,20}(?:cores|threads|map_cpu\S{1,60})"
    r"|\btaskset (?:-c|--cpu-list) \d{1,4}(?![\d,-])|\bnumactl \S{0,40}?(?:-C|--physcpubind)[ =]\d{1,4}(?![\d,-]))"
)
_ONE = re.compile(
    r"\bCPUs/Task=(?P<a>1)\b|--cpus-per-task[= ](?P<b>1)\b|Cpus_allowed_list:\s{1,8}(?P<c>\d{1,4})\s*$"
    r"|\] (?:MCW )?[Rr]ank \d{1,7} bound to (?:socket|package)[\[ ]\d{1,3}\]?"
    r"\[core:? ?L?\d{1,4}(?:\[hwt:? ?[\d-]{1,9}\])?\]"
    r"(?:: |:?\s*$)"
)


@dataclass(frozen=True, slots=True)
class _Wait:
    data: float
    step: float
    seen: Evidence


def examine(facts: Facts) -> Iterator[Finding]:
    told = next((found for shown in facts.shown if (found := stall(shown)) is not None), None)
    if told is not None:
        yield _of_stall(told)
        return
    for shown in facts.shown:
        # The first step waits for the loader's start.
        waits = list(_waits(shown))[1:]
        long = bool(waits) and min(each.step for each in waits) >= _LONG_S
        if len(waits) + 1 < (_FEW if long else FEWEST):
            continue
        share = median(min(1.0, each.data / each.step) for each in waits)
        if share < SHARE:
            continue
        middle = sorted(waits, key=lambda each: each.data)[len(waits) // 2]
        why, fix, seen = _why(facts)
        yield Finding(
            NAME, Severity.WARNING,
            f"steps wait for their data for {share:.0%} of the time" + why,
            (middle.seen, *seen),
            Cost(f"the GPUs rest for {share:.0%} of each step", 1 / (1 - share) if share < 1 else None,
                 "the log's own figures"),
            fix,
            Proof(instruction="the same with made-up data (zeros in memory): where it is fast, the loader holds it up"),
            stage=Stage.SETTING,
        )  # fmt: skip
        return


def _of_stall(told: Stall) -> Finding:
    """The finding of one rank that waits for its data, by timers and stacks."""
    who = f"the rank of {', '.join(told.hosts)}" if told.hosts else "a rank"
    least = f", the fastest rank {told.least_ms:.0f} ms" if told.least_ms is not None else ""
    often = f" in {told.reports} of {told.of} reports (up to {told.most_ms / 1e3:.1f} s{least})" if told.reports else ""
    where = f"; loaders hang in a file system ({told.waits_in})" if told.waits_in else ""
    return Finding(
        NAME, Severity.WARNING, f"{who} waits for its data{often}, and all others wait for it in collectives{where}",
        told.seen,
        Cost(f"up to {told.share:.0%} of a step" if told.reports else "all ranks go at the pace of that one",
             1 / (1 - told.share) if 0 < told.share < 1 else None, "the log's own figures"),
        (f"copy the data off that file system ({told.waits_in}) to a local disk or a parallel one before the run, and "
         "look at the way to it from that host" if told.waits_in else
         "look at the way from that host to its data (the mount, its cache, iostat), and keep the data on a local disk")
        + ". More loader workers and prefetch_factor only hide short waits",
        Proof(instruction="py-spy dump of that rank and its pt_data_worker processes in a slow step; the same run with "
              "made-up data (Megatron: --mock-data)"),
        stage=Stage.SETTING,
    )  # fmt: skip


def _waits(shown: Shown) -> Iterator[_Wait]:
    for number, line in enumerate(shown.lines, 1):
        lowered = line.lower()
        if ("next" in lowered or "batch" in lowered or "data" in lowered) and (wait := _fetch(line)) is not None:
            yield _Wait(*wait, Evidence(line.strip()[-160:], shown.source, number))
            continue
        if "data" not in lowered:
            continue
        seen = Evidence(line.strip()[-160:], shown.source, number)
        if "%" in line and "time" not in lowered and (found := _PERCENT.search(line)):
            if float(found["part"]) <= 100:
                yield _Wait(float(found["part"]), 100.0, seen)
            continue
        if found := _PHASES.search(line):
            waited, rest = _seconds(found["data"], found["u1"]), _seconds(found["rest"], found["u2"])
            if waited + rest >= LEAST_SECONDS:
                yield _Wait(waited, waited + rest, seen)
            continue
        data, time = _DATA.search(line), _TIME.search(line)
        if data is None or time is None:
            continue
        waited = _seconds(data["data"], data["u1"] or data["u2"])
        figure = time["time"] or time["step"]
        took = _seconds(figure, time["u1"] or time["u2"] or time["u3"] or time["u4"])
        if took >= LEAST_SECONDS and waited <= 1.05 * took:
            yield _Wait(waited, took, seen)


def _fetch(line: str) -> tuple[float, float] | None:
    """The time of a step's fetch and that of all that its line tells with a unit."""
    found = _NEXT.search(line)
    if found is None or _OF_STEP.search(line) is None or _WORK.search(line) is None:
        return None
    waited = _seconds(found["data"], found["u1"])
    whole = sum(_seconds(each["time"], each["unit"]) for each in _TIMES.finditer(line))
    return (waited, whole) if whole >= LEAST_SECONDS and whole > waited else None


def _seconds(figure: str, unit: str | None) -> float:
    return float(figure) / (1000.0 if unit and unit.lower() == "ms" else 1.0)


def _why(facts: Facts) -> tuple[str, str, tuple[Evidence, ...]]:
    """What the log tells of processors; the cure; where it stands."""
    bound = next(
        (
            (found["said"], Evidence(shortened(line.strip(), 200), shown.source, number))
            for shown in facts.shown
            for number, line in enumerate(shown.lines, 1)
            if ("bind" in line or "taskset" in line) and (found := _BINDS.search(line))
        ),
        None,
    )
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            few = "worker processes" in line and (found := _WORKERS.search(line)) and found
            if few and int(few["made"]) > int(few["most"]):
                said = f": {few['made']} loaders share {few['most']} processor{'s' * (few['most'] != '1')}"
            elif ("pus" in line or "PUs" in line or " bound to " in line) and _ONE.search(line):
                said = ": each rank has one processor for itself and its loaders"
            else:
                continue
            if bound is not None:
                said = f": {bound[0]} binds each rank to one core{said.replace(':', ', and', 1)}"
            return (
                said,
                "give each task processors (srun --cpus-per-task=12, and SRUN_CPUS_PER_TASK for srun inside sbatch; "
                "mpirun --bind-to none, or --map-by slot:PE=16; a pod's limit), and as many loader workers as it has",
                (Evidence(shortened(line.strip(), 200), shown.source, number), *((bound[1],) if bound else ())),
            )
    if (alone := _without_workers(facts)) is not None:
        return (
            ": the loader has no workers (num_workers 0), so that the training process itself reads and decodes",
            "DataLoader(num_workers=8 or so a rank, by its processors, pin_memory=True, persistent_workers=True, "
            "prefetch_factor=4): they prepare batches while the GPU computes. Then decode less, or on the GPU",
            (alone,),
        )
    return (
        "",
        "take more loader workers (num_workers, prefetch_factor, persistent_workers) and processors for them "
        "(--cpus-per-task). Keep the data on a local disk or in larger files, decode on the GPU. top and iostat tell "
        "which it is",
        (),
    )


def _without_workers(facts: Facts) -> Evidence | None:
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            if "orkers" in line and _NO_WORKERS.search(line):
                return Evidence(shortened(line.strip(), 200), shown.source, number)
    return None
