"""How kill_trials judges what it saw after a signal: clean, left by us, or left by a launcher of others."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kill_launchers import RANKS, Launcher
from kill_looks import is_ours, is_rank, is_same, look_at
from kill_record import Kept

CLEAN_WITHIN_S = 10.0  # times --slack
NAMED_WITHIN_S = 5.0
LAUNCHER_S = 60.0  # for a foreign launcher without ranks, which may still be importing
CATCHABLE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class Tally:
    """What was seen over all trials."""

    clean: Counter[str] = field(default_factory=Counter)
    trials: Counter[str] = field(default_factory=Counter)
    foreign: Counter[str] = field(default_factory=Counter)  # every rank had gone, but its launcher stayed
    deaf: Counter[str] = field(default_factory=Counter)  # the launcher lost the signal, and the job goes on
    stayed_s: list[float] = field(default_factory=list)  # so long, each
    naming_s: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    hits: Counter[str] = field(default_factory=Counter)
    cases: int = 0  # on the screens
    ended: Counter[bool] = field(default_factory=Counter)  # whether records have an end, after CATCHABLE
    slack: float = 1.0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Struck:
    """A process as it was in the moment before the signal; its program may be another one a moment later."""

    pid: int
    start: int
    words: str


@dataclass(frozen=True)
class Strike:
    """What was done, to whom, and whether a rank must be named for it."""

    what: str
    names: bool = False
    number: signal.Signals | None = None
    struck: tuple[Struck, ...] = ()

    @classmethod
    def of(cls, number: signal.Signals, pids: list[int], whom: str, *, names: bool = False) -> Strike:
        """Send the signal."""
        struck = tuple(Struck(pid, *look_at(pid)) for pid in pids)
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        return cls(f"{number.name} to {whom}", names, number, struck)


@dataclass(frozen=True)
class End:
    """What was seen after a strike."""

    named_s: float | None
    left: dict[int, str]
    files: set[str]
    stayed_s: float | None = None
    again_s: float | None = None  # until a second signal had ended all that the first one had not
    kept: Kept | None = None  # what the screen and the record hold; None: no record was asked for


class Judged(Protocol):
    """What is asked of a trial."""

    output: Path

    @property
    def launcher(self) -> Launcher:
        """What started it."""

    @property
    def after_s(self) -> float:
        """When it was hit."""

    def processes(self) -> dict[int, str]:
        """What is left of it."""


def alone(trial: Judged, left: dict[int, str]) -> float | None:
    """How much longer a foreign launcher stayed whose ranks have gone; None where it did not end, or is not alone."""
    if not left or not trial.launcher.launchers or any(map(is_ours, left.values())):
        return None
    return seconds_until_gone(trial, LAUNCHER_S)


def ended_by_a_second(trial: Judged, strike: Strike, left: dict[int, str], slack: float) -> float | None:
    """Seconds until the same signal, sent once more, ended a job that goes on as if none had come, or a launcher alone.

    None where that is not what happened: a program of a launcher that was hit has ended, a rank has ended (somebody
    took notice), or the second signal leaves something, too.
    """
    hit = [each for each in strike.struck if trial.launcher.starts_with(each.words)]
    if strike.number not in CATCHABLE or not hit or not all(is_same(each.pid, each.start) for each in hit):
        return None
    whole, only_launcher = sum(map(is_rank, left.values())) == RANKS, not any(map(is_ours, left.values()))
    if not (whole or only_launcher) or not trial.processes():
        return None
    for each in hit:
        with contextlib.suppress(OSError):
            os.kill(each.pid, strike.number)
    return seconds_until_gone(trial, CLEAN_WITHIN_S * slack)


def seconds_until_gone(trial: Judged, limit: float) -> float | None:
    """How long anything of a trial stays; None: longer than that."""
    began = time.monotonic()
    while (seconds := time.monotonic() - began) < limit:
        if not trial.processes():
            return seconds
        time.sleep(0.2)
    return None


def judge(trial: Judged, strike: Strike, end: End, tally: Tally) -> None:
    """Count one trial, and print what was not clean."""
    name = trial.launcher.name
    tally.trials[name] += 1
    tally.hits[strike.what] += 1
    what = f"{name}: {strike.what} after {trial.after_s:.2f} s"
    if strike.what.startswith("nothing"):
        tally.faults.append(what)
        print(f"  {what}", flush=True)
    named, left, left_files = end.named_s, end.left, end.files
    ending = shown(trial.output)
    if end.kept:
        tally.cases += end.kept.shown
        if strike.number in CATCHABLE and end.kept.recorded:
            tally.ended[end.kept.ended] += 1
        if end.kept.fault:
            tally.faults.append(what)
            print(f"  {what}: {end.kept.fault}\n{ending}", flush=True)
    if named is not None:
        tally.naming_s.append(named)
    if strike.names and (named is None or named > NAMED_WITHIN_S * tally.slack):
        tally.faults.append(what)
        print(f"  {what}: {'not named' if named is None else f'named after {named:.1f} s'}\n{ending}", flush=True)
    if left and not left_files and trial.launcher.launchers and not any(map(is_ours, left.values())):
        tally.foreign[name] += 1
        again = "" if end.again_s is None else f", but a second signal ended it after {end.again_s:.1f} s"
        ended = f"it did not end{again}" if end.stayed_s is None else f"it ended by itself {end.stayed_s:.0f} s later"
        if end.stayed_s is not None:
            tally.stayed_s.append(CLEAN_WITHIN_S * tally.slack + end.stayed_s)
        print(f"  {what}: only the launcher was left, {ended}: {next(iter(left.values()))[:80]}", flush=True)
    elif end.again_s is not None and not left_files:
        tally.deaf[name] += 1
        hit = next(each for each in strike.struck if trial.launcher.starts_with(each.words))
        print(f"  {what}: the launcher lost the signal and its job went on; a second one ended all after "
              f"{end.again_s:.1f} s: {hit.words[:80]}", flush=True)  # fmt: skip
    elif left or left_files:
        ranks_first = sorted(left.items(), key=lambda each: not is_rank(each[1]))
        struck = ", ".join(f"{each.pid} {each.words[:60]}" for each in strike.struck[:3])
        print(f"  {what}: left {ranks_first[:3]} {sorted(left_files)[:3]}, hit was {struck}\n{ending}", flush=True)
    else:
        tally.clean[name] += 1


def shown(output: Path) -> str:
    """What a trial said, without its middle."""
    said = output.read_text(errors="replace")
    said = said if len(said) < 2500 else f"{said[:1000]}\n[...]\n{said[-1500:]}"
    return "    " + said.replace("\n", "\n    ")


def summary(tally: Tally) -> int:
    """Print the counts; 1 where anything was left by us."""
    total, clean = sum(tally.trials.values()), sum(tally.clean.values())
    for name, count in sorted(tally.trials.items()):
        foreign = f", {tally.foreign[name]} left a foreign launcher alone" if tally.foreign[name] else ""
        deaf = f", {tally.deaf[name]} whose launcher lost the signal" if tally.deaf[name] else ""
        print(f"{name:>9}: {tally.clean[name]} of {count} clean{foreign}{deaf}")
    print("     hits: " + ", ".join(f"{name} {count}" for name, count in sorted(tally.hits.items())))
    if tally.naming_s:
        late = sum(seconds > NAMED_WITHIN_S for seconds in tally.naming_s)
        print(f"  stopped: {len(tally.naming_s)} named after {min(tally.naming_s):.1f} to {max(tally.naming_s):.1f} s, "
              f"{late} later than {NAMED_WITHIN_S:g} s")  # fmt: skip
    if tally.stayed_s:
        print(
            f"  foreign launchers alone ended {min(tally.stayed_s):.0f} to {max(tally.stayed_s):.0f} s after the signal"
        )
    print(f"  records: {tally.cases} cases were on the screens; after a signal that can be caught "
          f"{tally.ended[True]} of {tally.ended.total()} records with cases have an end")  # fmt: skip
    print(f"kill_trials: {clean} of {total} clean", flush=True)
    others = sum(tally.foreign.values()) + sum(tally.deaf.values())
    return int(clean + others != total or bool(tally.faults))
