"""The words of a report: its title, its verdict in a sentence, how it was measured, and how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from busbw.analysis.ranges import describe
from busbw.analysis.units import format_us
from busbw.base.options import MEASURING, options_of
from busbw.base.text import clean
from busbw.base.words import value_of
from busbw.records import Record
from busbw.report.curves import Curve
from busbw.report.judging import Judge
from busbw.report.tables import size_text
from busbw.report.variants import PLACEMENTS, Section

_TITLE = ("library", "nodes", "cluster", "date")
SHOWN = 4
"""So many verdicts open a report; the rest unfolds on the page."""
_MOST_NAMED = 3
"""So many values of one fact still fit a title."""


def headline(sections: Sequence[Section]) -> str:
    """`AllReduce float sum, NCCL 2.29.3, 2 ranks, Standard_NC48ads_A100_v4, 2026-11-22`, as far as it was recorded."""
    curves = [curve for section in sections for curve in section.curves]
    parts = [_among([_work(curve) for curve in curves], "collectives")]
    for fact in _TITLE:
        values = [_fact(curve, fact) for curve in curves]
        parts.append(
            _among(values, {"library": "libraries", "nodes": "shapes", "cluster": "clusters"}.get(fact, "days"))
        )
    return ", ".join(part for part in parts if part) or "Collectives"


def _work(curve: Curve) -> str:
    return " ".join(curve.facts[name] for name in ("collective", "type", "root") if name in curve.facts)


def _fact(curve: Curve, fact: str) -> str:
    """The library with its version; where nothing names the machine, the devices do."""
    if fact == "library":
        return " ".join(curve.facts[name] for name in ("library", "version") if name in curve.facts)
    if fact == "cluster" and fact not in curve.facts:
        names = [rank.device.name for rank in curve.records[0].run.ranks if rank.device]
        return _among([name or "" for name in names], "kinds of devices")
    return curve.facts.get(fact, "")


def _among(values: Sequence[str], many: str) -> str:
    shown = [clean(value) for value in dict.fromkeys(values) if value]
    if len(shown) > _MOST_NAMED:
        return f"{len(shown)} {many}"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def verdicts(sections: Sequence[Section], judge: Judge) -> list[str]:
    """One sentence for every column against its base, or of a column that stands alone; the largest sizes first."""
    found = []
    for section in sections:
        where = f"{section.title}: " if len(sections) > 1 else ""
        found += [f"{where}{sentence}" for sentence in _of_section(section, judge)]
    return [f"No verdict: {judge.missing}", *found] if judge.missing else found


def opening(section: Section, judge: Judge) -> list[str]:
    """The verdicts of a section in a text that cannot unfold them: of many columns the marks in the tables say more."""
    found = list(_of_section(section, judge))
    if judge.missing:
        found.insert(0, f"No verdict: {judge.missing}")
    return found if len(found) <= SHOWN else []


def _of_section(section: Section, judge: Judge) -> Iterator[str]:
    """The placement that comes first in the table is said first; the other only where it says something else."""
    bases = [_base(section, i) for i in range(len(section.curves))]
    for i, (curve, base) in enumerate(zip(section.curves, bases, strict=True)):
        said = _against(curve, section.curves[base], judge) if base != i else []
        pair = f"{_quoted(section.names[i])} against {_quoted(section.names[base])}"
        yield from (f"{pair}{f', {where}' if where else ''}: {words}." for where, words in said)
        if base != i and not said and not judge.missing and not _shares_a_size(curve, section.curves[base]):
            yield f"{pair}: no verdict, as they share no size. Measure both at the same sizes to compare them."
        if bases.count(base) == 1 and (text := _alone(curve)):
            yield text if len(bases) == 1 else f"{_quoted(section.names[i])}: {text[0].lower()}{text[1:]}"


def _base(section: Section, i: int) -> int:
    """The base column, where it does the same work; else the first column that does."""
    work = section.curves[i].collective
    if section.base is not None and section.curves[section.base].collective == work:
        return section.base
    return next(j for j, curve in enumerate(section.curves) if curve.collective == work)


def _shares_a_size(curve: Curve, base: Curve) -> bool:
    mine, theirs = ({(case.bytes, case.placement) for case in each.cases} for each in (curve, base))
    return not mine.isdisjoint(theirs)


def _against(curve: Curve, base: Curve, judge: Judge) -> list[tuple[str, str]]:
    """A placement and what is to say of it; no placement where all of them read the same."""
    said: list[tuple[str, str]] = []
    for placement in curve.placements:
        found = judge.comparison(base, curve, placement, of_times=curve.ranks == base.ranks)
        if found is not None:
            words = [each for sweep in found.sweeps for each in reversed(describe(sweep.ranges, "it"))]
            said.append((PLACEMENTS[placement], "; ".join(words)))
    alike = len({words for _, words in said}) == 1
    return [("", said[0][1])] if alike and said else said


def _alone(curve: Curve) -> str | None:
    """The two ends of one sweep: its highest bandwidth and its lowest latency. In place, one rank has nothing to do."""
    measured = [case for case in curve.cases if curve.ranks != 1 or case.placement != "in_place"]
    bus = [(case.busbw_GBps, case.bytes, "bus") for case in measured if case.busbw_GBps]
    rates = bus or [(case.algbw_GBps, case.bytes, "algorithm") for case in measured if case.algbw_GBps]
    times = [(case.time_us, case.bytes) for case in measured if case.time_us]
    parts = []
    if rates:
        rate, size, kind = max(rates)
        parts.append(f"highest {kind} bandwidth {rate:.2f} GB/s, at {size_text(size)}")
    if times:
        time, size = min(times)
        parts.append(f"lowest latency {format_us(time)}, at {size_text(size)}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else None


def _quoted(name: str) -> str:
    return f"'{clean(name)}'" if "," in name or " " in name else clean(name)


def how_measured(sections: Sequence[Section]) -> list[str]:
    """What measured, how often, with what spread; what was not recorded is said."""
    found: dict[str, list[str]] = {}
    for section in sections:
        for curve, name in zip(section.curves, section.names, strict=True):
            found.setdefault(_measured(curve), []).append(name)
    alike = len(found) == 1
    return [
        text if alike else f"{', '.join(map(_quoted, dict.fromkeys(names)))}: {text}" for text, names in found.items()
    ]


def _measured(curve: Curve) -> str:
    run, first = curve.records[0].run, curve.cases[0]
    parts = [" ".join(part for part in (run.tool.name, run.tool.version) if part)]
    if run.source:
        parts.append(f"read from {run.source.file}")
    if run.source and run.source.url:
        parts.append(run.source.url)
    warm = run.options.get("warmup_iters")
    if first.iterations:
        calls = f"each time over {first.iterations} call{'s' if first.iterations != 1 else ''}"
        parts.append(calls + (f", after {warm} untimed" if warm else ""))
    repeats = len(curve.records)
    if repeats > 1:
        parts.append(f"{repeats} runs")
    batches = len(first.batches_us[0]) if first.batches_us else 0
    parts.append(f"{batches} times for each case" if batches > 1 else "one time for each case" if repeats == 1 else "")
    missing = [name for name in ("library", "date") if name not in curve.facts]
    if missing:
        parts.append(f"{' and '.join(missing)} not recorded")
    return clean("; ".join(part for part in parts if part))


def how_to_repeat(sections: Sequence[Section], words: Sequence[str]) -> list[str]:
    """The command of each run, as it was recorded, and the command that makes this page."""
    records: dict[int, Record] = {}
    for section in sections:
        for curve in section.curves:
            records.update({id(record): record for record in curve.records[:1]})
    found = []
    for record in records.values():
        run = record.run
        if run.program:
            said = run.arguments or _options(run.options)
            several = f"    # {run.processes} processes" if run.source and (run.processes or 1) > 1 else ""
            found.append(shlex.join([run.program, *said]) + several)
        elif run.source and run.source.command:
            found.append(run.source.command)
    return [*dict.fromkeys(clean(each) for each in found), shlex.join(["busbw", "report", *map(clean, words)])]


def _options(read: Mapping[str, object]) -> Iterator[str]:
    """The words that a log's heading stands for, in which no command was kept; defaults go without saying."""
    for option in options_of(MEASURING):
        value = read.get(option.key) if option.theirs and option.letter else None
        if isinstance(value, int) and (option.default is None or value != value_of(option, option.default)):
            units = ((30, "G"), (20, "M"), (10, "K")) if option.unit == "bytes" and value else ()
            shift, unit = next((each for each in units if value % (1 << each[0]) == 0), (0, ""))
            yield from (f"-{option.letter}", f"{value >> shift}{unit}")
