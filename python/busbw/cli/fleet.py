"""`busbw fleet`: plans rounds of groups over many nodes, measures them, and names slow nodes, cables and switches."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UserError, exiting_with
from busbw.base.words import Args
from busbw.cli.fleet_words import find_launcher, given, known_before, launching, limits_of, say

if TYPE_CHECKING:
    from busbw.fleet.crew import Crew
    from busbw.fleet.doubts import Judged
    from busbw.fleet.fabric import Fabric
    from busbw.fleet.knowledge import Knowledge
    from busbw.fleet.level import Before
    from busbw.fleet.options import Options
    from busbw.fleet.results import Results
    from busbw.fleet.verdict import Verdict
    from busbw.fleet.words import Launching

EPILOG = """\
Nodes come from --hosts, --hostfile or --topology, or from the head of FILE.

exit code of judge, run and watch: 0 no fault, 1 faults, 2 nothing can be
measured or judged, 124 the budget has passed

examples:
  busbw fleet plan --hosts gpu[001-128] --topology /etc/slurm/topology.conf
  busbw fleet run accept.jsonl --hosts gpu[001-128] --rails 8
  mpirun --map-by ppr:1:node busbw fleet run accept.jsonl --rails 8
  busbw fleet judge accept.jsonl --exclude slurm
  busbw fleet watch turns --hosts gpu[001-128] --idle --every 30m
  busbw fleet simulate --nodes 1024 --faults 8 --seed 3
"""


def run(args: Args) -> int:
    if args.action in {"plan", "simulate"}:
        return {"plan": _plan, "simulate": _simulate}[args.action](args)
    with exiting_with(2):  # 1 is a verdict
        if args.action == "judge":
            return _judge(args)
        from busbw.cli.fleet_ranks import lead

        return lead(args, launching, {"run": _run, "watch": _watch}[args.action])


def _plan(args: Args) -> int:
    from busbw.fleet.plan import next_round
    from busbw.fleet.words import launch

    fabric, options, results = given(args)
    known = results.knowledge()
    trials = next_round(fabric, known, options)
    how = launching(args, for_show=True)
    if not trials:
        print("nothing is left to measure; `busbw fleet judge` says what is slow")
        return 0
    print(f"# round {known.rounds + 1}: {len(trials)} groups, nobody in two at the same time on one channel")
    for number, trial in enumerate(trials):
        print(f"# {trial.kind} {trial.channel}, {len(trial.nodes)} nodes")
        for line in launch(trial, how, Path(f"round{known.rounds}-{number}.jsonl")).lines():
            print(line)
    return 0


def _simulate(args: Args) -> int:
    from dataclasses import replace

    from busbw.fleet.options import Options, inside_of
    from busbw.fleet.score import play
    from busbw.fleet.simulate import World, draw_faults, make_fabric

    world = World(make_fabric(args.nodes, args.pod_nodes, args.rails), noise=args.noise, seed=args.seed)
    world = replace(world, faults=draw_faults(world, args.faults, args.smallest_loss))
    options = Options(smallest_loss=args.smallest_loss, repeats=args.repeats, most_repeats=4 * args.repeats,
                      inside=inside_of(args.rails))  # fmt: skip
    score = play(world, options)
    if args.json:
        print(json.dumps({"drawn": [vars(fault) for fault in world.faults], **vars(score)}, indent=1))
        return 0
    for fault in world.faults:
        print(f"drawn: {fault.where} {'does not work' if fault.loss >= 1 else f'slow by {100 * fault.loss:.1f} %'}")
    print(f"named {score.named} of {score.faults} faults, accused {score.accused} good nodes, in {score.rounds} rounds")
    print(f"about {score.minutes:.1f} minutes, {score.node_minutes:.0f} node-minutes (0.5 s a sample, 10 s a start)")
    for word in score.missed:
        print(f"missed: {word}")
    for word in score.invented:
        print(f"invented: {word}")
    return 0


def _judge(args: Args) -> int:
    from busbw.fleet.doubts import Judged
    from busbw.fleet.judge import judge

    fabric, options, results = given(args)
    if not results.rounds:
        raise UserError(f"{args.file} holds no results; `busbw fleet run` measures")
    known = results.knowledge()
    verdicts = _with_levels(known_before(args), results, options, judge(fabric, known, options))
    _say_doubts(args, results, Judged(fabric, known, options, verdicts))
    return _tell(args, fabric, options, known, verdicts)


def _run(args: Args, crew: Crew | None) -> int:
    from busbw.fleet.doubts import Judged
    from busbw.fleet.judge import judge
    from busbw.fleet.run import Asked, measure

    file = Path(args.file)
    goes_on = file.exists() and file.stat().st_size > 0
    if args.idle and goes_on:  # its head has the nodes that were idle when it was begun
        args.hosts = args.hostfile = args.topology = None
    fabric, options, results = given(args, may_miss=True)
    how = launching(args)
    if crew:
        crew.know(fabric.nodes, args.file)
    else:
        find_launcher(how)
    if args.idle and not goes_on:
        from busbw.fleet.watch import idle_nodes, part_of

        fabric = part_of(fabric, idle_nodes(fabric.nodes))
    limits = limits_of(args, args.budget)
    _require_runs(args)
    peers = known_before(args)  # a mistake in it is told before an hour of measuring, not after it
    before = sum(map(len, results.rounds))
    known = measure(Asked(fabric, options, results, crew.measure if crew else None), how, file, limits, say)
    if not known.rounds:
        raise UserError("nothing was measured: one node alone has no partner; give two nodes, or --inside nvlink")
    verdicts = _with_levels(peers, results, options, judge(fabric, known, options))
    if sum(map(len, results.rounds)) > before:
        _keep(args, fabric, results, verdicts, how)
    _say_doubts(args, results, Judged(fabric, known, options, verdicts))
    return _tell(args, fabric, options, known, verdicts)


def _say_doubts(args: Args, results: Results, judged: Judged) -> None:
    from busbw.fleet.doubts import doubts

    for said in doubts(results, judged, bool(args.expected)):
        say(f"busbw: {said}")


def _keep(args: Args, fabric: Fabric, results: Results, verdicts: list[Verdict], how: Launching) -> None:
    """Levels among the runs, for `busbw history`."""
    from busbw.fleet.kept import records
    from busbw.runs import store
    from busbw.runs.destination import new_run_id

    if not args.no_record:
        for record in records(fabric, results, verdicts, how, new_run_id()):
            store.add(record, store.location(args.runs))


def _require_runs(args: Args) -> None:
    from busbw.runs import destination, store

    if not args.no_record:
        destination.require_runs(store.location(args.runs))


def _watch(args: Args, crew: Crew | None) -> int:
    import os

    from busbw.base.prometheus import write_exposition
    from busbw.fleet import show
    from busbw.fleet.level import read_expected
    from busbw.fleet.watch import Turn, Turns, Watcher, not_queued

    folder, args.file = Path(args.folder), None
    fabric, options, _ = given(args)
    how = not_queued(launching(args), "SLURM_JOB_ID" in os.environ)
    if crew:
        crew.know(fabric.nodes, args.folder)
    else:
        find_launcher(how)

    def tell(turn: Turn) -> None:
        for line in show.table(turn.verdicts):
            print(line)
        print(show.summary(turn.fabric, turn.known, turn.verdicts, options), flush=True)
        _write_page(args, turn.fabric, options, turn.known, turn.verdicts)
        if args.prometheus:
            write_exposition(Path(args.prometheus), show.metrics(turn.fabric, turn.known, turn.verdicts))
        _keep(args, fabric, turn.results, turn.verdicts, how)  # by the name of the whole fleet: turns are one series

    _require_runs(args)
    turns = Turns(args.every, args.turns, args.at_most, read_expected(args.expected) if args.expected else {})
    watcher = Watcher(
        fabric,
        options,
        how,
        folder,
        limits_of(args, max(args.every, args.trial_limit)),
        turns,
        args.idle,
        say,
        tell,
        crew.measure if crew else None,
    )
    return watcher.run()


def _write_page(args: Args, fabric: Fabric, options: Options, known: Knowledge, verdicts: list[Verdict]) -> None:
    from busbw.base.files import write_whole
    from busbw.fleet.page import page

    if args.page:
        write_whole(args.page, page(fabric, known, verdicts, options))


def _with_levels(before: Before, results: Results, options: Options, verdicts: list[Verdict]) -> list[Verdict]:
    """With what peers cannot show."""
    from busbw.fleet.level import judge_levels

    found = judge_levels(results, before, options, verdicts)
    return sorted([*verdicts, *found], key=lambda verdict: (-verdict.loss, verdict.name))


def _tell(args: Args, fabric: Fabric, options: Options, known: Knowledge, verdicts: list[Verdict]) -> int:
    from busbw.base.files import write_whole
    from busbw.base.prometheus import write_exposition
    from busbw.fleet import show

    excluded = show.nodes_to_exclude(fabric, verdicts)
    if args.junit:
        write_whole(args.junit, show.junit(fabric, verdicts))
    _write_page(args, fabric, options, known, verdicts)
    if args.prometheus:
        write_exposition(Path(args.prometheus), show.metrics(fabric, known, verdicts))
    if args.exclude:
        print("\n".join(show.exclude_lines(excluded, fabric, args.exclude)))
    elif args.json:
        print(json.dumps(show.as_json(fabric, known, verdicts, options), indent=1))
    else:
        print("\n".join(show.table(verdicts)))
        print(show.summary(fabric, known, verdicts, options))
        for line in () if args.drain else show.exclude_lines(excluded, fabric, "slurm"):
            print(f"  {line}")
    if noise := show.too_noisy(known, options):
        print(f"busbw: {noise}", file=sys.stderr)
    if args.drain:
        _drain(excluded)
    return 1 if verdicts else 0


def _drain(excluded: dict[str, str]) -> None:
    from busbw.base.programs import ask
    from busbw.fleet.show import drain_words

    for argv in drain_words(excluded):
        answer = ask(argv, 30.0)
        if answer.returncode:
            raise UserError(
                f"{argv[2]} could not be drained: scontrol is missing or refused; draining needs an operator's rights"
            )
        print(f"{argv[2]} is drained", file=sys.stderr)
