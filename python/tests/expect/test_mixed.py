"""Steps that are spread in several ways at once: closed forms, and the same as one way where there is only one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.cli.main import main
from busbw.expect.mixed import predict
from busbw.expect.schedule import Slowdown, Task, simulate
from busbw.expect.spread import Spread
from busbw.expect.step import Layer, Step, TimeOf
from busbw.expect.step import predict as predict_one
from busbw.expect.step_file import read_step
from busbw.records import Case, End, Record, Run, Tool
from busbw.runs import store

MIB = 1 << 20
LAYERS = tuple(Layer(str(n), 100, 200, 3 * MIB, 2 * MIB) for n in range(4))


def per_mib(us: float) -> TimeOf:
    return lambda name, size: us * size / MIB


def times(**us: float) -> dict[str, TimeOf]:
    return {group: per_mib(each) for group, each in us.items()}


def test_calls_of_two_groups_run_beside_each_other() -> None:
    tasks = [Task("a", 4), Task("x", 6, True, (0,), "tp"), Task("y", 5, True, (0,), "dp"), Task("b", 1, False, (1,))]
    found = simulate(tasks)
    assert (found.step_us, found.exposed_us, found.calls_us) == (11, 6, 11)
    assert simulate([*tasks[:2], Task("y", 5, True, (0,), "tp"), tasks[3]]).step_us == 15
    # Work beside calls of two groups is slowed down once.
    assert (
        simulate([Task("a", 4), Task("x", 9, True, (), "tp"), Task("y", 9, True, (), "dp")], Slowdown(2, 1)).step_us
        == 9
    )


@pytest.mark.parametrize(("kind", "spread", "group"), [
    ("ddp", Spread(("ddp",), dp=4), "dp"), ("fsdp", Spread(("fsdp",), dp=4), "dp"),
    ("tp", Spread(("tp",), tp=4, dp=1), "tp"), ("ep", Spread(("ep", "ddp"), ep=4, dp=4), "ep"),
])  # fmt: skip
@pytest.mark.parametrize("us", [5.0, 40.0, 300.0])
def test_one_way_alone_is_what_it_was(kind: str, spread: Spread, group: str, us: float) -> None:
    step = Step(kind, LAYERS, bucket_bytes=2 * MIB, optimizer_us=70)
    alone = predict_one(step, per_mib(us), Slowdown(1.1, 1.05))
    both = predict(step, spread, {"dp": per_mib(0), group: per_mib(us)}, Slowdown(1.1, 1.05))
    assert both.step_us == pytest.approx(alone.step_us) and both.exposed_us == pytest.approx(alone.exposed_us)
    stages = Step("pp", LAYERS, microbatches=6, stages=3)
    piped = predict(stages, Spread(("pp",), pp=3, dp=1), times(pp=us))
    assert [piped.step_us, piped.bubble_us, piped.exposed_us] == pytest.approx(
        [(one := predict_one(stages, per_mib(us))).step_us, one.bubble_us, one.exposed_us]
    )


def test_three_ways_at_once() -> None:
    step = Step("tp+pp+ddp", LAYERS, microbatches=8, bucket_bytes=1 << 40, first_bucket_bytes=1 << 40, optimizer_us=50)
    spread = Spread(("tp", "pp", "ddp"), tp=2, pp=4, dp=2)
    found = predict(step, spread, times(tp=10, pp=25, dp=30))
    # A microbatch: 1,200 of work, 16 calls of 20; 100 to and from the next stage. 12 MiB of gradients behind the last
    # work take 360, of which the last call of the tensor group takes 20 at the same time.
    each = 1200 + 16 * 20 + 100
    assert found.step_us == pytest.approx((8 + 3) * each + 340 + 50)
    assert found.bubble_us == pytest.approx(3 * each) and found.work_us == pytest.approx(8 * 1200 + 50)
    assert found.exposed_us == pytest.approx(8 * (320 + 100) + 340)


def test_gradients_hide_behind_the_last_backward_only() -> None:
    step = Step("tp+ddp", LAYERS, microbatches=4, bucket_bytes=3 * MIB, first_bucket_bytes=3 * MIB)
    spread = Spread(("tp", "ddp"), tp=2, dp=2)
    found = predict(step, spread, times(tp=0, dp=20))
    assert found.step_us == pytest.approx(4 * 1200 + 60), "all but the first layer's bucket are hidden"
    # Gathered parameters wait for nobody's activations: both groups call at the same time.
    sharded = predict(step, Spread(("tp", "fsdp"), tp=2, dp=2), times(tp=0, dp=20))
    assert sharded.step_us == pytest.approx(4 * (1200 + 3 * 60))


@pytest.mark.parametrize(("spread", "gpus", "shapes"), [
    (Spread((), tp=8, pp=4, dp=16), 8, {"tp": (8, 1), "dp": (1, 16), "pp": (1, 2)}),
    (Spread((), tp=2, pp=2, dp=8, ep=4), 8, {"tp": (2, 1), "dp": (4, 2), "ep": (4, 1), "pp": (1, 2)}),
    (Spread((), tp=16, pp=1, dp=2), 8, {"tp": (8, 2), "dp": (1, 2)}),
    (Spread((), tp=2, pp=4, dp=1), 8, {"tp": (2, 1), "pp": (2, 1)}),
])  # fmt: skip
def test_groups_lie_on_nodes_as_ranks_are_numbered(
    spread: Spread, gpus: int, shapes: dict[str, tuple[int, int]]
) -> None:
    assert {group: spread.shape_of(group, gpus) for group in shapes} == shapes


FILE = """
[step]
parallel = ["tp", "pp", "ddp"]
tp = 4
pp = 2
microbatches = 8
[[layer]]
count = 4
forward_us = 1000
parameter_bytes = "4M"
activation_bytes = "1M"
"""


def test_a_file_names_several_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "step.toml"
    path.write_text(FILE)
    step, _ = read_step(path)
    assert step.kind == "tp+pp+ddp" and step.spread == Spread(("tp", "pp", "ddp"), 4, 2, 1, None)
    assert main(["predict", "step", str(path), "--machine", "ndv5", "--nodes", "1,4", "--json"]) == 0
    one, four = json.loads(capsys.readouterr().out)
    assert one["bubble_us"] > 12_000 and four["step_us"] > one["step_us"] > 9 * 12_000
    assert main(["predict", "step", str(path), "--machine", "ndv5", "--nodes", "1", "--gpus-per-node", "6"]) == 2
    assert "are not 6 ranks" in capsys.readouterr().err
    assert main(["predict", "step", str(path), "--times", "r", "--runs", str(tmp_path)]) == 2
    assert "says no dp" in capsys.readouterr().err


def test_each_group_takes_the_times_of_as_many_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "step.toml"
    path.write_text(FILE.replace("pp = 2", "pp = 2\ndp = 2"))
    rows = [("all_reduce", 4, 100.0), ("all_reduce", 2, 7.0), ("sendrecv", 2, 50.0)]
    cases = [Case("r", at, name, MIB, "out_of_place", "measured", us, type="float", ranks=ranks)  # type: ignore[arg-type]
             for at, (name, ranks, us) in enumerate(rows)]  # fmt: skip
    store.add(Record(Run("r", None, Tool("t"), None), tuple(cases), End("r", "completed", 3)), tmp_path / "runs")
    words = ["predict", "step", str(path), "--times", "r", "--runs", str(tmp_path / "runs"), "--json"]
    assert main(words) == 0
    (found,) = json.loads(capsys.readouterr().out)
    # Stages of 4 layers: 12,000 of work, 16 calls of 100, two messages of 50.
    assert found["bubble_us"] == pytest.approx(12_000 + 1600 + 100)
    path.write_text(path.read_text().replace("tp = 4", "tp = 8"))
    assert main(words) == 2
    assert "holds no all_reduce on 8 ranks" in capsys.readouterr().err


@pytest.mark.parametrize(("old", "new", "said"), [
    ('"ddp"]', '"ddp", "fsdp"]', "both ddp and fsdp"), ('"ddp"]', '"cp"]', "each once"),
    ('"ddp"]', '"tp"]', "each once"),
    ("tp = 4\n", "", "tp = 2 or more"), ('"pp", ', "", "pp needs to stand in parallel"),
    ("tp = 4", "tp = 0", "from 1 to"),
    ('["tp", "pp", "ddp"]', "[]", "parallel is a list"), ('["tp", "pp", "ddp"]', "[[1]]", "parallel is a list"),
])  # fmt: skip
def test_ways_that_do_not_go_together_are_one_sentence(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "step.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(UserError, match=said):
        read_step(path)


def test_numbers_of_ranks_come_out_even() -> None:
    with pytest.raises(ValueError, match="ep 3 does not divide dp 4"):
        Spread(("ep", "ddp"), ep=3).on(4)
    with pytest.raises(ValueError, match="neither ddp nor fsdp"):
        Spread(("tp",), tp=2).on(8)
