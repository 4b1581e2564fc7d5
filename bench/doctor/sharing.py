"""What another process on GPU 0 costs: rounds with it running and stopped, judged as any experiment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from faults import ENFORCED, Site
from judging import Outcome

from busbw.doctor.prove import judge_effect, limits_of, words_of
from busbw.experiment.factors import Factor, Level
from busbw.experiment.loop import Experiment
from busbw.experiment.plan import Plan
from busbw.experiment.runner import run_trial
from busbw.experiment.trial import Trial

DRAIN_S = 0.5
"""Kernels that were launched before the process was stopped still run."""


def measure(site: Site, other: subprocess.Popen[bytes], outcome: Outcome, seconds: float) -> Outcome:
    """The outcome with what the other process costs."""
    given: dict[str, str | None] = {**ENFORCED, **site.environment}
    levels = (Level("shared", given), Level("alone", given))
    words = (*words_of(site.gpus, 1 if site.shared else site.gpus), *site.words)
    plan = Plan((Factor("gpu", levels),), words, site.gpus, limits=limits_of(seconds))
    try:
        result = Experiment(plan, site.folder / "shared-gpu", _measure_with(other, site.settle_s), tell=_tell).run()
    finally:
        other.send_signal(signal.SIGCONT)
    proven = judge_effect(None, result.findings.effects[0])
    return replace(
        outcome, proved=proven.confirmed, said=proven.sentence, factor=proven.factor,
        now_GBps=proven.with_GBps, mended_GBps=proven.without_GBps,
    )  # fmt: skip


def _tell(text: str) -> None:
    print(f"bench/doctor: {text}", file=sys.stderr)


def _measure_with(other: subprocess.Popen[bytes], settle_s: float) -> Callable[[Plan, int, int, Path, float], Trial]:
    def trial(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
        os.kill(other.pid, signal.SIGSTOP if variant else signal.SIGCONT)
        time.sleep(min(DRAIN_S, settle_s))
        return run_trial(plan, number, variant, folder, limit_s)

    return trial
