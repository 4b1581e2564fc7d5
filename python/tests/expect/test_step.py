"""Steps against closed forms of each way to spread them, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from busbw.base.errors import UserError
from busbw.expect.schedule import Slowdown, Task, simulate
from busbw.expect.step import KINDS, Layer, Step, TimeOf, predict, table_times
from busbw.expect.step_file import read_step

MIB = 1 << 20


def per_mib(us: float) -> TimeOf:
    return lambda name, size: us * size / MIB


def test_two_queues() -> None:
    # 10 of work; a call of 6 that needs the first 4 of it.
    found = simulate([Task("a", 4), Task("call", 6, True, (0,)), Task("b", 6)])
    assert (found.step_us, found.exposed_us, found.work_us, found.calls_us) == (10, 0, 10, 6)
    found = simulate([Task("a", 4), Task("call", 9, True, (0,)), Task("b", 6)])
    assert (found.step_us, found.exposed_us) == (13, 3)
    # Beside each other work runs at half of its speed: 4 alone, then 6 beside the call (3 done), then 3 alone.
    found = simulate([Task("a", 4), Task("call", 6, True, (0,)), Task("b", 6)], Slowdown(2, 1))
    assert found.step_us == pytest.approx(13)
    assert simulate([]).step_us == 0
    with pytest.raises(ValueError, match="for ever"):
        simulate([Task("a", 1, False, (1,)), Task("b", 1, True, (0,))])


def test_ddp_exposes_what_comes_after_the_last_gradient() -> None:
    # One layer: nothing is hidden.
    one = predict(Step("ddp", (Layer("l", 100, 200, MIB),)), per_mib(50))
    assert (one.step_us, one.exposed_us) == (350, 50)
    # Buckets of a layer each: all but the last are hidden while a call takes less than a layer's backward.
    layers = tuple(Layer(str(n), 100, 200, MIB) for n in range(8))
    step = Step("ddp", layers, bucket_bytes=MIB, first_bucket_bytes=MIB)
    assert predict(step, per_mib(150)).exposed_us == pytest.approx(150)
    # Calls that take longer queue up: the first begins after one layer's backward, then all eight in a row.
    found = predict(step, per_mib(300))
    assert found.step_us == pytest.approx(8 * 100 + 200 + 8 * 300)
    assert found.exposed_us == pytest.approx(found.step_us - 8 * 300)
    # One bucket for all: nothing is hidden.
    whole = Step("ddp", layers, bucket_bytes=64 * MIB, first_bucket_bytes=64 * MIB)
    assert predict(whole, per_mib(50)).exposed_us == pytest.approx(8 * 50)


def test_a_bucket_is_closed_behind_the_tensor_that_fills_it() -> None:
    sizes: list[int] = []

    def time_of(name: str, size: int) -> float:
        sizes.append(size)
        return 1.0

    layers = (Layer("a", 1, 2, 3 * MIB, tensors=(2 * MIB, MIB)), Layer("b", 1, 2, 5 * MIB, tensors=(5 * MIB,)))
    predict(Step("ddp", layers, bucket_bytes=3 * MIB, first_bucket_bytes=MIB), time_of)
    assert sizes == [5 * MIB, 3 * MIB]
    sizes.clear()
    predict(Step("ddp", layers[:1] * 3, bucket_bytes=4 * MIB, first_bucket_bytes=MIB), time_of)
    assert sizes == [2 * MIB, 4 * MIB, 3 * MIB]
    sizes.clear()
    # Nobody said where it may be cut: buckets are full exactly.
    predict(Step("ddp", (Layer("a", 1, 2, 9 * MIB),), bucket_bytes=4 * MIB, first_bucket_bytes=MIB), time_of)
    assert sizes == [MIB, 4 * MIB, 4 * MIB]


def test_fsdp_gathers_one_layer_ahead() -> None:
    layers = tuple(Layer(str(n), 100, 200, MIB) for n in range(4))
    # Calls of 40 us: the first gather of forward is exposed, that of backward, and the last scatter.
    found = predict(Step("fsdp", layers), per_mib(40))
    assert found.calls_us == pytest.approx(12 * 40)
    assert found.step_us == pytest.approx(4 * 300 + 3 * 40)
    # Communication rules: all 12 calls in a row, and the work that none of them can hide.
    slow = predict(Step("fsdp", layers), per_mib(1000))
    assert slow.step_us >= 12 * 1000 and slow.exposed_us == pytest.approx(slow.step_us - 1200)


@pytest.mark.parametrize("kind", ["tp", "ep"])
def test_tensor_and_expert_parallelism_wait(kind: str) -> None:
    asked: list[str] = []

    def time_of(name: str, size: int) -> float:
        asked.append(name)
        return 30 * size / MIB

    layers = tuple(Layer(str(n), 100, 200, 0, 2 * MIB) for n in range(3))
    found = predict(Step(kind, layers), time_of)
    assert found.step_us == pytest.approx(3 * 300 + 3 * 4 * 60)
    assert found.exposed_us == pytest.approx(3 * 4 * 60)
    assert set(asked) == {"all_reduce" if kind == "tp" else "alltoall"}


@pytest.mark.parametrize("kind", ["tp", "ep"])
def test_each_call_that_is_waited_for_takes_as_much_besides(kind: str, tmp_path: Path) -> None:
    layers = (Layer("one", 100, 200, 0, MIB), Layer("sends nothing", 100, 200))
    plain, waits = (predict(Step(kind, layers, wait_us=us), per_mib(50)) for us in (0.0, 7.0))
    assert waits.step_us == pytest.approx(plain.step_us + 4 * 7) and waits.exposed_us == pytest.approx(4 * 57)
    file = tmp_path / "step.toml"
    text = f'[step]\nparallel = "{kind}"\nwait_us = 7\n[[layer]]\nforward_us = 100\nactivation_bytes = 1048576\n'
    file.write_text(text)
    assert read_step(file)[0].wait_us == 7
    file.write_text(text.replace(f'"{kind}"', '"pp"'))
    with pytest.raises(UserError, match="belongs to tp or ep alone"):
        read_step(file)


def test_a_pipeline_has_its_bubble() -> None:
    stage = (Layer("stage", 100, 200, 0, MIB),)
    found = predict(Step("pp", stage, microbatches=8, stages=4), per_mib(0))
    assert found.step_us == pytest.approx((8 + 4 - 1) * 300)
    assert found.bubble_us / found.step_us == pytest.approx((4 - 1) / (8 + 4 - 1))
    with_calls = predict(Step("pp", stage, microbatches=8, stages=4), per_mib(25))
    assert with_calls.step_us == pytest.approx(11 * 350) and with_calls.exposed_us == pytest.approx(8 * 50)
    alone = predict(Step("pp", stage, microbatches=8), per_mib(25))
    assert (alone.step_us, alone.bubble_us, alone.exposed_us) == (2400, 0, 0)


@pytest.mark.parametrize(("work", "sent", "batches", "stages"), [(100, 30, 8, 4), (100, 150, 8, 4), (80, 80, 1, 2)])
def test_a_pipeline_whose_sends_go_behind_work(work: float, sent: float, batches: int, stages: int) -> None:
    stage = (Layer("stage", work, 2 * work, 0, MIB),)
    found = predict(Step("pp", stage, microbatches=batches, stages=stages, sends="behind"), per_mib(sent))

    def walked(each: float) -> float:
        """Each batch through each stage and each link, which are free one after the other."""
        free = [0.0] * (2 * stages - 1)
        for _ in range(batches):
            at = 0.0
            for place in range(len(free)):
                free[place] = at = max(at, free[place]) + (sent if place % 2 else each)
        return free[-1]

    assert found.step_us == pytest.approx(walked(work) + walked(2 * work))
    waited = predict(Step("pp", stage, microbatches=batches, stages=stages), per_mib(sent))
    assert found.step_us < waited.step_us
    assert found.step_us == pytest.approx(found.work_us + found.exposed_us + found.bubble_us)


@pytest.mark.parametrize(("work", "sent", "batches", "stages"), [(100, 30, 8, 4), (100, 150, 5, 2), (80, 80, 1, 3)])
def test_a_pipeline_whose_messages_move_once_both_sides_are_there(
    work: float, sent: float, batches: int, stages: int
) -> None:
    stage = (Layer("stage", work, 2 * work, 0, MIB),)
    found = predict(Step("pp", stage, microbatches=batches, stages=stages, sends="met"), per_mib(sent))

    def walked(each: float) -> float:
        free = [0.0] * stages
        for _ in range(batches):
            at = free[0] = free[0] + each
            for place in range(1, stages):
                free[place] = at = max(at, free[place]) + sent + each
        return free[-1]

    assert found.step_us == pytest.approx(walked(work) + walked(2 * work))
    assert found.step_us == pytest.approx(found.work_us + found.exposed_us + found.bubble_us)
    alone = predict(Step("pp", stage, microbatches=batches, sends="met"), per_mib(sent))
    assert alone.step_us == pytest.approx(batches * 3 * work)


def test_where_sends_of_a_pipeline_go_is_said_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "step.toml"
    text = """[step]
parallel = "pp"
stages = 2
microbatches = 4
sends = "behind"
[[layer]]
forward_us = 10
activation_bytes = 1024
"""
    file.write_text(text)
    assert read_step(file)[0].sends == "behind"
    file.write_text(text.replace("behind", "met"))
    assert read_step(file)[0].sends == "met"
    for wrong, sentence in (("sometimes", "waited, behind or met"), ("behind", "belongs to pp alone")):
        file.write_text(text.replace("behind", wrong).replace("pp", "tp" if wrong == "behind" else "pp"))
        with pytest.raises(UserError, match=sentence):
            read_step(file)


@pytest.mark.parametrize("kind", KINDS)
def test_without_communication_a_step_is_its_work(kind: str) -> None:
    layers = tuple(Layer(str(n), 100, 200, MIB, MIB) for n in range(5))
    found = predict(Step(kind, layers, optimizer_us=70), per_mib(0))
    assert found.step_us == pytest.approx(5 * 300 + 70) and found.exposed_us == pytest.approx(0)


def test_measured_times_between_and_beyond() -> None:
    time_of = table_times([("all_reduce", 100, 10.0), ("all_reduce", 200, 14.0), ("all_gather", 1, 5.0)])
    assert [time_of("all_reduce", size) for size in (1, 100, 150, 200, 400)] == [10, 10, 12, 14, 28]
    with pytest.raises(KeyError):
        time_of("alltoall", 8)


FILE = """
[step]
parallel = "fsdp"
flops_per_s = 1e12
bytes_per_s = 1e11
work_slowdown = 1.1
[[layer]]
name = "block"
count = 3
forward_flops = 1e9
forward_bytes = 2e8
parameter_bytes = "16M"
collectives = [{name = "alltoall", bytes = "1M"}, {name = "alltoall", bytes = 64, when = "backward"}]
[[layer]]
forward_us = 7
backward_us = 9
"""


def test_a_file_of_layers(tmp_path: Path) -> None:
    path = tmp_path / "layers.toml"
    path.write_text(FILE)
    step, slowdown = read_step(path)
    assert step.kind == "fsdp" and slowdown == Slowdown(1.1, 1.0) and len(step.layers) == 4
    first, last = step.layers[0], step.layers[-1]
    # 1 ms of operations, 2 ms of memory traffic: the longer; twice that in backward.
    assert (first.forward_us, first.backward_us, first.parameter_bytes) == (2000, 4000, 16 * MIB)
    assert first.calls == ((False, "alltoall", MIB), (True, "alltoall", 64))
    assert (last.forward_us, last.backward_us) == (7, 9)
    assert read_step(path, "tp")[0].kind == "tp"
    path.write_text("[[layer]]\nforward_us = 1\nparameter_bytes = ['2M', 1048576]\n")
    (listed,) = read_step(path)[0].layers
    assert listed.tensors == (2 * MIB, MIB) and listed.parameter_bytes == 3 * MIB
    (tmp_path / "layers.json").write_text('{"layer": [{"forward_us": 5}]}')
    assert read_step(tmp_path / "layers.json")[0].kind == "ddp"


@pytest.mark.parametrize(("text", "sentence"), [
    ("", "has no"), ("[other]\n", "nothing else"), ("[[layer]]\n", "neither forward_us"),
    ("[[layer]]\nforward_flops = 1e9\n", "no flops_per_s"), ("[[layer]]\nforward_us = -1\n", "from 0 to 1e30"),
    ("[[layer]]\nforward_us = nan\n", "no finite number"), ("[[layer]]\nforward_us = 1\ncount = 100000\n", "more than"),
    ("[[layer]]\nforward_us = 1\ncount = 100000000\n", "from 1 to 1000000, not 100000000"),
    ("[[layer]]\nforward_us = 1\ncuont = 1\n", "cuont"), ("layer = 1\n", "has no"),
    ("[step]\nparallel = 'dp'\n[[layer]]\nforward_us = 1\n", "parallel is one of"),
    ("[step]\nbucket = 0\n[[layer]]\nforward_us = 1\n", "at least 1 KiB"),
    ("[step]\nwork_slowdown = 0.5\n[[layer]]\nforward_us = 1\n", "at least 1"),
    ("[[layer]]\nforward_us = 1\ncollectives = [{name = 'x'}]\n", "is none of"),
    ("[[layer]]\nforward_us = 1\nparameter_bytes = 'x'\n", "parameter_bytes"),
    ("[[layer]]\nforward_us = 1\nparameter_bytes = [-1]\n", "parameter_bytes"), ("[[layer", "no TOML"),
])  # fmt: skip
def test_files_that_are_none(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "layers.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        read_step(path)


@pytest.mark.parametrize("kind", ["ddp", "fsdp", "tp", "ep"])
def test_the_optimizer_waits_for_the_last_call(kind: str) -> None:
    # Work is over at 300, calls are not: the optimizer needs what they bring.
    layers = (Layer("l", 100, 200, MIB, MIB),)
    without = predict(Step(kind, layers), per_mib(50))
    assert without.step_us > 300
    assert predict(Step(kind, layers, optimizer_us=70), per_mib(50)).step_us == without.step_us + 70


@pytest.mark.parametrize(
    ("step", "layer", "said"),
    [
        ('parallel = "tp"', "", "no layer says activation_bytes, which is what tp sends"),
        ('parallel = "ep"', 'parameter_bytes = "1M"', "no layer says activation_bytes, which is what ep sends"),
        ('parallel = "pp"\nstages = 4', "", "no layer says activation_bytes, which is what pp sends"),
        ('parallel = "ddp"', 'activation_bytes = "1M"', "no layer says parameter_bytes, which is what ddp sends"),
        ('parallel = "fsdp"', "", "no layer says parameter_bytes, which is what fsdp sends"),
        ('parallel = ["tp", "ddp"]\ntp = 2', 'activation_bytes = "1M"', "no layer says parameter_bytes"),
        ("stages = 4", 'parameter_bytes = "1M"', "stages means nothing under ddp"),
        ('parallel = "fsdp"\nmicrobatches = 4', 'parameter_bytes = "1M"', "microbatches means nothing under fsdp"),
    ],
)
def test_what_nobody_said_is_asked_for(step: str, layer: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "step.toml"
    path.write_text(f"[step]\n{step}\n[[layer]]\nforward_us = 10\n{layer}\n")
    with pytest.raises(UserError, match=said):
        read_step(path)


def test_what_is_said_to_be_nothing_and_a_kind_that_is_named_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "step.toml"
    path.write_text("[step]\nstages = 4\n[[layer]]\nforward_us = 10\nparameter_bytes = 0\n")
    assert read_step(path, "ddp")[0].layers[0].parameter_bytes == 0


@pytest.mark.parametrize(("kind", "says"), [("tp", "activation_bytes"), ("ep", "activation_bytes")])
def test_ranks_that_wait_for_the_slowest_at_each_call_work_longer(kind: str, says: str, tmp_path: Path) -> None:
    def step_us(slowdown: float) -> float:
        path = tmp_path / "step.json"
        layer = {"forward_us": 100, "count": 4, says: 1000}
        path.write_text(json.dumps({"step": {"parallel": kind, "wait_slowdown": slowdown}, "layer": [layer]}))
        step, slow = read_step(path)
        assert (slow.work, slow.calls) == (1.0, 1.0)
        return predict(step, lambda _, __: 10.0, slow).step_us

    # Four layers of 100 us forward and 200 us backward, with four calls of 10 us each.
    assert step_us(1.0) == pytest.approx(1360.0)
    assert step_us(1.1) == pytest.approx(1.1 * 1200.0 + 160.0)


@pytest.mark.parametrize(("kind", "slowdown", "said"), [
    ("ddp", 1.1, "wait_slowdown means nothing under ddp"), ("pp", 1.1, "means nothing under pp"),
    ("tp", 0.9, "a slowdown is at least 1"), ("tp", "much", "wait_slowdown is a number"),
])  # fmt: skip
def test_a_wait_slowdown_of_nothing_that_waits_is_refused(
    kind: str, slowdown: object, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "step.json"
    layer = {"forward_us": 100, "parameter_bytes": 1000, "activation_bytes": 1000}
    path.write_text(json.dumps({"step": {"parallel": kind, "wait_slowdown": slowdown}, "layer": [layer]}))
    with pytest.raises(UserError, match=said):
        read_step(path)
