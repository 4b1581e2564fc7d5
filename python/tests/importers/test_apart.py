"""A log whose later part a second process reads gives what one process gives, whatever stands in it."""

from __future__ import annotations

import copy
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_world import SHAPES
from world_corpus import Shape

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.importers import FileReport, ImportedSweep, apart, context, import_stream, lines
from busbw.importers.reading import Reading

SAMPLES = Path(__file__).parent / "samples"
TABLE = b"".join(
    line for line in (SAMPLES / "nccl-2.19.txt").read_bytes().splitlines(keepends=True) if b"Test failure" not in line
)
CHOSEN = SHAPES if os.environ.get("BUSBW_SLOW") else SHAPES[::20]
"""All shapes take half a minute."""


class Taker:
    """Keeps sweeps as text; those of a later part for themselves, until they count."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.target = self.taken
        self.joined = 0

    def take(self, sweep: ImportedSweep) -> None:
        self.target.append("".join(sweep.lines()))

    def enter(self) -> None:
        self.target = []

    def leave(self) -> list[str]:
        return self.target

    def join(self, left: list[str]) -> None:
        self.joined += 1
        self.target = self.taken
        self.taken += left

    def close(self) -> None:
        self.target = self.taken


class Here(apart._Later):
    """The second process without a process: a copy of the reader, at once."""

    def __init__(self, reading: Reading, descriptor: int, span: tuple[int, int], line: int, part: apart.Part) -> None:
        assert isinstance(part, Taker)
        self.line, self.part, self._tries = line, part, reading.tries
        kept = {id(each): each for each in (reading.source, reading._take, reading._counted)}
        self._told: list[object] = []
        twin = copy.deepcopy(reading, kept)
        apart._Task(twin, descriptor, *span, line, part).run(self._told.append)
        part.close()

    def _received(self) -> object:
        return self._told.pop(0) if self._told else None

    def close(self) -> None:
        self.part.close()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Files are divided however small they are, whatever the machine does."""
    monkeypatch.setattr(apart, "SECONDS_WORTH", 0.0)
    monkeypatch.setattr(apart, "SECONDS_LOOKED", 0.0)
    monkeypatch.setattr(apart, "IDLE_CORES", -1e9)
    monkeypatch.setattr(apart, "WARM_UP", 1500)
    monkeypatch.setattr(apart, "is_possible", lambda: True)
    return monkeypatch


def imported(path: Path, name: str, part: Callable[[Taker], apart.Part] | None) -> tuple[object, int]:
    """(all that came out, how often a later part counted)."""
    taker = Taker()
    with path.open("rb") as stream:
        try:
            report = import_stream(stream, name, taker.take, part=part and (lambda: part(taker)))
        except UserError as sentence:
            return (taker.taken, str(sentence)), taker.joined
    return (taker.taken, said(report)), taker.joined


def said(report: FileReport) -> list[object]:
    """All that a report holds, in its order."""
    return [
        report.sweeps, report.rows, report.problems, report.notes, list(report.kinds.items()), report.summary(),
        list(report.formats.items()), report.conversions, report.repeated, report.more(),
    ]  # fmt: skip


def around(shape: Shape) -> Iterator[bytes]:
    """The shape in the first part, across the cut or in the later part of a log of tables."""
    text = shape.bytes if shape.bytes.endswith(b"\n") else shape.bytes + b"\n"
    yield TABLE * 2 + text + TABLE * 3
    if len(text) < 20_000:
        yield TABLE * (3 + len(text) // len(TABLE)) + text + TABLE


def test_a_part_that_is_read_apart_gives_the_same_over_all_shapes(tmp_path: Path, eager: pytest.MonkeyPatch) -> None:
    eager.setattr(apart, "_Later", Here)
    joined = tried = 0
    path = tmp_path / "a"
    for shape in CHOSEN:
        for text in around(shape):
            path.write_bytes(text)
            one, _ = imported(path, shape.file, None)
            two, counted = imported(path, shape.file, lambda taker: taker)
            assert one == two, shape.name
            joined, tried = joined + counted, tried + 1
    assert tried > len(CHOSEN) and joined > tried // 3, (tried, joined)


@pytest.mark.parametrize("block", [1 << 10, 3000, 1 << 20])
def test_where_blocks_end_changes_nothing(block: int, tmp_path: Path, eager: pytest.MonkeyPatch) -> None:
    eager.setattr(apart, "_Later", Here)
    eager.setattr(lines, "SNIFFED", block)
    eager.setattr(lines, "_CHUNK", block)
    path = tmp_path / "a.log"
    eager.setattr(context, "MAX_BLOCK_LINES", 4)
    eager.setattr(apart, "MAX_BLOCK_LINES", 4)
    job, long = b"job done\n" + TABLE, b"x" * 70_000 + b"\n"
    path.write_bytes(b"+ mpirun -np 2 ./alltoall_perf -b 8\n" + job * 10 + long + job * 70 + long + job * 5)
    one, _ = imported(path, path.name, None)
    two, counted = imported(path, path.name, lambda taker: taker)
    assert (one, counted) == (two, 1)


@contextmanager
def a_log(tmp_path: Path, text: bytes) -> Iterator[Callable[..., bytes]]:
    """Imports it in one process, then by `busbw import`, which has to give the same; and leaves nothing behind."""
    path = tmp_path / "a.log"
    path.write_bytes(text)

    def both(*words: str) -> bytes:
        with pytest.MonkeyPatch.context() as alone:
            alone.setattr(apart, "is_possible", lambda: False)
            assert main(["import", str(path), "--output", str(tmp_path / "one.jsonl"), *words]) == 0
        assert main(["import", str(path), "--output", str(tmp_path / "two.jsonl"), *words]) == 0
        assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
        return (tmp_path / "two.jsonl").read_bytes()

    yield both
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.log", "one.jsonl", "two.jsonl"]
    assert not multiprocessing.active_children()


@pytest.fixture
def parts(eager: pytest.MonkeyPatch) -> list[bool]:
    """Whether each second process counted."""
    found: list[bool] = []
    original = apart._Later.result

    def result(self: apart._Later, known: apart.Known | None, tries_left: int) -> apart.Result | None:
        made = original(self, known, tries_left)
        found.append(made is not None)
        return made

    eager.setattr(apart._Later, "result", result)
    return found


def test_a_second_process_writes_what_one_writes(tmp_path: Path, parts: list[bool]) -> None:
    with a_log(tmp_path, TABLE * 40) as both:
        assert both("--tag", "t").count(b'"kind":"run"') == 40
    assert parts == [True]


def test_figures_that_cannot_be_true_are_told_of_both_parts(
    tmp_path: Path, parts: list[bool], capsys: pytest.CaptureFixture[str]
) -> None:
    start, header, end = TABLE.index(b"#  "), TABLE.index(b"        1024"), TABLE.index(b"# Out of")
    row = b"1048576 262144 float sum -1 0.05 20971.52 20971.52 0 0.05 20971.52 20971.52 0\n"
    text = (TABLE[start:header] + row + TABLE[end:]).replace(b"Invented GPU", b"NVIDIA H100")
    with a_log(tmp_path, text * 12) as both:
        both()
    told = capsys.readouterr().err.splitlines()
    assert parts == [True] and len(told) > 1 and told[: len(told) // 2] == told[len(told) // 2 :]
    assert "cannot be true" in told[0] or "impossible" in "".join(told), told


def test_where_the_first_part_ends_otherwise_than_supposed_it_is_read_alone(tmp_path: Path, parts: list[bool]) -> None:
    odd = b"# Avg bus bandwidth of nothing\nmpirun -np 2 -x NCCL_ALGO=Ring ./alltoall_perf\n"
    with a_log(tmp_path, TABLE * 6 + odd + TABLE * 20) as both:
        assert both().count(b'"environment":{"NCCL_ALGO"') == 20
    assert parts == [False]


@pytest.mark.parametrize("how", ["kill", "raise"])
def test_a_second_process_that_comes_to_harm_changes_nothing(
    how: str, tmp_path: Path, parts: list[bool], eager: pytest.MonkeyPatch
) -> None:
    def harmed(*_: object) -> None:
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise MemoryError

    eager.setattr(Reading, "counts_from_here", harmed)
    with a_log(tmp_path, TABLE * 40) as both:
        both()
    assert parts == [False]


def test_no_second_process_where_no_core_is_idle(tmp_path: Path, parts: list[bool], eager: pytest.MonkeyPatch) -> None:
    eager.setattr(apart, "IDLE_CORES", 1e9)
    with a_log(tmp_path, TABLE * 40) as both:
        both()
    assert parts == []


def test_no_second_process_for_what_is_read_soon(tmp_path: Path, parts: list[bool], eager: pytest.MonkeyPatch) -> None:
    eager.setattr(apart, "SECONDS_WORTH", 1e9)
    with a_log(tmp_path, TABLE * 40) as both:
        both()
    assert parts == []
