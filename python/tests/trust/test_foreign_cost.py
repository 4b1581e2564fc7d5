"""A file whose lines all differ is looked at up to a sum of work, counted and not timed; the rest is said."""

from __future__ import annotations

import json
import random
import string
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from busbw.base.effort import ALLOWED, EFFORT
from busbw.doctor.facts import gather
from busbw.doctor.findings.ranks import init_incomplete
from busbw.doctor.lines import sieve
from busbw.doctor.lines import work_limit as log_work
from busbw.doctor.lines.scan import Scanning
from busbw.doctor.reading.inputs import Inputs, read_inputs
from busbw.doctor.reading.read_logs import read_logs
from busbw.doctor.reading.snapshot import TextFile
from busbw.doctor.verdict import Outcome, verdict
from busbw.expect import reasons
from busbw.importers import import_path
from busbw.importers import work_limit as file_work
from busbw.importers.draft import ImportedSweep
from busbw.importers.reading import Reading
from busbw.importers.stream import Stream
from busbw.records import Case

FAULT = (
    "h:1:2 [0] misc/socket.cc:452 NCCL WARN socketStartConnect: Connect to 10.0.0.5<41021> failed : Connection refused"
)
TABLE_WORDS = ("time_us", "latency", "busbw", "algbw", "size", "count", "(us)", "bandwidth", "_ms", "Size | ")
TABLE = """\
# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1000 on       node device  0 [0x19] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1000 on       node device  1 [0x2d] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    20.00   52.43   52.43      0    20.00   52.43   52.43      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 52.43
#
"""


def different(count: int, known: tuple[str, ...] = (), seed: int = 5) -> list[str]:
    """So many lines of words that nobody wrote, with two known ones in each."""
    r = random.Random(seed)
    words = ["".join(r.choices(string.ascii_lowercase, k=r.randint(2, 10))) for _ in range(5000)]
    return [" ".join([*r.choices(words, k=8), *r.sample(known, 2 if known else 0)]) for _ in range(count)]


def counting(monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> Counter[str]:
    """Counts the calls of a method from here on."""
    calls, before = Counter[str](), getattr(owner, method)

    def counted(self: object, *given: object) -> object:
        calls[method] += 1
        return before(self, *given)

    monkeypatch.setattr(owner, method, counted)
    return calls


def written(tmp_path: Path, *parts: list[str]) -> Path:
    path = tmp_path / "foreign.log"
    path.write_text("\n".join(line for part in parts for line in part) + "\n", encoding="utf-8")
    return path


def test_a_file_of_different_lines_is_offered_to_the_formats_so_often_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, different(120_000, TABLE_WORDS))
    fed = counting(monkeypatch, Stream, "feed")
    report = import_path(path, lambda _: None)
    most = file_work.ALLOWED / (file_work.CHEAP + file_work.DEAR)
    assert 1000 < fed["feed"] < most
    assert "were searched for heads of nccl-tests' tables alone" in report.skimmed_over
    assert "to 120000 " in report.skimmed_over


def test_a_table_of_nccl_tests_far_behind_such_lines_is_read(tmp_path: Path) -> None:
    noise = different(120_000, TABLE_WORDS)
    found: list[ImportedSweep] = []
    report = import_path(written(tmp_path, noise[:110_000], TABLE.splitlines(), noise[110_000:]), found.append)
    assert report.skimmed_over
    assert [case.bytes for sweep in found for case in sweep.record().cases] == [1048576, 1048576]


def test_lines_that_look_like_results_and_are_none_are_not_told_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{line} busbw=1.5 size=many" for line in different(60_000)]
    problems = counting(monkeypatch, Reading, "problem")
    report = import_path(written(tmp_path, ["a log"], rows), lambda _: None)
    assert 100 < problems["problem"] < (file_work.ALLOWED + file_work.FOR_HEADS) / file_work.PER_PROBLEM + 1000
    assert report.skimmed_over


def test_heads_everywhere_are_not_read_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads = [f"x # nThread {line} type " for line in different(120_000, TABLE_WORDS)]
    fed = counting(monkeypatch, Stream, "feed")
    report = import_path(written(tmp_path, heads), lambda _: None)
    assert fed["feed"] < (file_work.ALLOWED + file_work.FOR_HEADS) / (file_work.CHEAP + file_work.DEAR)
    assert "up to line" in report.skimmed_over


@pytest.mark.parametrize("known", [(), ("error", "failed", "NCCL WARN", "fatal")])
def test_the_doctor_looks_at_a_sum_of_different_lines_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: tuple[str, ...]
) -> None:
    path = written(tmp_path, different(150_000, known), [FAULT], different(1000, known, seed=6))
    looked = counting(monkeypatch, Scanning, "look")
    ((_, scan),) = read_logs([TextFile(str(path), None)])
    most = (log_work.ALLOWED + log_work.FOR_WORDS) / 12 + log_work.TAIL
    assert log_work.TAIL < looked["look"] < most < 150_000
    assert scan.lines == 151_001
    assert "connection-refused" in scan.hits
    assert scan.passed_over.split(" of the lines ")[0].isdigit()
    assert " to 149001:" in scan.passed_over


def test_a_fault_in_the_middle_of_plain_different_lines_is_found(tmp_path: Path) -> None:
    noise = different(150_000)
    ((_, scan),) = read_logs([TextFile(str(written(tmp_path, noise[:120_000], [FAULT], noise[120_000:])), None)])
    assert scan.passed_over
    assert [line for line, _ in scan.hits["connection-refused"].lines] == [120_001]


def test_a_log_that_was_passed_over_is_not_healthy_and_the_verdict_says_which_lines(tmp_path: Path) -> None:
    path = written(tmp_path, different(150_000, TABLE_WORDS))
    snapshot, records = read_inputs(Inputs(files=(str(path),)))
    told = verdict(gather(snapshot, records), [])
    assert told.outcome is Outcome.UNKNOWN
    assert any("of the lines" in each for each in told.unread)
    assert any("searched for heads" in each for each in told.unread)


def test_objects_of_a_log_are_not_taken_apart_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [*different(100_000), FAULT, *different(1000, seed=6)]
    path = written(tmp_path, [json.dumps({"log": f"{line}\n", "stream": "stderr"}) for line in said])
    parts = Counter[str]()
    before = sieve._said
    monkeypatch.setattr(sieve, "_said", lambda raw: parts.update(taken=1) or before(raw))
    ((_, scan),) = read_logs([TextFile(str(path), None)])
    assert log_work.TAIL < parts["taken"] < 60_000
    assert scan.lines == 101_001
    assert "connection-refused" in scan.hits
    assert scan.passed_over


def test_lines_that_differ_by_long_names_alone_are_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    r = random.Random(4)
    lines = [f"request {r.getrandbits(64):016x} of worker-{r.getrandbits(40):010x} took 1 ms" for _ in range(20_000)]
    looked = counting(monkeypatch, Scanning, "look")
    ((_, scan),) = read_logs([TextFile(str(written(tmp_path, lines, [FAULT])), None)])
    assert looked["look"] < 200
    assert not scan.passed_over
    assert "connection-refused" in scan.hits


def test_steps_that_name_a_throughput_are_not_read_as_heads_of_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [f"iteration {at} | time per iteration (ms): {at % 97}.5 | bandwidth: {at % 89}" for at in range(50_000)]
    fed = counting(monkeypatch, Stream, "feed")
    found: list[ImportedSweep] = []
    report = import_path(written(tmp_path, steps, TABLE.splitlines()), found.append)
    assert fed["feed"] < 5_000
    assert not report.skimmed_over
    assert [case.bytes for sweep in found for case in sweep.record().cases] == [1048576, 1048576]


def test_lines_alike_cost_nothing(tmp_path: Path) -> None:
    steps = [f"step {at} loss {at % 7}.5 time_us {at % 97}" for at in range(200_000)]
    path = written(tmp_path, steps, [FAULT])
    ((_, scan),) = read_logs([TextFile(str(path), None)])
    assert not scan.passed_over
    assert scan.alive == 200_000


def test_the_doctor_reads_so_many_rows_the_import_more_and_both_all_of_a_trusted_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    rows = [f"all_reduce,{1 << 20},{20 + at % 50}.25,{(1 << 20) / (20.25 + at % 50) / 1e3:.3f}" for at in range(75_000)]
    path.write_text("\n".join(["collective,size,time_us,algbw", *rows]) + "\n")
    found: list[ImportedSweep] = []
    assert not import_path(path, found.append).skimmed_over
    assert sum(len(sweep) for sweep in found) == 75_000
    EFFORT.left = ALLOWED
    snapshot, records = read_inputs(Inputs(files=(str(path),)))
    assert 20_000 <= sum(len(record.cases) for record in records) < 60_000
    assert any("and no further, as reading costs too much" in note for note in snapshot.notes)
    EFFORT.lift()
    snapshot, records = read_inputs(Inputs(files=(str(path),)))
    assert sum(len(record.cases) for record in records) == 75_000
    assert not snapshot.notes


def test_rows_in_doubt_are_held_against_so_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against all of them a table of 20,000 rows in doubt would cost the square."""
    case = Case("r", 0, "all_reduce", 1 << 20, None, "measured", time_us=5.0, algbw_GBps=1.0, busbw_GBps=9e5, ranks=8)
    peers = reasons.Peers([replace(case, bytes=1 << 10 + at % 20, case=at) for at in range(20_000)])
    alike = peers.of(case)
    assert len(alike) == reasons.MOST_PEERS
    assert (alike[0].bytes, alike[-1].bytes) == (1 << 10, 1 << 29)
    assert peers.of(replace(case, type="float")) == []


def test_communicators_of_many_ranks_do_not_cost_a_list_of_them_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        f"n{at}:{at}:{at} [0] NCCL INFO comm 0x{at:x} rank {at * 7} nranks 100000 cudaDev 0 nvmlDev 0 busId 1b000 "
        f"commId 0x{at + 4096:x} - Init START" for at in range(1, 1500)
    ]  # fmt: skip
    snapshot, records = read_inputs(Inputs(files=(str(written(tmp_path, lines)),)))
    facts = gather(snapshot, records)
    listed = Counter[str]()

    def counted(count: int) -> range:
        listed["ranks"] += count
        return range(count)

    monkeypatch.setattr(init_incomplete, "range", counted, raising=False)
    assert len(list(init_incomplete.examine(facts))) > 1000
    assert not listed["ranks"]  # 150 million where each is listed
