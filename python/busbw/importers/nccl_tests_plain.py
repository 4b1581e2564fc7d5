"""The usual rows of nccl-tests straight to lines of JSON: millions of them import without becoming objects first.

What this writes is what `cases_of` and the writer give for the same rows; a test holds the two against each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from operator import truediv

from busbw.importers.nccl_tests_rows import OPS, Cycles, Layout, Row, Sweep, cases_of, op_of, root_of
from busbw.importers.values import ELEMENT_BYTES, type_named
from busbw.records import Case, Collective
from busbw.records.bandwidth import bus_factor, payload_factor

# Numbers as JSON has them, so that their text can be taken over as it is: ASCII digits only.
_WHOLE = r"(?!0\d)\d{1,18}"
_NUMBER = r"(?!0\d)\d{1,15}(?:\.\d{1,6})?"
_WRONG = rf"(?:{_NUMBER}|N/A)"
_NUMBER_E = rf"{_NUMBER}(?:e[+-]\d\d)?"
_WRONG_E = rf"(?:{_NUMBER}(?:e\+\d\d)?|N/A)"
_LEADS = (("bytes", "count", "type", "op", "root"), ("bytes", "count", "type", "op"))
_GROUP = ("time", "algbw", "busbw", "wrong")


@cache
def matcher(layout: Layout) -> Callable[[str], object] | None:
    """Matches a usual row of that layout; None where the layout is not a usual one."""
    if layout.lead not in _LEADS or layout.groups != (_GROUP, _GROUP) or layout.timestamp or layout.milliseconds:
        return None
    lead = [_WHOLE, _WHOLE, f"(?:{'|'.join(ELEMENT_BYTES)})", f"(?:{'|'.join(sorted(OPS))}|none)"]
    lead += [r"-?\d{1,7}"] * (len(layout.lead) - 4)
    # Exponents are rare, and looking for them costs a quarter of the time of a row: the second try.
    groups = [_NUMBER, _NUMBER, _NUMBER, _WRONG] * 2, [_NUMBER_E, _NUMBER_E, _NUMBER_E, _WRONG_E] * 2
    tries = (r"\s*" + r"\s+".join([*lead, *each]) + r"\s*$" for each in groups)
    return re.compile("|".join(tries), re.ASCII).match


def row_of(line: str, layout: Layout) -> Row:
    """The row that a usual line of that layout holds."""
    words = tuple(line.split())
    at = len(layout.lead)
    return Row(words[:at], (words[at : at + 4], words[at + 4 :]), layout.placements, None)


@dataclass(frozen=True)
class PlainRows:
    """The figures of a table whose rows are all usual ones: its lines, until somebody asks for more."""

    rows: list[str]
    sweep: Sweep

    @cached_property
    def _words(self) -> list[str]:
        """The cells of all rows behind each other."""
        return " ".join(self.rows).split()

    def cases(self) -> list[Case]:
        """As cases."""
        return cases_of([row_of(line, self.sweep.layout) for line in self.rows], self.sweep)

    def lines(self, run: str, ranks: int | None) -> Iterator[str]:
        """As lines of JSON, those of one row at a time."""
        return lines_of(self.rows, self.sweep, run, ranks)

    @property
    def collective(self) -> Collective:
        """What all of them measure."""
        return self.sweep.collective

    def fastest(self) -> list[Case]:
        """The cases of the row with the largest algorithm bandwidth."""
        at = len(self.sweep.layout.lead) + 1
        best = max(self.rows, key=lambda row: max(map(float, row.split()[at::4][:2])))
        return cases_of([row_of(best, self.sweep.layout)], self.sweep)

    def keep(self, most_rate: float, least_us: float, ranks: int) -> bool:
        """Whether all rates (GB/s, printed and by size over time) are at most, all times at least as given."""
        at = len(self.sweep.layout.lead)
        factor = bus_factor(self.sweep.collective, ranks) or 0.0
        scale = factor * payload_factor(self.sweep.collective, ranks) / 1e3
        # Column by column: the loops over rows are those of C.
        words, width = self._words, at + 8
        times = list(map(float, words[at::width]))
        times_in = list(map(float, words[at + 4 :: width]))
        shortest = list(map(min, times, times_in))
        # A time of 0 breaks no bound, but it may be the shorter of the two: the slow way looks at both.
        least = min(shortest)
        if least < least_us or least <= 0:
            return False
        if max(map(float, words[at + 2 :: width])) > most_rate or max(map(float, words[at + 6 :: width])) > most_rate:
            return False
        rate: float = max(map(truediv, map(int, words[::width]), shortest)) * scale
        return rate <= most_rate

    def agree(self) -> bool:
        """Whether each row surely follows from its size, time and bandwidths; False sends them to a closer look."""
        at = len(self.sweep.layout.lead)
        words, width = self._words, at + 8
        sizes = list(map(float, words[::width]))
        for first in (at, at + 4):
            times, rates, buses = (list(map(float, words[first + each :: width])) for each in range(3))
            best = rates.index(max(rates))
            ratio = buses[best] / rates[best] if rates[best] else 0.0
            for size, time, rate, bus in zip(sizes, times, rates, buses, strict=True):
                room = 0.01 + 0.02 * rate
                if abs(bus - ratio * rate) > 2 * room or abs(size / 1000 - rate * time) > room * time:
                    return False
            if ratio and not 0.45 < ratio < 2.05:
                return False
        return True

    def __len__(self) -> int:
        return 2 * len(self.rows)


def lines_of(rows: list[str], sweep: Sweep, run: str, ranks: int | None) -> Iterator[str]:
    """Two lines of JSON per row, one for each placement."""
    head = f'{{"schema":1,"kind":"case","run":{json.dumps(run, ensure_ascii=False)},"case":'
    collective = f',"collective":"{sweep.collective}","bytes":'
    first, second = (
        f',"placement":{json.dumps(placement)},"outcome":"measured","time_us":' for placement in sweep.layout.placements
    )
    tail = _tail(sweep)
    at = len(sweep.layout.lead)
    middles: dict[tuple[str, ...], str] = {}
    cycles = Cycles()
    last: list[str] | None = None
    kind: tuple[str, ...] = ()
    shared = ""
    for index, row in enumerate(rows):
        words = row.split()
        size, now = words[0], words[2:at]
        cycle = cycles.of(size, now)
        if now != last:
            last, kind = now, tuple(now)
            if kind not in middles:
                middles[kind] = _middle(sweep, kind, ranks)
            shared = middles[kind]
        numbered = f',"cycle":{cycle}{shared}' if cycle else shared
        time, algbw, busbw, wrong, time_in, algbw_in, busbw_in, wrong_in = words[at:]
        checked = "" if wrong == "N/A" else f',"wrong":{wrong}'
        checked_in = "" if wrong_in == "N/A" else f',"wrong":{wrong_in}'
        count = f'{numbered},"count":{words[1]}'
        yield (
            f'{head}{2 * index}{collective}{size}{first}{time},"algbw_GBps":{algbw},"busbw_GBps":{busbw}{count}'
            f"{checked}{tail}"
            f'{head}{2 * index + 1}{collective}{size}{second}{time_in},"algbw_GBps":{algbw_in},"busbw_GBps":{busbw_in}'
            f"{count}{checked_in}{tail}"
        )


def _middle(sweep: Sweep, kind: tuple[str, ...], ranks: int | None) -> str:
    """Type, reduction, root and ranks, which few rows differ in."""
    lead = dict(zip(sweep.layout.lead[2:], kind, strict=True))
    return _fields(
        ("type", type_named(lead["type"])),
        ("op", op_of(lead["op"])),
        ("root", root_of(lead.get("root"))),
        ("ranks", ranks),
    )


def _tail(sweep: Sweep) -> str:
    options = sweep.options
    fields = _fields(
        ("checks", options.get("check")),
        ("iterations", options.get("iters")),
        ("aggregated", options.get("agg_iters")),
        ("graph_launches", options.get("cudagraph")),
    )
    return fields + "}\n"


@lru_cache(maxsize=256)
def _fields(*fields: tuple[str, object]) -> str:
    """Fields as they follow others in an object of JSON; the tables of one log differ little in them."""
    return "".join(f",{json.dumps(name)}:{json.dumps(value)}" for name, value in fields if value is not None)
