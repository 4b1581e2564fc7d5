"""The torch all_reduce_bench in its two forms: "algo throughput" of each rank, and the markdown table in GBps."""

from __future__ import annotations

import re
from dataclasses import replace
from statistics import median

from busbw.base.secrets import shortened
from busbw.importers.context import Surroundings
from busbw.importers.draft import Draft, Sink
from busbw.importers.values import number, size_in_bytes
from busbw.records import Case, Library, Tool
from busbw.records.bandwidth import GBps_from_Gbps

FORMAT = "torch all_reduce_bench"
CONVERSION = "algorithm bandwidth halved (the tool counts send plus receive) and turned from Gbps into GB/s"
DEFAULT_BYTES = 4_000_000_000
"""The script's matrix of 500000 x 2000 floats, the same in every version that prints "algo throughput"."""
DEFAULT_SIZE_NOTE = "the size is not in the text: 4 GB is what every version of the script moves"

_NUMBER = r"(\d{1,15}(?:\.\d{1,10})?)"
_THROUGHPUT = re.compile(rf"`?\s*algo throughput: (?:{_NUMBER} bps, )?{_NUMBER}(?: to {_NUMBER})? Gbps`?")
_DURATION = re.compile(rf"\s*duration: {_NUMBER} sec\s*$")
_BUSBW = re.compile(rf"\s*busbw: {_NUMBER}\s+Gbps\s*$")
_DATA_SIZE = re.compile(rf"\s*(?:\S{{1,200}} )?data size: {_NUMBER} GB\s*$")
_MAY_TELL = re.compile(r"duration:|busbw:|data size:|trial-|:\s*$").search
_WHO = re.compile(r"(\S{1,200}?):\s*$")
_TRIAL = re.compile(r"\s*-{3,}trial-(\d{1,6})-{3,}\s*$")
_LABEL = re.compile(r"\s*-?\s*\[([^\]]{1,100})\]\([^)]{1,300}\)")


class PerRank:
    """Each rank prints duration, algo throughput and busbw of each trial; a page may quote the throughput alone."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._collector = sink.shared(Ranks)
        self._size: int | None = None
        self._who: str | None = None
        self._duration: float | None = None
        self._trial: int | None = None
        self._seen: dict[str, int] = {}

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if "algo throughput:" in line:
            match = _THROUGHPUT.search(line)
            if match is None:
                self._sink.problem(number_, f"an algo throughput that cannot be read: {shortened(line.strip(), 80)!r}")
                return True
            return self._throughput(match, line, number_)
        return self._details(line)

    def _details(self, line: str) -> bool:
        if not _MAY_TELL(line):
            return False
        duration = _DURATION.match(line)
        if duration:
            self._duration = float(duration[1])
            return True
        busbw = _BUSBW.match(line)
        if busbw:
            return self._collector.busbw(self._name, float(busbw[1]))
        size = _DATA_SIZE.match(line)
        if size:
            self._size = round(float(size[1]) * 1e9)
            return True
        trial = _TRIAL.match(line)
        if trial:
            self._trial = int(trial[1])
            return True
        who = _WHO.fullmatch(line)
        if who:
            self._who = who[1]
        return False

    def _throughput(self, match: re.Match[str], line: str, number_: int) -> bool:
        low, high = float(match[2]), float(match[3] or match[2])
        size = self._size or DEFAULT_BYTES
        # bps keeps more digits than Gbps does.
        first = float(match[1]) / 1e9 if match[1] else low
        ends = (GBps_from_Gbps(first) / 2, GBps_from_Gbps(high) / 2)
        is_range = match[3] is not None
        quoted = "`" in line or is_range or self._duration is None
        algbw = None if is_range else round(ends[0], 6)
        case = Case(
            run="", case=0, collective="all_reduce", bytes=size, placement="in_place", outcome="measured",
            time_us=None if algbw is None or algbw <= 0 else round(size / algbw / 1000, 3), algbw_GBps=algbw,
            type="float", op="sum", count=size // 4, cycle=None if quoted else self._cycle() or None,
            range={"algbw_GBps": (round(ends[0], 6), round(ends[1], 6))} if is_range else {},
            conversion=CONVERSION + ("; time from size over algorithm bandwidth" if algbw else ""),
            context={} if quoted else {"rank": self._name},
        )  # fmt: skip
        if quoted:
            self._quoted(case, line, number_)
        else:
            self._collector.add(self._name, case, line, number_, sized=self._size is not None)
        self._duration = None
        return True

    @property
    def _name(self) -> str:
        """Who speaks: as the script says, else as the launcher does."""
        return self._who or self._sink.who or "rank 0"

    def _cycle(self) -> int:
        """Which trial this is: as the script says, else how often this rank has spoken."""
        if self._trial is not None:
            return self._trial
        who = self._name
        if len(self._seen) < 100_000 or who in self._seen:
            self._seen[who] = self._seen.get(who, -1) + 1
        return self._seen.get(who, 0)

    def _quoted(self, case: Case, line: str, number_: int) -> None:
        around = self._sink.sweep_starts()
        label = _LABEL.match(line)
        notes = [] if self._size else [DEFAULT_SIZE_NOTE]
        draft = Draft(
            format=FORMAT,
            tool=Tool("all_reduce_bench"),
            line=number_,
            collective="all_reduce",
            cases=[case],
            rows=1,
            content=[line.strip()],
            notes=notes,
            tags=(label[1],) if label else (),
        )
        self._sink.sweep_ends(draft, around)

    def close(self) -> None:
        """The collector outlives the lines of one rank."""


class Ranks:
    """The trials of all ranks of one run, whatever launcher's prefix told them apart."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._draft: Draft | None = None
        self._around: Surroundings | None = None
        self._seen: set[tuple[str, int | None]] = set()
        self._last: dict[str, int] = {}

    def add(self, who: str, case: Case, line: str, number_: int, *, sized: bool) -> None:
        """One rank's trial; a trial that this rank had before starts the next run."""
        key = (who, case.cycle)
        if key in self._seen or (self._draft is not None and self._draft.rows >= 20_000):
            self.close()
        if self._draft is None:
            self._around = self._sink.sweep_starts()
            notes = [] if sized else [DEFAULT_SIZE_NOTE]
            self._draft = Draft(FORMAT, Tool("all_reduce_bench"), number_, "all_reduce", notes=notes)
        self._seen.add(key)
        self._last[who] = len(self._draft.cases)
        self._draft.cases.append(case)
        self._draft.rows += 1
        self._draft.content.append(f"{who} {line.strip()}")

    def busbw(self, who: str, gigabits: float) -> bool:
        """The bus bandwidth of the rank's last trial."""
        if self._draft is None or who not in self._last:
            return False
        at = self._last.pop(who)
        self._draft.cases[at] = replace(self._draft.cases[at], busbw_GBps=round(GBps_from_Gbps(gigabits), 6))
        return True

    def close(self) -> None:
        """No more trials."""
        if self._draft is not None and self._around is not None:
            self._draft.size = _ranks_of_trial(self._draft)
            self._draft.notes += slow_ranks(self._draft.cases)
            self._sink.sweep_ends(self._draft, self._around)
        self._draft = self._around = None
        self._seen, self._last = set(), {}


def slow_ranks(cases: list[Case]) -> list[str]:
    """A sentence on the spread over ranks, and one for every rank that is far below the others."""
    by_rank: dict[str, list[float]] = {}
    for case in cases:
        if case.algbw_GBps:
            by_rank.setdefault(str(case.context.get("rank")), []).append(case.algbw_GBps)
    if len(by_rank) < 2:
        return []
    middles = {rank: median(figures) for rank, figures in by_rank.items()}
    middle, low, high = median(middles.values()), min(middles.values()), max(middles.values())
    notes = [f"{len(middles)} ranks report {low:.2f} to {high:.2f} GB/s, half of them above {middle:.2f} GB/s"]
    slow = sorted((figure, rank) for rank, figure in middles.items() if figure < 0.9 * middle)
    notes += [f"slow: {rank} with {figure:.2f} GB/s" for figure, rank in slow[:8]]
    return notes + ([f"and {len(slow) - 8} more slow ranks"] if len(slow) > 8 else [])


def _ranks_of_trial(draft: Draft) -> int | None:
    """2 (n - 1) / n is busbw over half of the throughput, which the tool prints with enough digits."""
    first = draft.cases[0]
    if not first.busbw_GBps or not first.algbw_GBps:
        return None
    factor = first.busbw_GBps / first.algbw_GBps
    size = round(2 / (2 - factor)) if factor < 1.999 else 0
    if size > 1 and abs(2 * (size - 1) / size - factor) < 1e-4:
        draft.notes.append(f"{size} ranks: from bus bandwidth over half of the algo throughput")
        return size
    return None


_TABLE_HEADER = re.compile(r"\|\s*payload\s*\|\s*busbw\s*\|\s*algbw\s*\|\s*$")
_AVERAGE_OF = re.compile(
    r"The average bandwidth of (\w{3,20}) over (\d{1,7}) ranks \((\d{1,7}) warmups / (\d{1,7}) trials"
)
_ROW = re.compile(rf"\|\s*([\d.]+\s*[KMGTPE]?i?B)\s*\|\s*{_NUMBER}GBps\s*\|\s*{_NUMBER}GBps\s*\|\s*$")
_SOFTWARE = re.compile(r"-\s*software:.*?\bnccl=[`(]*(\d+[.,] ?\d+[.,] ?\d+)")
_HARDWARE = re.compile(r"-\s*hardware:.{0,40}?\bname='([^']{1,80})'")


class Table:
    """The later form: a markdown table of payload, bus and algorithm bandwidth in GBps, printed by rank 0."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._draft: Draft | None = None
        self._around: Surroundings | None = None
        self._ranks: int | None = None
        self._trials: int | None = None
        self._nccl: str | None = None
        self._gpu: str | None = None

    def feed(self, line: str, number_: int) -> bool:
        """Whether the line belongs to this format."""
        if line.lstrip().startswith("|"):
            return self._table_line(line.strip(), number_)
        if self._draft is not None:
            self.close()
        if "software:" in line:
            found = _SOFTWARE.search(line)
            self._nccl = re.sub(r"[, ]+", ".", found[1]) if found else None
            return False
        if found := _HARDWARE.search(line):
            self._gpu = found[1]
            return False
        average = _AVERAGE_OF.match(line.strip())
        if average:
            self._ranks, self._trials = int(average[2]), int(average[4])
            return True
        return False

    def _table_line(self, line: str, number_: int) -> bool:
        if _TABLE_HEADER.match(line):
            ranks, trials, nccl, gpu = self._ranks, self._trials, self._nccl, self._gpu
            self.close()
            self._trials = trials
            self._around = self._sink.sweep_starts()
            self._draft = Draft(FORMAT, Tool("all_reduce_bench"), number_, "all_reduce", size=ranks,
                                library=Library("NCCL", version=nccl) if nccl else None,
                                options={"gpu": gpu} if gpu else {})  # fmt: skip
            return True
        if self._draft is None:
            return False
        if set(line) <= set("|-: "):
            return True
        row = _ROW.match(line)
        size = size_in_bytes(row[1]) if row else None
        if row is None or size is None:
            self._sink.problem(number_, f"a row of the table that cannot be read: {shortened(line, 80)!r}")
            return True
        algbw = number(row[3])
        self._draft.cases.append(Case(
            run="", case=0, collective="all_reduce", bytes=size, placement="in_place", outcome="measured",
            time_us=round(size / algbw / 1000, 3) if algbw else None, algbw_GBps=algbw, busbw_GBps=number(row[2]),
            type="float", op="sum", count=size // 4, iterations=self._trials,
            average="mean", conversion="time from size over algorithm bandwidth" if algbw else None,
        ))  # fmt: skip
        self._draft.rows += 1
        self._draft.content.append(line)
        return True

    def close(self) -> None:
        """The table ends."""
        if self._draft is not None and self._around is not None:
            if self._draft.cases:
                self._draft.size = self._draft.size or _ranks_of_table(self._draft)
                self._sink.sweep_ends(self._draft, self._around)
            else:
                self._sink.problem(self._draft.line, "a table starts here, but holds no rows")
        self._draft = self._around = self._ranks = self._trials = self._nccl = self._gpu = None


def _ranks_of_table(draft: Draft) -> int | None:
    from busbw.importers.shape import derived_ranks

    size = derived_ranks([replace(case, conversion=None) for case in draft.cases])
    if size:
        draft.notes.append(f"{size} ranks: from bus bandwidth over algorithm bandwidth, nothing names them")
    return size
