"""Lists of kept runs, and one run with its cases, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from busbw.analysis.samples import Figure
from busbw.analysis.statistics import relative_spread
from busbw.analysis.units import format_bytes, format_us
from busbw.base.text import WIDTH, clean, columns, sentences, shorten
from busbw.records import Case, ConfSetting, Record
from busbw.runs.query import Listed
from busbw.runs.store import Labels


def runs_table(runs: Sequence[Listed]) -> list[str]:
    """A line per run in 80 columns: what was run, how much came of it, what went wrong, what it is called."""
    header = ["run", "ranks", "cases", "GB/s", "collective", "remarks"]
    rows = [
        [
            shorten(each.run, 32), "-" if each.ranks is None else str(each.ranks), str(each.cases),
            "-" if each.peak_busbw_GBps is None else f"{each.peak_busbw_GBps:.1f}", shorten(each.collectives, 14),
            _remarks(each),
        ]
        for each in runs
    ]  # fmt: skip
    return [line[:WIDTH].rstrip() for line in columns(header, rows, left=(0, 4, 5))]


def _remarks(run: Listed) -> str:
    """What is not as it should be, in capitals before the tags, so that it is not cut off."""
    wrong = "WRONG DATA" if run.wrong else ""
    outcome = run.outcome.upper() if run.outcome != "completed" else ""
    return " ".join(part for part in (wrong, outcome, run.tags) if part)


def run_text(record: Record, labels: Labels, folder: Path) -> str:
    """Everything about one run."""
    run = record.run
    library = run.library
    facts = [
        ("run", run.run),
        ("folder", str(folder)),
        ("started", run.started),
        (
            "ended",
            f"{record.end.outcome}{f': {record.end.reason}' if record.end.reason else ''}" if record.end else "no",
        ),
        ("tool", " ".join(part for part in (run.tool.name, run.tool.version) if part)),
        ("library", " ".join(part for part in (library.name, library.version) if part) if library else None),
        ("library file", library.path if library else None),
        ("machine", run.machine),
        ("hosts", ", ".join(dict.fromkeys(rank.host for rank in run.ranks)) or None),
        ("ranks", str(len(run.ranks)) if run.ranks else None),
        ("command", " ".join([run.program or "", *run.arguments]).strip() or None),
        ("tags", " ".join([*run.tags, *labels.tags]) or None),
        ("note", labels.note or None),
    ]
    lines = [f"{name:<13}{clean(value)}" for name, value in facts if value]
    lines += [
        f"{'environment' if i == 0 else '':<13}{clean(k)}={clean(v)}"
        for i, (k, v) in enumerate(run.environment.items())
    ]
    lines += [
        f"{'' if i else 'not exported':<13}{clean(each.name)}={clean(each.value)} ({_place(each)})"
        for i, each in enumerate(run.conf)
    ]
    lines += sentences([*run.notes, *record.notes])
    return "\n".join([*lines, "", *_cases(record.cases)]) + "\n"


def _place(setting: ConfSetting) -> str:
    at = clean(setting.file) + (f", line {setting.line}" if setting.line is not None else "")
    return at if setting.in_force else f"{at}; not in force"


def _cases(cases: Sequence[Case]) -> list[str]:
    header = ["size", "time", "spread", "algbw", "busbw", "wrong", "case"]
    rows = [
        [
            format_bytes(case.bytes), "-" if case.time_us is None else format_us(case.time_us), _spread(case),
            _rate(case.algbw_GBps), _rate(case.busbw_GBps), "-" if case.wrong is None else f"{case.wrong:g}",
            _what(case),
        ]
        for case in cases
    ]  # fmt: skip
    return columns(header, rows, left=(6,))


def _spread(case: Case) -> str:
    values = Figure((case,)).best_samples()
    return f"{100 * relative_spread(values):.1f} %" if len(values) > 1 else "-"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _what(case: Case) -> str:
    parts = [case.collective, case.type, case.op, case.variant, (case.placement or "").replace("_", " ")]
    text = " ".join(part for part in parts if part)
    return text if case.outcome == "measured" else f"{text}: {case.outcome.replace('_', ' ')}, {case.reason}"
