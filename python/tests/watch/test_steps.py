"""The step that a recording repeats is found, and predicted for other times of its calls."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from made_recordings import Made, Row, write

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.expect.together import Meeting, steady_us
from busbw.records import Case, End, Record, Run, Tool
from busbw.runs import store
from busbw.watch.period import find_period
from busbw.watch.recording import Recording, find
from busbw.watch.steps import RecordedStep, step_of

MS = 1_000_000


def read(folder: Path) -> RecordedStep:
    opened = [Recording(path) for path in find(folder)]
    try:
        return step_of(opened)
    finally:
        for each in opened:
            each.close()


def data_parallel(folder: Path, *, steps: int = 12, log_every: int = 0, gpu: bool = False) -> None:
    """Two ranks: 4 ms, a call of 1 ms, 2 ms, a call of 2 ms; rank 1 comes 0.5 ms late to the first."""
    for rank in range(2):
        calls, now = [], 0
        for step in range(steps):
            late = MS // 2 if rank else 0
            for work, took, count in ((4 * MS + late, MS, 1 << 18), (2 * MS - late, 2 * MS, 1 << 20)):
                # Rank 0 waits in the call that rank 1 begins later.
                waits = MS // 2 if count == 1 << 18 and not rank else 0
                began = now + work
                host = 6400 if gpu else took + waits
                calls.append(Made(began, host, count=count, sequence=len(calls) + 1,
                                  gpu_ns=took + waits if gpu else None))  # fmt: skip
                now = began + took + waits
            if log_every and step % log_every == 0:
                calls.append(Made(now, 6400, count=1, sequence=len(calls) + 1))
                now += 6400
        write(folder, rank, [Row(rank, 2)], calls, synchronous=not gpu)


def test_a_step_is_what_returns_and_its_calls_are_without_their_waits(tmp_path: Path) -> None:
    data_parallel(tmp_path)
    step = read(tmp_path)
    assert step.step_us == pytest.approx(9500, rel=0.01) and step.is_exact
    for ops, works in zip(step.ranks, ((4000, 2000), (4500, 1500)), strict=True):
        assert [op.us for op in ops] == pytest.approx([1000, 2000], rel=0.01)
        assert [op.work_us for op in ops] == pytest.approx(works, rel=0.02)
        assert [op.bytes for op in ops] == [1 << 20, 1 << 22] and ops[0].members == (0, 1)


def test_a_line_of_a_log_every_few_steps_is_no_part_of_the_step(tmp_path: Path) -> None:
    data_parallel(tmp_path, steps=40, log_every=10)
    assert [len(ops) for ops in read(tmp_path).ranks] == [2, 2]


@pytest.mark.parametrize(("order", "length"), [
    ("ab" * 20, 2),
    ("ababababG" * 8, 9),  # four microbatches and the gradients
    ("xyxz" + "abc" * 12, 3),  # what comes before the steps
    ("abac" * 10 + "q" + "abac" * 10, 4),
    ("ab" * 19 + "cd" * 6 + "ab" * 10, 2),  # an evaluation between
    ("ab" * 10 + "cde" * 20, 3),
    ("ab" * 19 + "cdecdecdecdecdecd", 2),  # two parts that are about as long
    ("abcdefdddddd", 1),  # a short job that sets itself up first
])  # fmt: skip
def test_the_period_holds_all_large_calls(order: str, length: int) -> None:
    sizes = [1 << 24 if each == "G" else 1 << 20 for each in order]
    starts, found = find_period(order, sizes, [1.0] * len(order))
    assert found == length and len(starts) >= 5


def test_a_small_call_within_a_step_now_and_then_is_no_part_of_it() -> None:
    order = ("ababababG" * 10 + "l") * 6
    sizes = [{"G": 1 << 24, "l": 8}.get(each, 1 << 20) for each in order]
    assert find_period(order, sizes, [1.0] * len(order))[1] == 9


def test_a_step_of_thousands_of_calls_is_found_with_its_many_small_buckets() -> None:
    step = [f"t{at % 7}" for at in range(1200)] + [f"g{at}" for at in range(30)]
    assert find_period(step * 6, [1 << 20] * 1230 * 6, [1.0] * 1230 * 6)[1] == 1230


def test_equal_calls_are_told_apart_by_their_pauses() -> None:
    rng = random.Random(1)
    gaps = [(9000.0 if at % 5 == 0 else 500.0) * rng.uniform(0.9, 1.1) for at in range(200)]
    starts, found = find_period("a" * 200, [1] * 200, gaps)
    assert found == 5 and all(start % 5 == 0 for start in starts)
    assert find_period("a" * 200, [1] * 200, [rng.uniform(400, 600) for _ in range(200)])[1] == 1


def test_what_does_not_return_is_no_step(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no step"):
        find_period([str(each) for each in range(50)], [1] * 50, [0.0] * 50)
    with pytest.raises(UserError, match="no step"):
        find_period([], [], [])
    write(tmp_path, 0, [Row(0, 1)], [])
    with pytest.raises(UserError, match="no call whose time is known"):
        read(tmp_path)


def test_ranks_wait_for_each_other() -> None:
    # Alternating loads: each meeting waits for the slower one.
    uneven = [[Meeting(4, 1, "w", 2), Meeting(8, 1, "w", 2)], [Meeting(8, 1, "w", 2), Meeting(4, 1, "w", 2)]]
    assert steady_us(uneven) == pytest.approx(18)
    # Three stages: one message each way; the slowest stage sets the pace where nothing comes back.
    stages = [[Meeting(3, 1, "01", 2)], [Meeting(0, 1, "01", 2), Meeting(5, 1, "12", 2)], [Meeting(0, 1, "12", 2)]]
    assert steady_us(stages) == pytest.approx(7)
    with pytest.raises(ValueError, match="for ever"):
        steady_us([[Meeting(1, 1, "a", 2), Meeting(1, 1, "b", 2)], [Meeting(1, 1, "b", 2), Meeting(1, 1, "a", 2)]])


def kept(runs: Path, *times: tuple[int, float]) -> None:
    cases = [Case("r", at, "all_reduce", size, "out_of_place", "measured", us, type="float", ranks=2)
             for at, (size, us) in enumerate(times)]  # fmt: skip
    store.add(Record(Run("r", None, Tool("t"), None), tuple(cases), End("r", "completed", len(cases))), runs)


def predicted(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, float]]:
    assert main(["predict", "step", str(folder), "--json", *words]) == 0
    return {row["label"]: row for row in json.loads(capsys.readouterr().out)["rows"]}


def test_a_recording_is_predicted_over_the_times_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder := tmp_path / "job").mkdir()
    data_parallel(folder)
    kept(tmp_path / "runs", (1 << 20, 3000.0), (1 << 22, 500.0))
    rows = predicted(folder, capsys, "--times", "r", "--runs", str(tmp_path / "runs"))
    assert rows["as recorded"]["step_us"] == pytest.approx(9500, rel=0.01)
    # 4.5 ms until both are there, 3 ms, 2 ms of rank 0 behind it, 0.5 ms.
    assert rows["with the times of r"]["step_us"] == pytest.approx(10_000, rel=0.01)


def test_over_nccl_work_may_hide_a_call_as_long_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job").mkdir()
    data_parallel(tmp_path / "job", gpu=True)
    rows = predicted(tmp_path / "job", capsys, "--machine", "ndv5")
    there = rows["1 x 2"]
    assert there["step_us"] < rows["as recorded"]["step_us"] == pytest.approx(9500, rel=0.01)
    assert there["most_us"] == pytest.approx(9500, rel=0.01)


def test_calls_without_times_on_the_gpu_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, 0, [Row(0, 1)], [Made(at * MS) for at in range(20)], synchronous=False)
    assert main(["predict", "step", str(tmp_path)]) == 2
    assert "BUSBW_RECORD_TIMES=all" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["predict", "step", str(tmp_path / "empty")]) == 2
    assert "holds no recording" in capsys.readouterr().err
