"""What communication costs beside work: products beside collectives, and whole steps, side by side in turns."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from gpu_library.contest import last_words
from gpu_library.environment import plain, preloaded
from gpu_library.machine import REPOSITORY
from gpu_library.program import as_ranks, free_port
from gpu_library.session import Result, Session, in_turn

PROGRAM = REPOSITORY / "bench" / "gpu_library" / "programs" / "beside.py"
NCCL = "NCCL"
OURS = "ours"
WHAT = (
    "overlap",
    "ddp",
    "fsdp",
    "fsdp_large",
    "tensor_parallel",
    "tensor_parallel+graph",
    "experts",
    "experts+graph",
    "pipeline",
)
ON_HOST = ("overlap", "ddp", "tensor_parallel", "experts", "pipeline")

Sides = dict[str, Mapping[str, str]]


def sides(texts: Sequence[str]) -> Sides:
    """NCCL, ours as it is, and ours with settings: `NAME:VARIABLE=VALUE;VARIABLE=VALUE`. Raises ValueError.

    `ours:VARIABLE=VALUE` gives settings to ours itself.
    """
    found: Sides = {NCCL: {}, OURS: {}}
    for text in texts:
        name, colon, settings = text.partition(":")
        pairs = [each.partition("=") for each in settings.split(";")]
        if not name or not colon or name in set(found) - {OURS} or not all(key and equals for key, equals, _ in pairs):
            raise ValueError(f"'{text}' is no side; write NAME:VARIABLE=VALUE, more of them behind a semicolon")
        found[name] = {key: value for key, _, value in pairs}
    return found


def parse(texts: Iterable[str]) -> list[Result]:
    """What rank 0 said: its times are those of the slowest rank."""
    found = []
    for text in texts:
        for line in text.splitlines():
            if line.startswith('{"beside"'):
                one = json.loads(line)["beside"]
                if one["rank"] == 0:
                    found.append(one)
    return found


def stage(session: Session) -> list[Result]:
    machine = session.machine
    asked = sides(session.wanted.sides)
    plans = [(gpus, side) for gpus in session.wanted.counts or machine.counts[::-1] for side in asked]
    results: list[Result] = []
    for number, position in in_turn(session.wanted.starts, len(plans)):
        gpus, side = plans[position]
        label = f"beside work, {gpus} GPUs, {side}"
        if session.fits(label, 25):
            results += _one(session, gpus, side, asked[side], f"{label}, start {number}")
            print("\n".join(table(results)) if position == len(plans) - 1 else "", flush=True)
    return results


def _one(session: Session, gpus: int, side: str, settings: Mapping[str, str], label: str) -> list[Result]:
    machine = session.machine
    changes = plain(machine.nccl, session.base)
    if side != NCCL and not machine.host:
        changes = {**preloaded(machine.ours, machine.nccl, session.base), **settings}
    words = session.wanted.beside or (ON_HOST if machine.host else WHAT)
    argv = [machine.python, str(PROGRAM), *words]
    if machine.host:
        argv += ["--backend", "gloo", "--amount", "tiny", "--mib", "0.01"]
    commands = as_ranks(argv, session.environment(changes), gpus, free_port())
    ended = session.run_ranks(label, commands)
    worst = next((each for each in ended if each.code != 0), ended[0])
    reason = "" if worst.code == 0 else last_words(worst.text)
    common = {"side": side, "gpus": gpus, "exit": worst.code, "reason": reason}
    found = parse([ended[0].text])
    return [{**common, **each} for each in found] or [{**common, "what": ""}]


Key = tuple[int, str]


def summarise(results: Iterable[Result]) -> dict[Key, dict[str, Result]]:
    """By GPUs and what was measured, then by side: medians over starts, and how many times as fast as NCCL's step."""
    groups: dict[tuple[Key, str], list[Result]] = defaultdict(list)
    for each in results:
        if each["what"]:
            groups[(each["gpus"], each["what"]), each["side"]].append(each)
    found: dict[Key, dict[str, Result]] = defaultdict(dict)
    for (key, side), group in groups.items():
        names = [name for name, value in group[0].items() if isinstance(value, float)]
        found[key][side] = {**{name: median(each[name] for each in group) for name in names}, "starts": len(group)}
    return dict(found)


def table(results: Sequence[Result]) -> list[str]:
    """For the page and for the screen."""
    found = summarise(results)
    steps = {key: rows for key, rows in found.items() if not key[1].startswith("overlap")}
    overlaps = {key: rows for key, rows in found.items() if key[1].startswith("overlap")}
    lines = ["| step | GPUs | side | ms | without communication | exposed | against NCCL | starts |",
             "|---|---:|---|---:|---:|---:|---:|---:|"]  # fmt: skip
    for (gpus, what), rows in steps.items():
        for side, row in rows.items():
            against = f"{row['step_ms'] / rows[NCCL]['step_ms'] - 1:+.1%}" if NCCL in rows else ""
            lines.append(f"| {what} | {gpus} | {side} | {row['step_ms']:.2f} | {row['work_ms']:.2f} "
                         f"| {row['exposed_ms']:.2f} | {against} | {row['starts']} |")  # fmt: skip
    lines += ["", "| beside products | GPUs | side | alone (us) | efficiency | products slower by "
              "| multiprocessor-us a call |", "|---|---:|---|---:|---:|---:|---:|"]  # fmt: skip
    for (gpus, what), rows in overlaps.items():
        name = what.removeprefix("overlap ")
        for side, row in rows.items():
            lines.append(f"| {name} | {gpus} | {side} | {row['call_us']:.1f} | {row['efficiency']:.2f} "
                         f"| {row['slowdown'] - 1:+.1%} | {row['processor_us']:.0f} |")  # fmt: skip
    failed = sorted({(each["gpus"], each["side"], each["exit"], each["reason"]) for each in results if each["exit"]})
    return [*lines, *(f"\n{gpus} GPUs, {side}: exit {code}: {reason}" for gpus, side, code, reason in failed)]
