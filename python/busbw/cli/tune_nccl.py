"""`busbw tune nccl`: which of NCCL's own settings pay on this machine, proven, as a table for its tuner."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.files import read_text, replace_text
from busbw.base.words import Args

if TYPE_CHECKING:
    from busbw.experiment.clock import Clock
    from busbw.experiment.tune_nccl.rules import Place, Rule
    from busbw.experiment.tune_nccl.search import Proven
    from busbw.experiment.tune_nccl.ways import Asked

PLUGIN = "libnccl-tuner-busbw.so"
HALVINGS = 3
GRAPHS = 10
"""Launches of a graph of 20 calls in a trial: what a processor takes to start one is a hundredth of a call then."""
ROUNDS = 40
"""Of the proof, which ends as soon as it is sure: under noise of 20 % twelve keep a third of what there is."""


def run(args: Args, gpus: Callable[[], int]) -> int:
    """Search and prove, or prove again; 0 the table stands, 1 no setting pays or a rule fell back, 130 interrupted.

    `gpus` counts those of this machine, where nobody says how many ranks there are.
    """
    from busbw.base.lock import alone_in
    from busbw.experiment.beside import require_product
    from busbw.experiment.tune_nccl.rules import default_path, read_table
    from busbw.experiment.tune_nccl.stage import begin
    from busbw.runs.destination import new_run_id, runs_directory

    # Whatever words or files are wrong is told before anything is counted, measured or said to be kept.
    if args.beside:
        require_product(args.beside)
    places = read_table(args.verify) if args.verify else []
    if args.resume and not Path(args.resume).is_dir():
        raise UserError(f"--resume {args.resume}: no such folder; name the one in which the trials are kept")
    folder = args.resume or runs_directory(args.runs) / f"tune-nccl-{new_run_id()}"
    asked = _asked(args, gpus, places)
    output = args.output or Path(os.environ.get("BUSBW_TUNER_TABLE") or default_path())
    old = read_table(output) if output.exists() and not args.verify else []
    if args.dry_run:
        print(_plan_text(asked, args.beside or ""))
        return 0
    try:
        with alone_in(folder):
            begin(folder, _said(args, asked), _WORDS)
            kept = f"busbw: the trials are kept in {folder}; --resume {shlex.quote(str(folder))} goes on"
            print(kept, file=sys.stderr, flush=True)
            return _verify(args, asked, places, folder) if args.verify else _search(args, asked, folder, output, old)
    except KeyboardInterrupt:
        return 130


_WORDS = {
    "collectives": "the collectives", "ranks": "--ranks", "first": "-b", "last": "-e", "type": "-d",
    "library": "--library", "launch": "--launch", "beside": "--beside", "verify": "the table of --verify",
    "step": "the step between sizes", "graphs": "the launches of a CUDA graph",
    "loosened": "what the environment or nccl.conf takes from NCCL",
}  # fmt: skip


def _said(args: Args, asked: Asked) -> dict[str, object]:
    """What a search that goes on must have in common with the one before, as JSON reads it again."""
    from busbw.experiment.tune_nccl.rules import hash_of_file

    return {
        "collectives": list(asked.collectives), "ranks": asked.ranks, "first": asked.first, "last": asked.last,
        "type": asked.type, "library": asked.library, "launch": list(asked.launch), "beside": args.beside or "",
        "verify": hash_of_file(args.verify) if args.verify else "", "loosened": list(asked.loosened),
        "step": asked.step, "graphs": asked.graphs,
    }  # fmt: skip


def _asked(args: Args, gpus: Callable[[], int], places: Sequence[Place]) -> Asked:
    from busbw.experiment.tune_nccl.rules import COLLECTIVES
    from busbw.experiment.tune_nccl.ways import Asked, hindering, without_multicast
    from busbw.launch.in_front import find_beside

    named = tuple(dict.fromkeys(args.collective[1:])) or COLLECTIVES
    wrong = next((name for name in named if name not in COLLECTIVES), None)
    if wrong is not None:
        raise UsageError(f"NCCL asks no tuner about '{wrong}'; it does about {', '.join(COLLECTIVES)}")
    if not 0 < args.minbytes <= args.maxbytes <= 1 << 40:
        raise UsageError(f"-b {args.minbytes} -e {args.maxbytes}: the first size is at least 1, the last no smaller")
    ranks = args.ranks
    if ranks is None and not args.launch:
        ranks = _ranks_of(args.verify, places) if args.verify else gpus()
    if ranks is not None and ranks < 2:
        raise UsageError(f"{ranks} ranks: one rank moves nothing; say how many with --ranks")
    # `busbw tune` measures busbw by default, this verb whatever NCCL is found.
    library = "auto" if args.library == "busbw" else args.library
    return Asked(named, ranks or 1, args.minbytes, args.maxbytes, args.datatype, library, args.launch,
                 str(find_beside(PLUGIN)), hindering(os.environ), not without_multicast(os.environ),
                 graphs=0 if args.beside else GRAPHS)  # fmt: skip


def _ranks_of(table: Path, places: Sequence[Place]) -> int:
    """How many ranks a table is verified with on this machine: those of its places on one node."""
    counts = sorted({int(place.facts["ranks"]) for place in places if place.rules and place.facts["nodes"] == "1"})
    if len(counts) == 1:
        return counts[0]
    if counts:
        several = f"{', '.join(map(str, counts[:-1]))} and {counts[-1]}"
        raise UsageError(f"{table} has rules for {several} ranks; say with --ranks which are verified")
    if any(place.rules for place in places):
        raise UsageError(f"{table} has rules for several nodes alone; say with --launch how ranks start there")
    raise UserError(f"{table} has no rule, so that there is nothing to verify")


def _plan_text(asked: Asked, beside: str) -> str:
    from busbw.experiment.tune_nccl.ways import CHANNELS, first_ways

    lines = [f"{asked.ranks} ranks, {asked.first} to {asked.last} bytes of {asked.type}"]
    lines += [
        f"{name}: {', '.join(map(str, first_ways(name, 1, multicast=asked.multicast)))}" for name in asked.collectives
    ]
    channels = ", ".join(map(str, CHANNELS))
    lines.append(f"then the fastest of each size with {channels} channels, then the table against plain NCCL")
    if beside:
        lines.append(f"what counts is the time of both together with {beside}, as much of it in every trial")
    if not asked.multicast:
        lines.append("NCCL_NVLS_ENABLE=0 stays as it is: no way with NVLS is tried")
    if asked.loosened:
        lines.append(f"taken away, since they take choices from NCCL: {', '.join(asked.loosened)}")
    return "\n".join(lines)


def _facts(asked: Asked, folder: Path) -> tuple[Asked, dict[str, str]]:
    """What the plugin sees where NCCL loads it, from one short trial; without graphs where that trial fails."""
    from busbw.experiment.runner import run_trial
    from busbw.experiment.trial import Outcome
    from busbw.experiment.tune_nccl.rules import parse_facts
    from busbw.experiment.tune_nccl.ways import facts_plan, loosening

    kept, out = folder / "facts.txt", (folder / "facts-now.txt").resolve()
    out.unlink(missing_ok=True)
    trial = run_trial(facts_plan(replace(asked, last=asked.first), out), 0, 1, folder / "facts", 120.0)
    if trial.outcome is not Outcome.MEASURED and asked.graphs:
        _tell(f"calls in CUDA graphs cannot be measured here, so that they are started one by one: {trial.reason}")
        asked = replace(asked, graphs=0)
        trial = run_trial(facts_plan(replace(asked, last=asked.first), out), 1, 1, folder / "facts", 120.0)
    if trial.outcome is not Outcome.MEASURED:
        raise UserError(f"nothing can be tuned, since NCCL with the tuner plugin cannot be measured: {trial.reason}")
    if not out.exists():
        raise UserError(
            "the library that was measured loads no tuner plugin; NCCL does from 2.21 on. --library names another"
        )
    text = read_text(out, 1 << 20, hint="the plugin writes no such file")
    facts = parse_facts(text)
    asked = replace(asked, loosening=loosening(asked.loosened, os.environ, facts["nccl"]))
    if not kept.exists():
        replace_text(kept, text)
        return asked, facts
    # A search that goes on after a new driver, or elsewhere, has trials that say nothing about this place.
    before = parse_facts(read_text(kept, 1 << 20, hint="the plugin writes no such file"))
    other = [f"{name} {before[name]} (now {facts[name]})" for name in facts if facts[name] != before[name]]
    if other:
        raise UserError(f"the trials in {folder} were measured with {', '.join(other)}; begin a new search")
    return asked, facts


def _search(args: Args, asked: Asked, folder: Path, output: Path, old: Sequence[Place]) -> int:
    from busbw.experiment.clock import Clock
    from busbw.experiment.tune_nccl.rules import Place, merged, table_text
    from busbw.experiment.tune_nccl.search import Search

    asked, facts = _facts(asked, folder)
    clock = Clock(args.budget)
    asked = _beside(asked, args, folder)
    search = Search(asked, facts, folder, HALVINGS, clock, tell=_tell, proving_rounds=args.rounds or ROUNDS)
    rules = []
    for number, name in enumerate(asked.collectives):
        count = len(asked.collectives)
        found, proven = search.collective(name, number / count, (number + 1) / count)
        rules += found
        print("\n".join(_proof_lines(name, proven, asked, _word(found))))
    place = Place(facts, tuple(rules))
    if not rules:
        print("No setting pays here: NCCL by itself is as fast as any rule that was tried. No table is written.")
        return 1
    remarks = ["Written by `busbw tune nccl`; applied where it was measured, and nowhere else."]
    if asked.beside:
        remarks.append(f"Last measured: {', '.join(asked.collectives)}, beside {asked.beside}.")
    text = table_text(merged(old, place), remarks)
    replace_text(output, text)
    print("\n".join(_use_lines(asked, facts, output, text)))
    return 0


def _beside(asked: Asked, args: Args, folder: Path) -> Asked:
    from busbw.experiment.tune_nccl.ways import with_product

    return with_product(asked, args.beside, folder) if args.beside else asked


def _verify(args: Args, asked: Asked, places: Sequence[Place], folder: Path) -> int:
    """Prove a table again; rules that fell back are named, and left out of --output."""
    from busbw.experiment.clock import Clock
    from busbw.experiment.tune_nccl.rules import Place, table_text

    asked, facts = _facts(asked, folder)
    here = next((place for place in places if place.facts == facts), None)
    if here is None:
        raise UserError(f"{args.verify} has no rules for what this is: {_elsewhere(places, facts)}")
    clock = Clock(args.budget)
    every: dict[str, list[Rule]] = {"pay": [], "undecided": [], "fell back": [], "unmeasured": []}
    kept: list[Rule] = []
    names = list(dict.fromkeys(rule.collective for rule in here.rules))
    asked = _beside(replace(asked, collectives=tuple(names)), args, folder)
    for number, name in enumerate(names):
        share = (number + 1) / len(names)
        held, lines = _verify_one(asked, args.verify, here, folder, name, clock, args.rounds or ROUNDS, share)
        for standing, rule, left in held:
            every[standing].append(rule)
            kept += left
        print("\n".join(lines))
    if args.output:
        others = [place for place in places if place is not here]
        replace_text(
            args.output, table_text([Place(facts, tuple(kept)), *others], ["Written by `busbw tune nccl --verify`."])
        )
    more = f"; {len(every['fell back'])} fell back" if every["fell back"] else ""
    if every["undecided"]:
        more += f"; of {len(every['undecided'])} noise hides whether they pay: they stay, or take a longer --budget"
    if every["unmeasured"]:
        more += (
            f"; {len(every['unmeasured'])} were not measured: no size from -b to -e lies in them, or --budget was up"
        )
    print(f"{len(every['pay'])} of {len(here.rules)} rules still pay{more}")
    return 1 if every["fell back"] or every["unmeasured"] else 0


def _elsewhere(places: Sequence[Place], facts: Mapping[str, str]) -> str:
    """In what the place that is most alike differs."""
    other = [{name: place.facts[name] for name in facts if place.facts[name] != facts[name]} for place in places]
    if not other:
        return ", ".join(f"{name} {value}" for name, value in facts.items())
    nearest = min(other, key=len)
    return "it was measured with " + ", ".join(
        f"{name} {value} (here {facts[name]})" for name, value in nearest.items()
    )


def _verify_one(  # noqa: PLR0913, PLR0917 - what one collective of a table is proven with
    asked: Asked, table: Path, here: Place, folder: Path, name: str, clock: Clock, rounds: int, share: float
) -> tuple[list[tuple[str, Rule, list[Rule]]], list[str]]:
    from busbw.experiment.runner import run_trial
    from busbw.experiment.tune_nccl.search import finer_of, prove, sizes_of
    from busbw.experiment.tune_nccl.stage import Stage
    from busbw.experiment.tune_nccl.ways import plan_to_prove

    rules = [rule for rule in here.rules if rule.collective == name]
    chosen = {
        size: next((rule.way for rule in rules if rule.first <= size <= rule.last), None)
        for size in sizes_of(finer_of(asked))
    }
    stage = Stage(
        plan_to_prove(finer_of(asked), name, table, seed=3), folder / name / "verify", run_trial, clock, _tell
    )
    proven = prove(name, chosen, stage, rounds, share)
    return [held_of(rule, proven) for rule in rules], _proof_lines(name, proven, asked, _word_verified(rules))


def held_of(rule: Rule, proven: Sequence[Proven]) -> tuple[str, Rule, list[Rule]]:
    """How a rule stands, the rule, and what of it stays.

    It fell back where a size is surely slower for it, or surely gains less than the table says: that size leaves it.
    Noise that hides a gain takes nothing away: the gain was shown when the table was made.
    """
    within = sorted((each for each in proven if rule.first <= each.size <= rule.last), key=lambda each: each.size)
    if not within:
        return "unmeasured", rule, []
    fell = [fell_back(rule, each) for each in within]
    if any(fell):
        return "fell back", rule, _without(rule, [each.size for each in within], fell)
    pays = any(each.holds for each in within) or (rule.gain is None and all(each.judgement.sure for each in within))
    return "pay" if pays else "undecided", rule, [rule]


def fell_back(rule: Rule, proven: Proven) -> bool:
    """Whether a size surely has no reason to be in its rule any more."""
    interval = proven.judgement.interval
    if proven.judgement.verdict.value == "slower":
        return True
    return rule.gain is not None and interval is not None and interval.low <= 1 and interval.high < rule.gain[0]


def _without(rule: Rule, sizes: Sequence[int], fell: Sequence[bool]) -> list[Rule]:
    """The pieces of a rule between sizes that leave it; a piece ends at the last size that was measured."""
    pieces: list[Rule] = []
    for index, size in enumerate(sizes):
        if fell[index]:
            continue
        first = rule.first if index == 0 else size
        last = rule.last if index == len(sizes) - 1 else size
        if index and not fell[index - 1]:
            first = pieces.pop().first
        pieces.append(replace(rule, first=first, last=last))
    return pieces


def _proof_lines(name: str, proven: Sequence[Proven], asked: Asked, word: Callable[[Proven], str]) -> list[str]:
    from busbw.analysis.units import format_bytes
    from busbw.analysis.verdict import times_as_fast

    beside = f", both together with {asked.beside}" if asked.beside else ""
    head = f"{name}, {asked.ranks} ranks, {asked.type}{beside}"
    if not proven:
        return [f"{head}: nothing is faster than plain NCCL"]
    lines = [f"{head}: the table against things as they are"]
    for each in proven:
        interval = each.judgement.interval
        words = times_as_fast(interval.low, interval.high, "it") if each.holds and interval else ""
        words = words or each.judgement.words("it") + (", but slower in or out of place" if each.hurts else "")
        lines.append(f"  {format_bytes(each.size):>9}  {each.way!s:<28} {word(each)}: {words}")
    return lines


def _word(rules: Sequence[Rule]) -> Callable[[Proven], str]:
    """What became of a size in a search."""

    def word(proven: Proven) -> str:
        if proven.way.is_own:
            return "NCCL's own choice"
        if not any(rule.first <= proven.size <= rule.last for rule in rules):
            return "dropped"
        return "kept" if proven.holds else "kept, as NCCL's own choice seemed slower"

    return word


def _word_verified(rules: Sequence[Rule]) -> Callable[[Proven], str]:
    def word(proven: Proven) -> str:
        rule = next((rule for rule in rules if rule.first <= proven.size <= rule.last), None)
        if rule is not None and fell_back(rule, proven):
            return "fell back"
        return "still pays" if proven.holds else "no loss is sure"

    return word


def _use_lines(asked: Asked, facts: Mapping[str, str], output: Path, text: str) -> list[str]:
    from busbw.experiment.tune_nccl.rules import hash_of
    from busbw.machine.nccl.conf import set_by_files, shown_path

    lines = [f"The table is saved in {output}. A job uses it with", f"  NCCL_TUNER_PLUGIN={shlex.quote(asked.plugin)}",
             f"  BUSBW_TUNER_TABLE={shlex.quote(str(output.resolve()))}"]  # fmt: skip
    for name in asked.loosened:
        value, origin = asked.loosening.get(name), set_by_files(os.environ).get(name)
        if value is None and origin is not None:
            lines.append(f"  line {origin.line} of {shown_path(origin.where)} removed, which sets {name}")
        lines.append(f"  unset {name}" if value is None else f"  {name}={shlex.quote(value)}")
    if facts["nodes"] != "1":
        lines.append(f"  BUSBW_TUNER_ALIKE={hash_of(text)}")
    return lines


def _tell(line: str) -> None:
    print(f"busbw: {line}", file=sys.stderr)
