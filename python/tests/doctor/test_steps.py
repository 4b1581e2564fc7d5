"""Trainings judged by their own figures: steps that become slower and stay so, and those that only seem to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from busbw.doctor.finding import Finding
from busbw.doctor.reading.snapshot import Snapshot, TextFile
from busbw.doctor.reading.steps import slower, steps_of

from .test_findings import found


def megatron(step: int, ms: float, batch: int = 64, tflops: float | None = None) -> str:
    rate = f" throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |" if tflops else ""
    return (
        f" iteration {step:8}/  100000 | consumed samples: {step * batch:12} | elapsed time per iteration (ms): "
        f"{ms:.1f} |{rate} global batch size: {batch:5} | lm loss: 9.31E+00 | grad norm: 3.1 |"
    )


WRITERS: dict[str, Callable[[int, float], str]] = {
    "Megatron's times": lambda step, s: megatron(step, 1e3 * s),
    "Megatron's rates": lambda step, s: megatron(step, 1e3 * s, tflops=2400 / s),
    "NeMo": lambda step, s: f"Training epoch 0, iteration {step}/999 | lr: 1e-05 | train_step_timing in s: {s:.3f}",
    "DeepSpeed": lambda step, s: f"step={step}, loss 2.1, RunningAvgSamplesPerSec=9.1, CurrSamplesPerSec={64 / s:.3f}",
    "torchtitan": lambda step, s: f"step: {step:4}  loss:  3.10  memory: 41.0GiB(51.2%)  tps: {40000 / s:,.0f}",
}


def judged(lines: Sequence[str]) -> list[Finding]:
    log = TextFile("train.log", "\n".join(lines) + "\n")
    return [each for each in found(Snapshot("files", logs=(log,))) if each.name == "steps-slower"]


STEADY = [9.8] + [5.8 + 0.01 * (step * 37 % 13) for step in range(40)]
SLOW_AT = 26


@pytest.mark.parametrize("writer", WRITERS)
def test_steps_that_become_slower_and_stay_so_are_told_with_their_line(writer: str) -> None:
    write = WRITERS[writer]
    times = [each * (1.0 if step < SLOW_AT else 2.1) for step, each in enumerate(STEADY)]
    (one,) = judged(["the run starts", *(write(step, each) for step, each in enumerate(times))])
    assert one.cost.factor == pytest.approx(2.1, rel=0.05)
    before, after = (each.line or 0 for each in one.evidence)
    assert before < SLOW_AT and after == SLOW_AT + 2


@pytest.mark.parametrize(
    "times",
    [
        STEADY,
        [40.0] * 4 + STEADY,
        [each * (8.0 if step % 10 == 0 else 1.0) for step, each in enumerate(STEADY)],
        [each * (2.0 if 20 <= step < 26 else 1.0) for step, each in enumerate(STEADY)],
        [each * (1.0 if step < SLOW_AT else 1.3) for step, each in enumerate(STEADY)],
        [each * (1.0 if step < 38 else 3.0) for step, each in enumerate(STEADY)],
        [each * (1.0 if step < 5 else 2.0) for step, each in enumerate(STEADY[:10])],
    ],
    ids=["steady", "slow at first", "every tenth", "slow for a while", "a little", "the last three", "few"],
)
@pytest.mark.parametrize("writer", WRITERS)
def test_steps_that_do_not_stay_slower_are_no_finding(writer: str, times: list[float]) -> None:
    assert judged([WRITERS[writer](step, each) for step, each in enumerate(times)]) == []


def test_batches_that_grow_take_longer_and_are_no_finding() -> None:
    lines = [megatron(step, 2e3 * (1 + step // 10), batch=32 * (1 + step // 10)) for step in range(40)]
    assert judged(lines) == []
    # Those of the last size are compared with each other.
    assert (
        len(judged([*lines, *(megatron(40 + step, 8e3 if step < 10 else 17e3, batch=128) for step in range(30))])) == 1
    )


def test_what_explains_it_is_to_be_mended_first() -> None:
    lines = [megatron(step, 5.8e3 if step < SLOW_AT else 12e3) for step in range(40)]
    lines[SLOW_AT:SLOW_AT] = [
        "NVRM: Xid (PCI:0000:1b:00): 74, pid=7, name=python, NVLink: fatal error detected on link 3"
    ]
    log = TextFile("train.log", "\n".join(lines) + "\n")
    findings = found(Snapshot("files", logs=(log,)))
    assert [each.name for each in findings] == ["nvlink-error", "steps-slower"]
    assert findings[-1].fix.startswith("mend nvlink-error first")


def test_figures_that_are_none_are_passed_over() -> None:
    assert (
        steps_of(["tps: ,", "elapsed time per iteration (ms): ... |", "tps: 0", "train_step_timing in s: ."] * 20) == []
    )
    assert slower([]) is None
