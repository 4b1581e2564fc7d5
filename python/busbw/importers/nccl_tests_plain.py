"""The usual rows of nccl-tests straight to lines of JSON: millions of them import without becoming objects first.

What this writes is what `cases_of` and the writer give for the same rows; a test holds the two against each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import truediv

from busbw.importers.nccl_tests_rows import Cycles, Layout, Row, Sweep, cases_of, op_of, root_of
from busbw.importers.values import type_named
from busbw.records import Case, Collective
from busbw.records.bandwidth import bus_factor, payload_factor


def row_of(line: str, layout: Layout) -> Row:
    """The row that a usual line of that layout holds."""
    words = tuple(line.split())
    at = len(layout.lead)
    return Row(words[:at], (words[at : at + 4], words[at + 4 :]), layout.placements, None)


class _Seen(dict[str, float]):
    """Numbers by their text: sizes and bandwidths of two decimals come again and again, and looking up is fast."""

    def __missing__(self, text: str) -> float:
        if len(self) >= MAX_SEEN:
            self.clear()
        value = self[text] = float(text)
        return value


MAX_SEEN = 100_000
_SEEN = _Seen()


@dataclass(frozen=True)
class PlainRows:
    """The figures of a table whose rows are all usual ones: its lines, until somebody asks for more."""

    rows: list[str]
    sweep: Sweep

    def __reduce__(self) -> tuple[type[PlainRows], tuple[list[str], Sweep]]:
        # What was computed from the rows does not travel to another process.
        return PlainRows, (self.rows, self.sweep)

    @cached_property
    def _words(self) -> list[str]:
        """The cells of all rows behind each other."""
        return " ".join(self.rows).split()

    @cached_property
    def _figures(self) -> list[list[float]]:
        """Sizes, and times, algorithm and bus bandwidths of both placements: column by column, by the loops of C."""
        at = len(self.sweep.layout.lead)
        words, width = self._words, at + 8
        sizes, rates, buses, rates_in, buses_in = (
            list(map(_SEEN.__getitem__, words[each::width])) for each in (0, at + 1, at + 2, at + 5, at + 6)
        )
        times, times_in = (list(map(float, words[each::width])) for each in (at, at + 4))
        return [sizes, times, rates, buses, times_in, rates_in, buses_in]

    def cases(self) -> list[Case]:
        """As cases."""
        return cases_of([row_of(line, self.sweep.layout) for line in self.rows], self.sweep)

    def lines(self, run: str, ranks: int | None) -> Iterator[str]:
        """As lines of JSON, those of many rows at a time."""
        words, width = self._words, len(self.sweep.layout.lead) + 8
        alike = all(words[each::width].count(words[each]) == len(self.rows) for each in range(2, width - 8))
        if alike and words[::width].count(words[0]) == 1 and not self._unchecked:
            return iter((columns_to_json(words, self.sweep, run, ranks),))
        return lines_of(self.rows, self.sweep, run, ranks)

    @property
    def _unchecked(self) -> bool:
        words, width = self._words, len(self.sweep.layout.lead) + 8
        return any("N/A" in words[each::width] for each in (width - 5, width - 1))

    @property
    def collective(self) -> Collective:
        """What all of them measure."""
        return self.sweep.collective

    def fastest(self) -> list[Case]:
        """The cases of the row with the largest algorithm bandwidth."""
        rates = list(map(max, self._figures[2], self._figures[5]))
        return cases_of([row_of(self.rows[rates.index(max(rates))], self.sweep.layout)], self.sweep)

    def keep(self, most_rate: float, least_us: float, ranks: int) -> bool:
        """Whether all rates (GB/s, printed and by size over time) are at most, all times at least as given."""
        factor = bus_factor(self.sweep.collective, ranks) or 0.0
        scale = factor * payload_factor(self.sweep.collective, ranks) / 1e3
        sizes, times, _, buses, times_in, _, buses_in = self._figures
        # A time of 0 breaks no bound, but it may be the shorter of the two: the slow way looks at both.
        least = min(*times, *times_in)
        if least < least_us or least <= 0:
            return False
        if max(buses) > most_rate or max(buses_in) > most_rate:
            return False
        rate: float = max(*map(truediv, sizes, times), *map(truediv, sizes, times_in)) * scale
        return rate <= most_rate

    def agree(self) -> bool:
        """Whether each row surely follows from its size, time and bandwidths; False sends them to a closer look."""
        sizes, times, rates, buses, times_in, rates_in, buses_in = self._figures
        return _all_follow(sizes, times, rates, buses) and _all_follow(sizes, times_in, rates_in, buses_in)

    def __len__(self) -> int:
        return 2 * len(self.rows)


def _ratio(rates: list[float], buses: list[float]) -> float:
    """Bus over algorithm bandwidth of the fastest row."""
    best = max(rates)
    return buses[rates.index(best)] / best if best else 0.0


def _all_follow(sizes: list[float], times: list[float], rates: list[float], buses: list[float]) -> bool:
    ratio = _ratio(rates, buses)
    if ratio and not 0.45 < ratio < 2.05:
        return False
    low, high = ratio - 0.04, ratio + 0.04
    for size, time, rate, bus in zip(sizes, times, rates, buses, strict=True):
        # The size in thousands over the time, and the bus bandwidth, each with room for what two decimals hide.
        if not (
            (0.98 * rate - 0.01) * time <= size / 1000 <= (1.02 * rate + 0.01) * time
            and low * rate - 0.02 <= bus <= high * rate + 0.02
        ):
            return False
    return True


_PIECES = 9
"""Texts of which a line of JSON is joined: constants and cells in turn."""


@lru_cache(maxsize=64)
def _leads(collective: str, sizes: tuple[str, ...], placement: str | None, second: int) -> list[str]:
    """What stands between `"case":` and the time, row by row: the tables of one log have the same sizes."""
    place = f',"placement":{json.dumps(placement)},"outcome":"measured","time_us":'
    return [
        f'{2 * index + second},"collective":"{collective}","bytes":{size}{place}' for index, size in enumerate(sizes)
    ]


@lru_cache(maxsize=64)
def _counts(shared: str, counts: tuple[str, ...]) -> list[str]:
    """What stands between the bus bandwidth and the wrong elements, row by row."""
    return [f'{shared},"count":{count},"wrong":' for count in counts]


def columns_to_json(words: list[str], sweep: Sweep, run: str, ranks: int | None) -> str:
    """The lines of JSON of rows that differ in size, count and figures only: put together column by column.

    What `lines_of` gives for the same rows in a third of the time.
    """
    at = len(sweep.layout.lead)
    width = at + 8
    sizes = tuple(words[::width])
    head = f'{{"schema":1,"kind":"case","run":{json.dumps(run, ensure_ascii=False)},"case":'
    tail = _tail(sweep)
    counts = _counts(_middle(sweep, tuple(words[2:at]), ranks), tuple(words[1::width]))
    pieces = [tail + head, "", "", ',"algbw_GBps":', "", ',"busbw_GBps":', "", "", ""] * (2 * len(sizes))
    pieces[0] = head
    step = 2 * _PIECES
    for second, placement in enumerate(sweep.layout.placements):
        offset, figures = second * _PIECES, at + 4 * second
        pieces[offset + 1 :: step] = _leads(sweep.collective, sizes, placement, second)
        pieces[offset + 7 :: step] = counts
        for piece, column in ((2, figures), (4, figures + 1), (6, figures + 2), (8, figures + 3)):
            pieces[offset + piece :: step] = words[column::width]
    pieces.append(tail)
    return "".join(pieces)


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
