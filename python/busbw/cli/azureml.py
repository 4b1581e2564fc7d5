"""`busbw azureml setup|submit|collect|cancel|teardown`: the same measurement as a job of Azure Machine Learning."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.words import Args, parse
from busbw.cli.verbs import COLLECTIVES

if TYPE_CHECKING:
    from busbw.launch.clouds.azureml import steps
    from busbw.launch.clouds.azureml.cloud import Cloud
    from busbw.launch.clouds.azureml.documents import Measurement
    from busbw.launch.clouds.azureml.settings import Settings

FLEET = "fleet"
HAS_NONE = (
    "hostfile",
    "topology",
    "earlier",
    "idle",
    "drain",
    "launcher_program",
    "launcher_arg",
    "image",
    "namespace",
)
"""What `fleet run` takes and a job of Azure ML lacks: files from here, Slurm, a launcher of ours."""
STEPS = ("example", "price", "setup", "submit", "collect", "cancel", "teardown")
LONGEST_WAIT = 24 * 3600.0
START_LIMIT = 3600.0
STOPPING = (signal.SIGTERM, signal.SIGHUP)

EPILOG = """\
steps:
  example    print a file of names to start from
  price      print what a node costs, from Azure's public list
  setup      make group, workspace, cluster and environment where missing
  submit     start a job that measures COLLECTIVE, or a fleet
  collect    wait for a job and fetch its record: busbw azureml collect JOB
  cancel     end a job: busbw azureml cancel JOB
  teardown   delete the cluster that busbw made; --everything: group too

examples:
  busbw azureml example > busbw-azureml.toml
  busbw azureml setup --dry-run
  busbw azureml submit --nodes 2 all_reduce -b 8 -e 8G -f 2
  busbw azureml submit --nodes 16 --wait fleet run accept.jsonl --rails 8
  busbw azureml collect calm_rhubarb_1
  busbw azureml teardown

Credentials are azure-identity's (az login, environment, managed identity) and
are neither stored nor printed.
"""


def run_words(verb: str, words: Sequence[str]) -> int:
    """Everything from the collective on belongs to the measurement, whatever it looks like."""
    args = parse(verb, words, until=lambda word: word in COLLECTIVES or word == FLEET)
    if args.help:
        from busbw.cli.arguments.help import verb_help

        print(verb_help(verb, EPILOG), end="")
        return 0
    if args.step not in STEPS:
        raise UsageError(f"'{args.step}' is no step; there are {', '.join(STEPS)}")
    return run(args)


def run(args: Args) -> int:
    """Do one step."""
    from busbw.launch.clouds.azureml import prices, settings, steps

    if args.step == "example":
        print(settings.EXAMPLE, end="")
        return 0
    names = settings.load(args.config)
    measurement = _measurement(args, names) if args.step == "submit" else None
    if args.price:
        names = replace(names, price=prices.said(args.price))
    if args.step in {"collect", "cancel"} and (not args.job or args.rest):
        raise UsageError(f"{args.step} takes the name of one job: busbw azureml {args.step} JOB")
    if args.dry_run:
        print(*_shown(args, names, measurement), sep="\n")
        return 0
    if args.step == "collect":
        return _collect(args, names, args.job)
    if args.step == "price":
        cluster = names.cluster
        found = prices.ask(cluster.vm_size, names.azure.location, low_priority=cluster.low_priority)
        print(prices.as_table(found), end="")
        return 0
    from busbw.launch.clouds.azureml.cloud import Cloud

    cloud = Cloud(names)
    if args.step == "setup":
        steps.setup(names, cloud, _asker(args.yes), _say)
    elif args.step == "cancel":
        cloud.cancel(args.job)
        _say(f"job {args.job} is cancelled; `busbw azureml collect {args.job}` fetches what it measured")
    elif args.step == "teardown":
        steps.teardown(names, cloud, _asker(args.yes), _say, everything=args.everything)
    else:
        assert measurement is not None
        name = steps.submit(names, cloud, measurement, _asker(args.yes), _say)
        print(name)
        return _collect(args, names, name, cloud) if args.wait else 0
    return 0


def _shown(args: Args, names: Settings, measurement: Measurement | None) -> Iterator[str]:
    """What the step would do."""
    from busbw.launch.clouds.azureml import prices, steps

    if args.step == "teardown":
        return steps.shown_teardown(names, everything=args.everything)
    if args.step == "collect":
        return steps.shown_collect(names, args.job, _target(args, args.job))
    if args.step == "cancel":
        return steps.shown_cancel(names, args.job)
    if args.step == "price":
        place = f"{names.cluster.vm_size} in {names.azure.location}"
        return iter([f"ask {prices.LIST} for the price of {place}", "print it as the table [price]"])
    shown = steps.shown(names, measurement)
    if args.step == "submit" and args.wait:
        return chain(shown, ["# then, with the name that Azure ML gives the job:"],
                     steps.shown_collect(names, "JOB", _target(args, "JOB")))  # fmt: skip
    return shown


def _target(args: Args, job: str) -> Path:
    """Where the record of a job belongs."""
    from busbw.runs.destination import RECORD_NAME, runs_directory
    from busbw.runs.store import folder_name

    return runs_directory(args.runs) / folder_name(f"azureml-{job}") / RECORD_NAME


def _measurement(args: Args, names: Settings) -> Measurement:
    import os

    from busbw.cli.arguments.measuring import understand
    from busbw.launch.clouds.azureml.documents import Measurement
    from busbw.launch.request import variables
    from busbw.runs.destination import new_run_id

    if args.job or not args.rest:
        raise UsageError(f"submit takes a collective, one of {', '.join(COLLECTIVES)}, and the engine's options, or "
                         "`fleet run FILE`")  # fmt: skip
    if args.rest[0] == FLEET:
        return _fleet(args, names)
    asked = understand(args.rest[0], args.rest[1:])
    if asked.starts_ranks:
        raise UsageError("a job of Azure ML starts its ranks itself; options of a launch stand before the collective")
    nodes = _nodes(args, names)
    ranks = args.ranks_per_node
    if ranks is None:
        ranks = max(1, names.cluster.gpus_per_node // asked.ranks_per_process)
    if not 1 <= ranks <= 1024:
        raise UsageError(f"--ranks-per-node {ranks}: it must lie between 1 and 1024")
    return Measurement(
        (asked.collective, *asked.engine_words),
        nodes,
        ranks,
        args.distribution,
        variables(args.env or (), os.environ),
        args.time_limit,
        new_run_id("azureml"),
    )


def _nodes(args: Args, names: Settings) -> int:
    nodes: int = names.cluster.nodes if args.nodes is None else args.nodes
    if not 1 <= nodes <= names.cluster.nodes:
        raise UsageError(f"--nodes {nodes}: the cluster {names.cluster.name} has {names.cluster.nodes}")
    return nodes


def _fleet(args: Args, names: Settings) -> Measurement:
    """A job of one busbw on each node, which Azure ML chooses; its rank 0 leads."""
    import os

    from busbw.launch.clouds.azureml.documents import Measurement
    from busbw.launch.request import variables

    words = list(args.rest[1:])
    asked = parse(FLEET, words)
    if asked.help or asked.action != "run":
        raise UsageError("a job measures: submit takes `fleet run FILE`; other steps of a fleet need no node")
    for name in HAS_NONE:
        if getattr(asked, name, None):
            raise UsageError(f"--{name.replace('_', '-')} means nothing in a job of Azure ML: it has its nodes, and no "
                             "file or scheduler of yours; leave it out")  # fmt: skip
    if asked.hosts or asked.launcher not in {None, "ranks"}:
        raise UsageError("a job of Azure ML cannot choose its nodes or start programs on them: leave --hosts and "
                         "--launcher out, busbw runs once on each node")  # fmt: skip
    if asked.file != Path(asked.file).name:
        raise UsageError(
            f"{asked.file}: in the job the results lie in its outputs folder; give a name without a folder"
        )
    if args.ranks_per_node not in {None, 1}:
        raise UsageError(f"--ranks-per-node {args.ranks_per_node}: a fleet has one busbw on each node")
    nodes = _nodes(args, names)
    if nodes < 2:
        raise UsageError("--nodes 1: one node alone has no partner; a fleet takes two or more")
    kept = () if asked.no_record else ("--no-record",)  # what is kept within a container goes with it
    return Measurement((FLEET, *words, *kept), nodes, 1, args.distribution, variables(args.env or (), os.environ),
                       args.time_limit)  # fmt: skip


def _collect(args: Args, names: Settings, job: str, submitted_by: Cloud | None = None) -> int:
    """Follow a job, fetch its record, tell what it cost. A job that we have submitted ends where we are told to end."""
    from busbw.launch.clouds.azureml import following, prices, steps
    from busbw.launch.clouds.azureml.cloud import Cloud, scratch

    cloud = submitted_by or Cloud(names)
    target = _target(args, job)
    if there := sorted(target.parent.glob("*.jsonl")):
        raise UserError(f"job {job} has been collected: its record is {there[0]}")
    limits = following.Limits(LONGEST_WAIT, (args.start_limit or START_LIMIT) if submitted_by else None)
    try:
        with _signals_as_interrupts():
            ended = following.follow(cloud, job, limits, _say, _show)
    except KeyboardInterrupt:
        if submitted_by is None:
            raise
        _say(f"stopped by a signal: cancelling job {job}")
        cloud.cancel(job)
        return 130
    except UserError as problem:
        if submitted_by is None or "azureml cancel" in str(problem) or "was cancelled" in str(problem):
            raise
        raise UserError(f"{problem}; job {job} may still run: `busbw azureml cancel {job}` ends it") from None
    _say(prices.after(names.price, ended.nodes, ended.seconds))
    with scratch() as folder:
        found = steps.collect(cloud, job, target, folder)
    if found == target:
        _say(f"the record of this run is {target}")
    else:
        _say(f"the results of this fleet are {found}; `busbw fleet judge {shlex.quote(str(found))}` names what is slow")
    return ended.code


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """What ends a terminal's session, or this program, is a reason to cancel a job that costs money."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(text: str) -> None:
    """A part of the job's log; a terminal gets nothing of it that it would obey."""
    shown = "".join(each for each in text if each.isprintable() or each in "\n\t")
    print(shown, end="", flush=True)


def _asker(yes: bool) -> steps.Ask:
    def ask(question: str) -> bool:
        if yes:
            return True
        if not sys.stdin.isatty():
            raise UserError(f"{question} Nobody is here to answer; say --yes, or look first with --dry-run")
        print(f"busbw: {question} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in {"y", "yes"}

    return ask


def _say(sentence: str) -> None:
    print(f"busbw: {sentence}", file=sys.stderr, flush=True)
