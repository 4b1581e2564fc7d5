"""Tables of people's own with a figure for each host, rank, GPU or pair of hosts: who lies apart from all others."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from busbw.base.secrets import shortened

_UNITS = (
    r"[GM]i?B/s(?:ec)?|G(?:bps|Bps|bit/s|b/s(?:ec)?)|TFLOPS?(?:/s)?|tok(?:ens)?/s(?:ec)?|samples/s(?:ec)?"
    r"|im(?:a?g|age)s?/s(?:ec)?"
)
_RATE_NAME = re.compile(
    r"\W{0,2}(?:bus_?bw|alg_?bw|bw|bw_?avg|(?:avg_?)?bandwidth|throughput|tps|tflops?|mfu)"
    rf"[\W_]{{0,2}}(?:{_UNITS})?\W{{0,2}}|\W{{0,2}}(?:\w{{1,12}}_)?(?:{_UNITS}|gbps)\W{{0,2}}",
    re.IGNORECASE,
)
_TIME_NAME = re.compile(
    r"\W{0,2}(?:compute|forward|fwd|bwd|backward|fwd_bwd|gemm|matmul|step|iter|all_?reduce)(?:_?time)?_?"
    r"(?:\(?(?:ms|us|s)\)?)?\W{0,2}",
    re.IGNORECASE,
)
_PAIR = re.compile(
    r"\b(?P<name>[A-Za-z_]{2,20})\s?[=:]\s{0,3}(?P<value>\d{1,9}(?:\.\d{1,6})?)\s?(?P<unit>ms|us|s)?"
    r"(?=[\s,;|)]|$)"
)
_WITH_UNIT = re.compile(rf"(?<![\w.])(?P<value>\d{{1,9}}(?:\.\d{{1,6}})?)\s?(?P<unit>{_UNITS})(?![\w/])", re.IGNORECASE)
_WHO = re.compile(
    r"(?<![\w./:=-])(?:(?P<kind>rank|gpu)[ =:#]{0,2}(?P<number>\d{1,5})(?![\w.-]*\d)"
    r"|(?P<kind2>node|host)[ =:#]{1,2}(?P<number2>\d{1,5})(?![\w.-]*\d)"
    r"|(?P<host>[A-Za-z][\w.-]{1,60}))(?=[\s:,;|)\]>]|<->|$)",
    re.IGNORECASE,
)
_HOST = re.compile(r"(?=.{0,60}\d)(?:[A-Za-z][A-Za-z-]|[cgnr]\d)")
_NO_HOST = re.compile(
    r"(?:mlx\d|mthca|eth\d|en[osp]\d|ib\d|bond\d|gpu\d|cuda|fp\d|bf\d|int\d|uint|float|half|sm_?\d|step|iter|epoch|nccl"
    r"|ll\d|xid|layer|version|cx\d|gen\d|size|tcp|rc\d|run\d|trial|round|job|python|torch)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?")
_WORD = re.compile(r"[A-Za-z_/]{2,24}:?")
_PRODUCT = re.compile(r"[A-Za-z]{1,4}\d{2,4}[A-Za-z]{0,4}")
_JUDGEMENT = re.compile(
    r"(?:ok|pass\w*|fail\w*|slow\w*|warn\w*|degraded|low|bad|good|error|outlier|normal|alert|check)\W?",
    re.IGNORECASE,
)
_SIZE = re.compile(r"\W?(?:size|bytes|msg(?:_?size)?|nbytes)\b", re.IGNORECASE)
FEWEST, LOW, ALIKE = 4, 0.75, 0.85
MOST_ROWS = 5000
"""Of what the others reach: a figure below the first lies apart, where all others lie above the second."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line with a figure of one or two who are named."""

    line: int
    who: tuple[str, ...]
    figure: float
    said: str


@dataclass(frozen=True, slots=True)
class Apart:
    """Who is slow: its rows, and the figure of the others. `pair`: two that are slow together alone."""

    who: str
    rows: tuple[Row, ...]
    usual: float
    name: str
    is_rate: bool
    pair: bool = False

    @property
    def factor(self) -> float:
        """How many times worse than the others."""
        mine = median(row.figure for row in self.rows)
        return max(self.usual, mine) / max(min(self.usual, mine), 1e-9)


def apart(lines: Sequence[str]) -> Iterator[Apart]:
    """Those who lie apart in the tables of a log, the first figure that tells it for each."""
    told = set[str]()
    groups = defaultdict[tuple[object, ...], list[Row]](list)
    for key, row in _rows(lines):
        if len(groups[key]) < MOST_ROWS:
            groups[key].append(row)
    # Rates before times, of which a short one may be of a rank that waits.
    for key, rows in sorted(groups.items(), key=lambda each: not each[0][0]):
        is_rate, name, count = bool(key[0]), str(key[1]), len(rows[0].who)
        found = _of_pairs(rows) if count > 1 else _of_one(rows, is_rate=is_rate)
        for who, mine, usual in found:
            if who not in told:
                told.add(who)
                yield Apart(who, tuple(mine), usual, name, is_rate, " and " in who)


def has_rows(lines: Sequence[str]) -> bool:
    """Whether the log holds rows of such a table."""
    return next(_rows(lines), None) is not None


def _rows(lines: Sequence[str]) -> Iterator[tuple[tuple[object, ...], Row]]:
    header: list[str] = []
    for number, line in enumerate(lines, 1):
        if len(line) > 400 or not line or "NCCL INFO" in line:
            continue
        cells = line.replace("|", " ").replace(",", " ").split()
        if _is_header(cells):
            header = cells[1:] if cells[0] == "#" else cells
            continue
        who = tuple(dict.fromkeys(_named(line)))
        if not 1 <= len(who) <= 2:
            continue
        figure, size = _figure(line), ""
        if figure is None and len(cells) == len(header):
            figure = _of_column(header, cells)
            size = next((cell for name, cell in zip(header, cells, strict=True) if _SIZE.match(name)), "")
        if figure is None:
            continue
        is_rate, name, value = figure
        words = tuple(each for each in cells if _is_kind(each) and each.rstrip(":") not in who)
        yield (is_rate, name, len(who), size, words), Row(number, who, value, shortened(line.strip(), 200))


def _is_kind(cell: str) -> bool:
    """Whether the cell tells what was measured, or on which product: only alike rows compare."""
    return (_WORD.fullmatch(cell) or _PRODUCT.fullmatch(cell)) is not None and not _JUDGEMENT.fullmatch(cell)


def _is_header(cells: Sequence[str]) -> bool:
    """Whether the cells name columns, one of them a rate."""
    if len(cells) < 2 or any(_NUMBER.fullmatch(each) for each in cells):
        return False
    return any(_RATE_NAME.fullmatch(each) or _TIME_NAME.fullmatch(each) for each in cells)


def _named(line: str) -> Iterator[str]:
    for found in _WHO.finditer(line):
        if kind := found["kind"] or found["kind2"]:
            yield f"{kind.lower().replace('gpu', 'GPU')} {int(found['number'] or found['number2'])}"
        elif _HOST.match(found["host"]) and not _NO_HOST.match(found["host"]):
            yield found["host"].rstrip(".-")


def _figure(line: str) -> tuple[bool, str, float] | None:
    """The figure that a line names itself: a rate before a time."""
    pairs = [(each["name"], float(each["value"]), each["unit"]) for each in _PAIR.finditer(line)]
    for name, value, _ in pairs:
        if _RATE_NAME.fullmatch(name):
            return True, name.lower(), value
    if found := _WITH_UNIT.search(line):
        return True, found["unit"], float(found["value"])
    for name, value, unit in pairs:
        if _TIME_NAME.fullmatch(name) and (unit or "_" in name):
            return False, name.lower(), value
    return None


def _of_column(header: Sequence[str], cells: Sequence[str]) -> tuple[bool, str, float] | None:
    for is_rate, names in ((True, _RATE_NAME), (False, _TIME_NAME)):
        # The bus bandwidth stands behind the other one.
        for name, cell in reversed(list(zip(header, cells, strict=True))):
            if names.fullmatch(name) and _NUMBER.fullmatch(cell):
                return is_rate, name.lower(), float(cell)
    return None


Found = Iterator[tuple[str, list[Row], float]]


def _of_one(rows: Sequence[Row], *, is_rate: bool) -> Found:
    by_who = defaultdict[str, list[Row]](list)
    for row in rows:
        by_who[row.who[0]].append(row)
    figures = {who: median(row.figure for row in mine) for who, mine in by_who.items()}
    if len(figures) < FEWEST or min(figures.values()) <= 0:
        return
    usual = median(figures.values())
    worth = {who: (figure / usual if is_rate else usual / figure) for who, figure in figures.items()}
    slow = [who for who, each in worth.items() if each <= LOW]
    others = [each for who, each in worth.items() if who not in slow]
    if len(slow) <= max(1, len(figures) // 4) and all(ALIKE <= each <= 2 - ALIKE for each in others):
        for who in slow:
            yield who, by_who[who], usual


def _of_pairs(rows: Sequence[Row]) -> Found:
    figures = sorted(row.figure for row in rows)
    if len(rows) < FEWEST or figures[0] <= 0:
        return
    usual = figures[3 * len(figures) // 4]
    slow = [row for row in rows if row.figure <= LOW * usual]
    others = [row for row in rows if row.figure > LOW * usual]
    if not slow or 2 * len(slow) > len(rows) or any(row.figure < ALIKE * usual for row in others):
        return
    fast = {who for row in others for who in row.who}
    culprits = defaultdict[str, list[Row]](list)
    for row in slow:
        for who in row.who:
            if who not in fast:
                culprits[who].append(row)
    most = max(map(len, culprits.values()), default=0)
    # One slow row does not tell which of the two it is.
    named = {who: mine for who, mine in culprits.items() if len(mine) == most > 1}
    explained = {row.line for mine in named.values() for row in mine}
    for who, mine in named.items():
        yield who, mine, usual
    for row in slow:
        if row.line not in explained:
            yield " and ".join(row.who), [row], usual
