"""Figures of one job on few GPUs or nodes beside those on more, where more of them make each step slower."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, permutations
from statistics import median

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.findings.figures._scaling_reasons import Reason, between_gpus, between_nodes
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "more-gpus-slower"
SLOWER, FEWEST = 1.8, 2
"""Of steps with the same work for each GPU: a network that suits the model costs far less."""
_LONGEST, _MOST_PARTS = 300, 24
_NUMBERS = {"one": 1, "single": 1, "a": 1, "two": 2, "three": 3, "four": 4, "eight": 8, "sixteen": 16}
_LABEL = re.compile(
    r"^[\W_]{0,8}(?:(?:with|on|using|only|results?|log|output|for|of|from|training|run|and) ){0,3}"
    r"(?P<n>one|single|two|three|four|eight|sixteen|\d{1,4})[ -]?(?:x ?)?"
    r"(?:[AHVLTBP]\d{1,3}0{0,1}[A-Z]? |RTX ?\d{4} ?(?:Ti |SUPER )?)?"
    r"(?P<of>GPUs?|cards?|nodes?|machines?|servers?|hosts?)\b(?P<rest>.{0,60})$",
    re.IGNORECASE,
)
"""A heading that a person writes over a part of the log."""
_SAID = re.compile(
    r"--nproc[-_]per[-_]node[= ](?P<gpus_a>\d{1,3})\b|\bdist_train\.sh \S{1,200} (?P<gpus_b>\d{1,3})(?= |$)"
    r"|--num_processes[= ](?P<gpus_c>\d{1,4})\b|\bn_gpus=(?P<gpus_d>\d{1,5})\b|--world_size[= ](?P<gpus_e>\d{1,5})\b"
    r"|--nnodes[= ](?P<nodes_a>\d{1,4})\b|\bnum_nodes: (?P<nodes_b>\d{1,4})\b|--num_nodes[= ](?P<nodes_c>\d{1,4})\b"
)
"""Options and settings that tell how many: of a launcher, of MMEngine's script, of Composer."""
_WORK = (
    (re.compile(r"\b(?:samples_per_gpu|(?:micro|per_device_train|per_gpu|local)[-_]batch(?:[-_]size)?)"
                r"['\"]?[ =:]{1,3}(?P<n>\d{1,6})\b"), "micro"),
    (re.compile(r"(?<![\w-])(?:--)?batch[-_ ]size['\"]?[ =:]{1,3}(?P<n>\d{1,6})\b"), "batch"),
    (re.compile(r"\bgrad\w{0,5}_accum\w{0,7}(?:_steps|_batches)?['\"]?[ =:]{1,3}(?P<n>\d{1,6})\b"), "accumulated"),
    (re.compile(r"\b(?:max_)?seq\w{0,6}[-_]len\w{0,3}['\"]?[ =:]{1,3}(?P<n>\d{1,7})\b"), "length"),
    (re.compile(r"--model(?:_name(?:_or_path)?)?[ =](?P<n>\S{1,100})"), "model"),
    (re.compile(r"(?<![\w.])(?P<n>\d{1,4}(?:\.\d{1,2})?[bB])(?![\w/])"), "weights"),
    (re.compile(r"\b(?P<n>[AHVLTBP]\d{1,3}|RTX ?\d{4})\b"), "card"),
)  # fmt: skip
"""What else runs may differ by: then their steps do not compare."""
_GLOBAL = re.compile(r"\b(?:global|total)[-_ ](?:train[-_ ])?batch[-_ ]size['\"]?[ =:]{1,3}(?P<n>\d{1,7})\b")
_FIGURES = (
    (re.compile(r", time: (?P<n>\d{1,4}\.\d{1,4}), data_time: "), "a step"),  # MMEngine, MMCV
    (re.compile(r"(?<![\w.])(?P<n>\d{1,5}(?:\.\d{1,4})?) ?s/(?:it|iter|step)\b"), "a step"),
    (re.compile(r"(?<![\w.])(?P<n>\d{1,7}(?:\.\d{1,4})?) ?ms ?/ ?(?:it|iter|step)\b"), "a step"),
    (re.compile(r"elapsed time per iteration \(ms\): (?P<n>\d{1,8}(?:\.\d{1,4})?)"), "a step"),
    (re.compile(r"\b(?:step|iter|batch)[ _]time\W{1,4}(?P<n>\d{1,7}(?:\.\d{1,6})?)"), "a step"),
    (re.compile(r"\bbatches_per_sec\W{1,3}(?P<r>\d{1,6}\.\d{1,8})"), "a step"),  # Composer
    (re.compile(r"(?<![\w.])(?P<r>\d{1,5}\.\d{1,4}) ?it/s\b"), "a step"),
    (
        re.compile(r"\b(?:device/(?:tokens|samples)_per_sec|(?:tokens?|tok|samples?)/s(?:ec)?/(?:GPU|device|rank))"
                   r"\W{1,3}(?P<r>\d{1,8}(?:\.\d{1,6})?)", re.IGNORECASE), "the same work on a GPU",
    ),
    (
        re.compile(r"(?<![\w.])(?P<r>\d{1,8}(?:\.\d{1,4})?) ?(?:tokens?|tok|samples?|imgs?|images?|TFLOP)/s(?:ec)?/"
                   r"(?:GPU|device|rank)\b", re.IGNORECASE), "the same work on a GPU",
    ),
    (
        re.compile(r"(?<!device/)\b(?:samples_per_sec(?:ond)?|(?:samples?|imgs?|images?|tokens?)/s(?:ec)?)[ =:]{1,3}"
                   r"(?P<r>\d{1,8}(?:\.\d{1,6})?)(?!\S)", re.IGNORECASE), "the same work on all GPUs",
    ),
    (
        re.compile(r"(?<![\w.])(?P<r>\d{1,8}(?:\.\d{1,4})?) ?(?:samples?|imgs?|images?|tokens?)/s(?:ec)?\b(?!/)",
                   re.IGNORECASE), "the same work on all GPUs",
    ),
)  # fmt: skip
_ALL = "the same work on all GPUs"
_OF_HOST = 8
"""GPUs that a host has at most, mostly: of more than so many the network has a part."""
_LESS = 1.15
"""By so much more GPUs together must do less: they should do several times as much."""
_REMARK = re.compile(
    r"(?<![\d.])(?P<times>\d{1,3}(?:\.\d{1,2})?) ?(?:x|times)[ -]slower\b[^.]{0,60}?"
    r"\b(?:on|with|using|than) (?:a |just |only )?(?:one|single|1) (?:node|machine|host|server)\b.{0,40}"
)
_WORDS = ("time", "/s", "per_sec", "/it", "/step")


@dataclass
class _Part:
    """A stretch of the log with its numbers of GPUs and nodes, and the figures under them."""

    counts: dict[str, int] = field(default_factory=dict)
    work: dict[str, str] = field(default_factory=dict)
    batch: int | None = None
    figures: dict[tuple[int, str], list[tuple[float, Evidence]]] = field(default_factory=dict)


def examine(facts: Facts) -> Iterator[Finding]:
    for shown in facts.shown:
        found = _worst(_parts(shown))
        if found is not None:
            yield _finding(found, facts)
            return
    reason = between_nodes(facts)
    if reason.evidence:  # words alone are no figure: NCCL's own lines must say why
        yield from islice((each for shown in facts.shown for each in _remarks(shown, reason)), 1)


def _remarks(shown: Shown, reason: Reason) -> Iterator[Finding]:
    """What a person writes of the job on several nodes beside that on one."""
    for number, line in enumerate(shown.lines, 1):
        if "slow" in line and "NCCL" not in line and (found := _REMARK.search(line)) is not None:
            if (factor := float(found["times"])) < SLOWER:
                continue
            seen = (Evidence(clean(shortened(found[0], 200)), shown.source, number), *reason.evidence)
            yield _told(f"on several nodes the job is {factor:g} times slower than on one", factor, seen, reason)


def _parts(shown: Shown) -> list[_Part]:
    parts = [_Part()]
    for number, line in enumerate(shown.lines, 1):
        if len(line) > _LONGEST and "--" not in line:
            continue
        counts = dict(_counts(line))
        if counts and (parts[-1].figures or any(parts[-1].counts.get(each, n) != n for each, n in counts.items())):
            parts.append(_Part())
        parts[-1].counts |= counts
        _add_work(parts[-1], line)
        if any(word in line for word in _WORDS):
            _add_figure(parts[-1], line, shown.source, number)
        if len(parts) > _MOST_PARTS:
            return []  # an elastic job, or a table of many: nobody compares two runs by hand
    return [each for each in parts if each.counts and each.figures]


def _counts(line: str) -> Iterator[tuple[str, int]]:
    if len(line) < 120 and "NCCL" not in line and (label := _LABEL.match(line)) is not None:
        word = label["n"].lower()
        unit = "gpus" if label["of"].lower().startswith(("gpu", "card")) else "nodes"
        yield unit, _NUMBERS.get(word) or int(word)
    for found in _SAID.finditer(line[:1000]):
        for name, number in found.groupdict().items():
            if number and int(number):
                yield name.partition("_")[0], int(number)


def _add_work(part: _Part, line: str) -> None:
    """What the line says of the work of a step: the first that a part says counts."""
    if "NCCL" in line or line.startswith("|"):
        return
    for words, what in _WORK:
        if what not in part.work and (found := words.search(line[:1000])) is not None:
            part.work[what] = found["n"].lower()
    if part.batch is None and (found := _GLOBAL.search(line[:1000])) is not None:
        part.batch = int(found["n"])


def _add_figure(part: _Part, line: str, source: str, number: int) -> None:
    for way, (words, what) in enumerate(_FIGURES):
        if (found := words.search(line)) is None:
            continue
        groups = found.groupdict()
        figure = float(groups.get("n") or groups.get("r") or 0.0)
        if figure:
            cost = figure if groups.get("n") else 1.0 / figure
            seen = Evidence(clean(shortened(" ".join(line.split()), 200)), source, number)
            part.figures.setdefault((way, what), []).append((cost, seen))
        return


@dataclass(frozen=True, slots=True)
class _Pair:
    """More GPUs or nodes beside fewer: how many times as long the same takes, by figures of both."""

    unit: str
    few: int
    many: int
    what: str
    factor: float
    seen: tuple[Evidence, ...]
    nodes: bool
    sure: bool


def _worst(parts: Sequence[_Part]) -> _Pair | None:
    found = [pair for few, many in permutations(parts, 2) if (pair := _pair(few, many)) is not None]
    return max(found, key=lambda each: (each.sure, each.factor), default=None)


def _pair(few: _Part, many: _Part) -> _Pair | None:
    """The pair where the second part has more of what both count, and the same amount for each GPU."""
    unit = next((each for each in ("nodes", "gpus") if few.counts.get(each, 0) < many.counts.get(each, 0)), None)
    if unit is None or unit not in few.counts or not _compare(few, many, unit):
        return None
    best: _Pair | None = None
    for way in sorted(few.figures.keys() & many.figures.keys()):
        one, other = few.figures[way], many.figures[way]
        factor = median(each for each, _ in other) / median(each for each, _ in one)
        least = _LESS if way[1] == _ALL else SLOWER
        if factor < least or (best is not None and factor <= best.factor):
            continue
        several = min(len(one), len(other)) >= FEWEST
        enough = several or len(few.figures.keys() & many.figures.keys()) > 1
        of_nodes = unit == "nodes" or many.counts.get("nodes", 1) > 1
        of_nodes = of_nodes or few.counts[unit] <= _OF_HOST < many.counts[unit]
        seen = (other[len(other) // 2][1], one[len(one) // 2][1])
        best = _Pair(unit, few.counts[unit], many.counts[unit], way[1], factor, seen, of_nodes, enough)
    return best


def _compare(few: _Part, many: _Part, unit: str) -> bool:
    """Whether each GPU has as much to do in both, as far as the log tells."""
    if any(few.counts[each] > many.counts[each] for each in few.counts.keys() & many.counts.keys()):
        return False
    if any(few.work[each] != many.work[each] for each in few.work.keys() & many.work.keys()):
        return False
    more = many.counts[unit] / few.counts[unit]
    return not few.batch or not many.batch or many.batch / few.batch <= _LESS * more


def _finding(pair: _Pair, facts: Facts) -> Finding:
    reason: Reason = between_nodes(facts) if pair.nodes else between_gpus(facts)
    units = {"nodes": ("node", "nodes"), "gpus": ("GPU", "GPUs")}[pair.unit]
    few = f"{pair.few} {units[pair.few != 1]}"
    title = f"with {pair.many} {units[1]} {pair.what} takes {pair.factor:.1f} times as long as with {few}"
    told = _told(title, pair.factor, (*pair.seen, *reason.evidence), reason)
    return told if pair.sure or reason.evidence else replace(told, severity=Severity.NOTE)


def _told(title: str, factor: float, seen: tuple[Evidence, ...], reason: Reason) -> Finding:
    return Finding(
        NAME,
        Severity.WARNING,
        f"{title}: {reason.said}",
        seen,
        Cost(f"{factor:.1f} times the time", factor, "the log's own figures or words of both runs"),
        reason.fix,
        Proof(instruction=reason.proof),
        stage=Stage.EFFECT,
        undecided=not reason.evidence,
    )
