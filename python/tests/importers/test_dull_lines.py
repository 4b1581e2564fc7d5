"""Lines that are passed by without a look give what a look at each of them gives."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest

from busbw.importers import ImportedSweep, import_stream
from busbw.importers.context import Document
from busbw.importers.dull import DullLines
from busbw.importers.nccl_tests_plain import PlainRows, lines_of
from busbw.importers.nccl_tests_rows import DEFAULT_LAYOUT, Sweep
from busbw.importers.nccl_tests_usual import UsualRows, matcher
from busbw.importers.prefixes import ends_head, split_prefix
from busbw.importers.stream import Stream
from busbw.records.writer import record_lines

HEADER = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong"
COMMAND = "+ srun -l -N 4 --ntasks-per-node=8 ./build/all_gather_perf -b 8 -e 1G"
PREFIXES = ("{:4}: ", "[1,{}]<stdout>:", "node{}: ", "[default{}]:", "(Worker pid={}) ", "[{}] ",
            "2026-11-23 10:11:{:02} ", "", "{}", "Jan {:2} 10:11:12 node7 mpirun[77]: ", "pod-{}  | ",
            "2026-11-23T10:11:{0:02}.123Z {0}: ", "Jan 23 10:11:{0:02} node{0} mpirun[77]: ")  # fmt: skip
TEXTS = ("libfabric:{}:core: cache of {} entries", "node{}: went on", "{}: 7", "NCCL version {}",
         "loss {} at step {}", "Mon Jan  {} 10:11:12 2026", "x{}y | {}", "[{}] NCCL INFO nothing", "Test {}",
         "a{}: b{}: c", "", "9: {}")  # fmt: skip


def _log(seed: int) -> str:
    """Messages of many ranks behind prefixes of every form, with a table of one rank between them."""
    noise = random.Random(seed)
    lead = noise.choice(["   0: ", "[1,0]<stdout>:", "node0: ", "[default0]:"])
    prefixes = noise.sample(PREFIXES, 3)
    rows = [COMMAND, HEADER]
    for power in range(10, 28):
        size = 1 << power
        group = f"  {10 + size / 4e5:.2f}  {size / 1e4 / (1 + size / 4e5):.2f}  0.00  0"
        rows.append(f"{size:12}  {size // 4:12}  float  none  -1{group}{group}")
    rows.append("# Avg bus bandwidth    : 10.5")
    lines = []
    for row in [*rows, *rows]:
        for _ in range(60):
            texts = noise.choice(TEXTS[:4] if noise.random() < 0.9 else TEXTS)
            prefix = noise.choice(prefixes).format(noise.randrange(12))
            lines.append(prefix + texts.format(noise.randrange(200), noise.randrange(9)))
        lines.append(lead + row)
    return "\n".join(lines)


def _read(text: str) -> tuple[list[str], list[str]]:
    found: list[ImportedSweep] = []
    report = import_stream(io.BytesIO(text.encode()), "all.log", found.append)
    return [line for sweep in found for line in record_lines(sweep.record())], [*report.problems, *report.notes]


def test_passed_lines_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [_log(seed) for seed in range(6)]
    fast = [_read(log) for log in logs]
    passed = []
    look = DullLines.passed

    def count(dull: DullLines, lines: list[str], shapes: list[bytes], at: int) -> list[str]:
        passed.append(len(look(dull, lines, shapes, at)))
        return []

    monkeypatch.setattr(DullLines, "passed", count)
    assert fast == [_read(log) for log in logs]
    assert sum(passed) > 200
    assert all(records for records, _ in fast)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("   7: cache of 3 entries", "1439: cache of 12 entries"),
        ("[1,7]<stdout>:cache 1", "[1,12]<stdout>:cache 77"),
        ("[default3]:cache 1", "[default5]:cache 2"),
    ],
)
def test_a_prefix_ends_where_it_is_split(line: str, other: str) -> None:
    end, _ = ends_head(line, split_prefix(line)[1])
    assert end
    head = other.partition(end)[0]
    assert head + end + split_prefix(other)[1] == other


@pytest.mark.parametrize("line", ["3: node: up", "3: 12: x", "3: x | y", "no prefix here", "3: Jan 7 x", "3: "])
def test_where_digits_may_make_a_further_prefix_nothing_is_passed(line: str) -> None:
    assert ends_head(line, split_prefix(line)[1]) == ("", "")


@pytest.mark.parametrize("already", [0, 1, 200, 399, 400])
@pytest.mark.parametrize("count", [0, 1, 199, 200, 201, 400, 401, 1000])
def test_many_lines_are_passed_by_as_one_by_one(already: int, count: int) -> None:
    one, many = Document(is_markdown=False), Document(is_markdown=False)
    lines = [f"line {at}" for at in range(already + count)]
    for line in lines[:already]:
        one.pass_by(line)
        many.pass_by(line)
    for line in lines[already:]:
        one.pass_by(line)
    many.pass_by_all(lines[already:])
    assert one.standing() == many.standing()


def test_a_bullet_names_no_rank() -> None:
    found: list[ImportedSweep] = []
    text = f"- + srun -n 8 ./all_gather_perf\n- {HEADER}\n- 1024 32 float none -1 1.0 1.02 0.89 0 1.0 1.02 0.89 0\n"
    import_stream(io.BytesIO(text.encode()), "paste.txt", found.append)
    assert [sweep.run.options.get("printed_by") for sweep in found] == [None]


def test_times_below_the_least_are_looked_at_one_by_one() -> None:
    row = "1024 256 float sum -1 {} 1.02 1.79 0 9.0 0.11 0.20 0"
    sweep = Sweep(DEFAULT_LAYOUT, "all_reduce", {}, is_mscclpp=False)
    kept = {time: PlainRows([row.format(time)], sweep).keep(100.0, 2.0, 8) for time in ("9.0", "1.0", "0.00")}
    assert kept == {"9.0": True, "1.0": False, "0.00": False}


@pytest.mark.parametrize(
    ("prefix", "known"),
    [("2026-11-23T10:11:{second}.123456Z {rank}: ", True), ("[2026-11-23 10:11:{second}] {rank}: ", True),
     ("Jan 23 10:11:{second} node{rank} mpirun[77]: ", False)],
)  # fmt: skip
def test_the_rank_behind_a_time_is_known_again_at_another_time(prefix: str, known: bool) -> None:
    dull, document = DullLines(), Document(is_markdown=False)
    sink: Any = object()
    streams = {rank: Stream(sink, document) for rank in (3, 4)}
    for rank, stream in streams.items():
        line = prefix.format(second=10, rank=rank) + "cache 7 is full"
        assert dull.holds(line, split_prefix(line)[1], stream)
    lines = [prefix.format(second=20 + rank, rank=rank) + f"cache {rank} is full" for rank in (4, 3, 5)]
    shapes = dull.shapes_of(lines)
    passed = dull.passed(lines, shapes, 0) if shapes else []
    assert passed == (["cache 4 is full", "cache 3 is full"] if known else [])
    assert not known or [streams[rank].before for rank in (3, 4)] == ["cache 3 is full", "cache 4 is full"]


USUAL = "     1048576     262144  float     sum      -1    12.50   83.89  146.80      0   12.60   83.22  145.63      0"
ODD = (
    USUAL.replace("float", "int32"), USUAL.replace("float", "int9"), USUAL.replace("float", "in\u20833"),
    USUAL.replace(" 12.50", " 02.50"), USUAL.replace("1048576", "0048576"), USUAL.replace("     -1", "\t    -1"),
    USUAL.replace("     sum", "\f    sum"), USUAL.replace("      0", "    N/A"), USUAL.replace("12.50", "1.2e+07"),
    USUAL.replace("12.5", "1.25"), USUAL.replace(" -1", "- 1"), USUAL.replace("83.89", "\u0663\u0663.89"), USUAL[:60],
    f"{USUAL}  7", "", USUAL.replace("sum", "min"), USUAL.replace("float", "bfloat16"), USUAL.replace("12.50", "-2.50"),
    f"#{USUAL}", USUAL.replace("float", "fp8_e4m3"), USUAL.replace("float", "fp8_e5m3"), USUAL.strip(),
    "0" + USUAL.strip(),
)  # fmt: skip


@pytest.mark.parametrize("odd", [False, True])
def test_rows_that_are_found_by_their_shape_are_those_that_the_pattern_matches(odd: bool) -> None:
    match = matcher(DEFAULT_LAYOUT)
    assert match is not None
    noise = random.Random(7)
    usual = UsualRows(match)
    for _ in range(1500):
        rows = [USUAL.replace("12.5", f"{noise.randrange(10, 99)}.{noise.randrange(10)}") for _ in range(12)]
        if odd:
            for _ in range(noise.randrange(3)):
                rows[noise.randrange(12)] = noise.choice(ODD)
        at = noise.randrange(3)
        matched = next((place for place in range(at, 12) if not match(rows[place])), 12)
        assert usual.past(rows, at, 12) == matched, rows


@pytest.mark.parametrize(
    "change", [("", ""), ("float", "int8"), ("   -1", "    3"), ("      0", "    N/A"), ("262144", "9")]
)
def test_lines_put_together_by_columns_are_those_of_one_row_at_a_time(change: tuple[str, str]) -> None:
    rows = [USUAL.replace(*change).replace("1048576", str(1 << power)) for power in range(10, 24)]
    for content in (rows, rows[:1], [*rows, *rows], [*rows[:3], rows[5].replace("sum", "min")]):
        sweep = Sweep(DEFAULT_LAYOUT, "all_reduce", {"check": 1, "iters": 20}, is_mscclpp=False)
        fast = "".join(PlainRows(content, sweep).lines("run-1", 8))
        assert fast == "".join(lines_of(content, sweep, "run-1", 8))
