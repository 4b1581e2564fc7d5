"""GPUs that heat slows down, or a clock that somebody set low: which, to how many MHz, and what the others run at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from busbw.base.secrets import shortened
from busbw.base.text import clean
from busbw.doctor.clues.machine.power import gpus_named, is_of_slowdown, lines_of_hosts
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding

_ROW = re.compile(
    r"(?:^|\s{0,6}(?P<host>[A-Za-z][\w.-]{0,80}): )nvidia-smi says of GPU (?P<gpu>\d{1,3}): (?P<cells>.{3,1200})"
)
_CLOCK = re.compile(r"\bclocks\.(?:current\.)?(?:sm|gr|graphics): (?P<MHz>\d{2,5})\b")
_HEAT = re.compile(r"\btemperature\.gpu: (?P<heat>\d{1,3})\b")
_BUS = re.compile(r"\b(?:pci|gpu)(?:\.|_)bus_id: (?:[0-9a-fA-F]{4,8}:)?(?P<bus>[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d)\b")
_BRAKED = re.compile(r"HW Power Brake: Active|power_brake_slowdown: Active")
_BY_HEAT = re.compile(r"[HS]W Thermal Slowdown: Active|[hs]w_thermal_slowdown: Active")
_SLOWED = re.compile(r"HW Slowdown: Active|hw_slowdown: Active")
_APART = re.compile(r"GPU clocks are limited to \d{2,5} MHz, others run")
_NAMES_REASONS = re.compile(r"clocks_(?:event|throttle)_reasons\.active")
"""Where the reasons are told, they tell whether it is heat."""
_HOT = 85
"""Degrees at which a GPU that its hardware slows down, for no reason that it names, is too hot."""
_BY_HAND = re.compile(r"GPU clocks are limited to (?P<MHz>\d{2,5}) MHz(?: by hand| of \d{2,5} MHz: clocks set by hand)")
_SET = re.compile(
    r"(?:\b(?P<who>[\w.@-]{2,40})(?:\[\d{1,8}\])?: )?(?:Applications|GPU) clocks set to \W{0,2}\([^)\n]{3,60}\)\W?"
    r" for GPU (?:[0-9A-Fa-f]{4,8}:)?(?P<bus>[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
)
"""What nvidia-smi prints where somebody sets clocks, behind the program's name as the journal writes it."""


@dataclass(frozen=True, slots=True)
class _Row:
    """The last row that tells of a GPU."""

    host: str
    gpu: str
    cells: str
    seen: Evidence

    def figure(self, words: re.Pattern[str]) -> int | None:
        """The number that the words find in the row."""
        found = words.search(self.cells)
        return int(found[1]) if found else None


def with_held_down(findings: Sequence[Finding], facts: Facts) -> list[Finding]:
    """The findings; that of GPUs slowed down names those that are too hot, or whose clock somebody set."""
    if not any(is_of_slowdown(each) for each in findings):
        return list(findings)
    rows = list(_read(facts))
    if any(_BRAKED.search(each.cells) for each in rows):
        return list(findings)  # told as what it is
    hot = [each for each in rows if _is_hot(each)]
    low = [each for each in rows if _BY_HAND.search(each.cells)]
    if not hot and not low:
        return list(findings)
    rest = [each for each in rows if each not in (hot or low)]
    return [
        (_hot(each, hot, rest) if hot else _set_low(each, low, rest, facts)) if is_of_slowdown(each) else each
        for each in findings
    ]


def _is_hot(row: _Row) -> bool:
    if _BY_HEAT.search(row.cells):
        return True
    apart = _APART.search(row.cells) and not _NAMES_REASONS.search(row.cells)
    return bool(apart or _SLOWED.search(row.cells)) and (row.figure(_HEAT) or 0) >= _HOT


def _hot(finding: Finding, hot: Sequence[_Row], rest: Sequence[_Row]) -> Finding:
    title = f"heat slows {_who(hot)} down"
    clocks, heat = _figures(hot, _CLOCK), _figures(hot, _HEAT)
    title += f" to {min(clocks)} MHz" if clocks else ""
    title += f" at {max(heat)} degrees" if heat else ""
    return replace(
        finding,
        title=f"{title}{_others(rest)}",
        fix=f"mend the cooling of {_who(hot[:1])}: heat sink and thermal paste, fans, liquid loop, blanking panels and "
        "inlet temperature (ipmitool sdr type Fan; nvidia-smi -q -d TEMPERATURE). Leave it or its host out of the job "
        "until it stays below its limit under load: all ranks go at the pace of the slowest GPU",
        evidence=(*(each.seen for each in hot[:3]), *(each.seen for each in rest[:1])),
    )


def _set_low(finding: Finding, low: Sequence[_Row], rest: Sequence[_Row], facts: Facts) -> Finding:
    lowest = min(int(found["MHz"]) for each in low if (found := _BY_HAND.search(each.cells)))
    gpus = ",".join(each.gpu for each in low)
    title = f"somebody set the clock of {_who(low)} to {lowest} MHz, and nothing set it back{_others(rest)}"
    fix = f"nvidia-smi -i {gpus} -rac and nvidia-smi -i {gpus} -rgc"
    buses = {found["bus"].lower() for each in low if (found := _BUS.search(each.cells))}
    act = _act(facts, buses)
    if act is not None:
        who, seen = act
        title += f": {who} did (line {seen.line})" if who else ""
        fix += f", and let {who or 'what set it'} set the clock back before work starts, or remove it"
    else:
        fix += ", and look for what sets it: a prolog, an epilog, a service that saves power, or somebody's test"
    evidence = (*(each.seen for each in low[:2]), *(each.seen for each in rest[:1]), *((act[1],) if act else ()))
    return replace(finding, title=title, fix=fix, evidence=evidence)


def _act(facts: Facts, buses: set[str]) -> tuple[str, Evidence] | None:
    """Who set the clocks of one of these GPUs last, and the line that tells it."""
    found = None
    for shown in facts.shown:
        for number, line in enumerate(shown.lines, 1):
            said = _SET.search(line) if "clocks set to" in line else None
            if said is not None and (not buses or said["bus"].lower() in buses):
                found = clean(said["who"] or ""), Evidence(clean(shortened(line.strip(), 200)), shown.source, number)
    return found


def _who(rows: Sequence[_Row]) -> str:
    hosts = {each.host for each in rows} - {""}
    where = f" of {clean(min(hosts))}" if len(hosts) == 1 else f", so on {len(hosts)} hosts," if hosts else ""
    return f"{gpus_named([each.gpu for each in rows])}{where}"


def _others(rest: Sequence[_Row]) -> str:
    clocks, heat = _figures(rest, _CLOCK), _figures(rest, _HEAT)
    said = [f"at {median(clocks):.0f} MHz"] if clocks else []
    said += [f"at most {max(heat)} degrees"] if heat else []
    return f" (others: {', '.join(said)})" if said else ""


def _figures(rows: Sequence[_Row], words: re.Pattern[str]) -> list[int]:
    return [figure for each in rows if (figure := each.figure(words)) is not None]


def _read(facts: Facts) -> Iterator[_Row]:
    """The last row of each GPU, in the order of the rows."""
    rows: dict[tuple[str, str], _Row] = {}
    for _, name, line, seen in lines_of_hosts(facts):
        if "nvidia-smi says of GPU" in line and (found := _ROW.match(line)):
            host = found["host"] or name
            rows[host, found["gpu"]] = _Row(host, found["gpu"], found["cells"], seen)
    yield from rows.values()
