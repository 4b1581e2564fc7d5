"""A remark in a log that the same job went faster before, where no figure of the log comes near to that."""

from __future__ import annotations

import re
from collections.abc import Iterator

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "once-faster"
_PAST = re.compile(
    r"\b(?:yesterday|last (?:week|night|month)|previously|formerly|used to (?:be|get|run|reach|do|have)"
    r"|before the (?:update|upgrade|reboot|change|maintenance)"
    r"|the same (?:config|script|job|run|model) (?:ran|did|reached|had))\b",
    re.IGNORECASE,
)
_REMARK = re.compile(r"\s{0,8}(?:[#(>*]|//|--)|\s{0,4}[A-Z]?[a-z']{1,20}(?: [a-z']{1,20}){2}")
"""What a person writes: behind a sign of a comment, in brackets, or as words."""
_FIGURE = re.compile(
    r"(?<![\w.])(?P<figure>\d{1,6}(?:\.\d{1,3})?) ?(?P<unit>tok(?:ens?)?/s(?:ec)?\b|samples?/s(?:ec)?\b"
    r"|im(?:g|ages?)/s\b|GB/s\b|TFLOPS?\b|TFLOP/s|ms ?/ ?it(?:er(?:ation)?)?\b|s/it\b|ms/step\b|s/step\b)",
    re.IGNORECASE,
)
_OF_STEP = re.compile(r"elapsed time per iteration \(ms\): (?P<ms>\d{1,7}(?:\.\d{1,3})?)")
_FAR = 1.5
_FEWEST = 2


def examine(facts: Facts) -> Iterator[Finding]:
    for shown in facts.shown:
        if (found := _remark(shown)) is None:
            continue
        seen, figure, unit = found
        now = _figures(shown, unit, seen.line or 0)
        of_time = _is_time(unit)
        # The same figure for the prompt and the answer, or for a step and an epoch: who of them is meant, nobody says.
        if len(now) < _FEWEST or any(figure / _FAR < each < figure * _FAR for each in now):
            continue
        worse = [each for each in now if (each > figure if of_time else each < figure)]
        if worse:
            yield _finding(seen, figure, unit, (min if of_time else max)(worse), sure=len(worse) == len(now))


def _remark(shown: Shown) -> tuple[Evidence, float, str] | None:
    """The first remark on the past with a figure, that figure and its unit."""
    for number, line in enumerate(shown.lines, 1):
        if "NCCL" in line or not _PAST.search(line) or not _REMARK.match(line):
            continue
        if (found := _FIGURE.search(line)) and float(found["figure"]):
            seen = Evidence(clean(shortened(line.strip(), 200)), shown.source, number)
            return seen, float(found["figure"]), _plain(found["unit"])
    return None


def _figures(shown: Shown, unit: str, remark: int) -> list[float]:
    """What the other lines tell in that unit."""
    found = list[float]()
    for number, line in enumerate(shown.lines, 1):
        if number == remark:
            continue
        if unit == "ms/it" and (step := _OF_STEP.search(line)):
            found.append(float(step["ms"]))
        found += [float(each["figure"]) for each in _FIGURE.finditer(line) if _plain(each["unit"]) == unit]
    return [each for each in found if each]


def _plain(unit: str) -> str:
    """One spelling of each unit."""
    bare = unit.lower().replace(" ", "").replace("/sec", "/s")
    for begin, plain in (("tok", "tokens/s"), ("sample", "samples/s"), ("im", "images/s"), ("tflop", "TFLOP/s")):
        if bare.startswith(begin):
            return plain
    return "ms/it" if bare.startswith(("ms/it", "ms/step")) else "s/it" if bare.startswith("s/") else "GB/s"


def _is_time(unit: str) -> bool:
    return unit.endswith("/it")


def _finding(seen: Evidence, before: float, unit: str, now: float, *, sure: bool) -> Finding:
    factor = max(before / now, now / before)
    return Finding(
        NAME,
        Severity.WARNING if sure else Severity.NOTE,
        f"by a remark in the log it went at {before:g} {unit} before, and now at {now:g}: {factor:.1f} times slower",
        (seen,),
        Cost(f"{factor:.1f} times the time", factor if sure else None, "the remark and the log's own figures"),
        "look at what changed since: clocks, heat and power of each GPU (nvidia-smi -q -d PERFORMANCE,CLOCK on all "
        "hosts), PCIe links, ports and NICs that NCCL uses, images, drivers and settings",
        Proof(instruction="run the same job on another host, or with the former image: which of both brings it back"),
        stage=Stage.EFFECT,
        undecided=True,
    )
