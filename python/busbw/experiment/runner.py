"""Runs one trial: `busbw run` in processes of its own, with the variant's settings, under a time limit."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from busbw.base.errors import UserError
from busbw.base.programs import with_this_package
from busbw.base.scratch import scratch_folder
from busbw.base.secrets import hide_in_file, shortened
from busbw.experiment.factors import Variant
from busbw.experiment.own_conf import needs_copy, settings_without
from busbw.experiment.plan import TORCH, Plan
from busbw.experiment.replayed import REPLAY, TIMES_NAME, replay_words, times_in
from busbw.experiment.trial import Outcome, Trial, times_of
from busbw.launch.supervise import TIMED_OUT, Child, Patience, Rules, Supervisor
from busbw.records import read_record
from busbw.runs.destination import RECORD_NAME

GRACE_S = 15.0
"""`busbw run` ends its ranks within 10 s of its own limit; after this it is ended itself."""

OUTPUT_NAME = "output.txt"
ENGINE_TIMED_OUT = 4
WRONG_DATA = 7
_LAST_LINES = 4000

# How launchers tell a process its rank: inside a job they would make every trial a part of that job.
_RANKED = ("BUSBW_RANK", "BUSBW_WORLD_SIZE", "BUSBW_LOCAL_RANK", "BUSBW_LOCAL_SIZE", "BUSBW_RUN_ID", "BUSBW_RUNS")


def environment_of(variant: Variant, environ: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """What a trial inherits: everything of ours, but for what the variant sets or removes.

    `scratch` is where a conf file goes that does not set again what was removed.
    """
    inherited = _inherited(variant, environ)
    return with_this_package({**inherited, **settings_without(variant.removed, inherited, scratch)})


def _inherited(variant: Variant, environ: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if name not in _RANKED and name not in variant.removed}
    return {**kept, **variant.set}


def command_of(plan: Plan, variant: Variant, record: Path, limit_s: float) -> list[str]:
    """The words of one trial; of a replay `record` is the file of its times."""
    if plan.words[0] == REPLAY:
        replay = replay_words((*plan.words, *variant.launch, *variant.arguments), plan.ranks, record)
        return [sys.executable, "-m", "busbw", *replay]
    verb, words = (TORCH, plan.words[1:]) if plan.words[0] == TORCH else ("run", plan.words)
    return [
        sys.executable, "-m", "busbw", verb, "--ranks", str(plan.ranks), "--time-limit", f"{limit_s:g}",
        *plan.launch, *variant.launch, *words, *variant.arguments, "--record", str(record),
    ]  # fmt: skip


def run_trial(plan: Plan, number: int, variant: int, folder: Path, limit_s: float) -> Trial:
    """Measure one variant; whatever becomes of it is a trial. Interrupting it ends its processes first."""
    chosen = plan.variants[variant]
    place = folder / "trials" / f"r{number:04d}-v{variant:03d}"
    kept = place / (TIMES_NAME if plan.words[0] == REPLAY else RECORD_NAME)
    try:
        place.mkdir(parents=True, exist_ok=True)
        kept.unlink(missing_ok=True)
    except OSError as problem:
        raise UserError(f"the trial cannot be kept in {place}: {problem.strerror or problem}") from problem
    began = time.monotonic()
    code = _run(command_of(plan, chosen, kept, limit_s), chosen, place / OUTPUT_NAME, limit_s)
    seconds = time.monotonic() - began
    trial = _judged(number, variant, code, kept, (seconds, limit_s))
    stayed = _stayed(kept, chosen.removed) if trial.outcome is Outcome.MEASURED else ""
    return Trial(number, variant, Outcome.CRASHED, seconds, reason=stayed) if stayed else trial


def _run(command: list[str], variant: Variant, output: Path, limit_s: float) -> int:
    try:
        return _carried_out(command, variant, output, limit_s)
    finally:
        with suppress(OSError):
            hide_in_file(output)


def _carried_out(command: list[str], variant: Variant, output: Path, limit_s: float) -> int:
    with output.open("wb") as stream, ExitStack() as stack:
        output.chmod(0o600)  # a library may print variables; secrets among them are hidden when it has ended
        scratch = output.parent
        if needs_copy(variant.removed, _inherited(variant, os.environ)):
            # Beside the records, where the other nodes of a job find it too.
            scratch = stack.enter_context(scratch_folder("conf-", within=scratch))
        environment = environment_of(variant, os.environ, scratch)
        child = Child("the trial", command, environment, output=stream, any_cpu=variant.unbind)
        patience = Patience(to_stop=10.0, after_terminate=5.0)
        supervisor = Supervisor([child], Rules(limit_s + GRACE_S, patience, quiet=True))
        code = supervisor.run()
    if supervisor.interrupted == signal.SIGINT:
        raise KeyboardInterrupt
    if supervisor.interrupted:
        raise SystemExit(128 + supervisor.interrupted)
    return code


def _judged(number: int, variant: int, code: int, kept: Path, times: tuple[float, float]) -> Trial:
    (seconds, limit_s), place = times, kept.parent
    if code in {TIMED_OUT, ENGINE_TIMED_OUT}:
        return Trial(number, variant, Outcome.HUNG, seconds, reason=f"no result within {limit_s:g} s", limit_s=limit_s)
    replayed = kept.name == TIMES_NAME
    if code == WRONG_DATA or (replayed and code == 1 and _is_wrong(kept)):
        return Trial(number, variant, Outcome.WRONG, seconds, reason="the results were wrong")
    if code != 0:
        return Trial(number, variant, Outcome.CRASHED, seconds, reason=_last_words(place / OUTPUT_NAME, code))
    try:
        measured, rates = times_in(kept)[:2] if replayed else times_of(read_record(kept))
    except UserError as problem:
        return Trial(number, variant, Outcome.CRASHED, seconds, reason=str(problem))
    if not measured:
        return Trial(number, variant, Outcome.CRASHED, seconds, reason="no case was measured")
    return Trial(number, variant, Outcome.MEASURED, seconds, measured, rates)


def _stayed(kept: Path, removed: Collection[str]) -> str:
    """A sentence where a conf file set what the variant removes: NCCL before 2.23 does not know NCCL_CONF_FILE."""
    if not removed or kept.name == TIMES_NAME:
        return ""
    with suppress(UserError):
        for each in read_record(kept).run.conf:
            if each.in_force and each.name in removed:
                return f"{each.name} stayed set: this NCCL reads {each.file} whatever NCCL_CONF_FILE names"
    return ""


def _is_wrong(times: Path) -> bool:
    """Whether a replay ended with wrong results, and not with a failure before."""
    with suppress(UserError):
        return times_in(times)[2] > 0
    return False


_FOLLOWS = re.compile(r"busbw run: rank \d+ .*ended with exit code|\[rank \d+\] ")
"""What a launcher says after a rank said why, and the same words of other ranks."""


def _last_words(output: Path, code: int) -> str:
    """The line that says why: the last of ours or of the engine's that names an error, else the exit code."""
    with suppress(OSError):
        text = output.read_bytes()[-_LAST_LINES:].decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        lines = [line for line in lines if not _FOLLOWS.match(line)] or lines
        telling = [line for line in lines if "error" in line.lower() or "fail" in line.lower() or "cannot" in line]
        if telling:
            return f"exit code {code}: {shortened(telling[0], 200)}"
        if lines:
            return f"exit code {code}: {shortened(lines[-1], 200)}"
    return f"exit code {code}"
