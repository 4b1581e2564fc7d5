"""`busbw azureml setup|submit|collect|teardown`: the same measurement as a job of Azure Machine Learning."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.words import Args, parse
from busbw.cli.verbs import COLLECTIVES

if TYPE_CHECKING:
    from busbw.launch.clouds.azureml import steps
    from busbw.launch.clouds.azureml.documents import Measurement
    from busbw.launch.clouds.azureml.settings import Settings

DEFAULT_FILE = "busbw-azureml.toml"
STEPS = ("example", "setup", "submit", "collect", "teardown")
LONGEST_WAIT = 24 * 3600.0

EPILOG = """\
steps:
  example    print a file of names to start from
  setup      make group, workspace, cluster and environment where missing
  submit     start a job that measures COLLECTIVE
  collect    wait for a job and fetch its record: busbw azureml collect JOB
  teardown   delete the cluster that busbw made; --everything: group too

examples:
  busbw azureml example > busbw-azureml.toml
  busbw azureml setup --dry-run
  busbw azureml submit --nodes 2 all_reduce -b 8 -e 8G -f 2
  busbw azureml collect calm_rhubarb_1
  busbw azureml teardown

Credentials are azure-identity's (az login, environment, managed identity) and
are neither stored nor printed.
"""


def run_words(verb: str, words: Sequence[str]) -> int:
    """Everything from the collective on belongs to the measurement, whatever it looks like."""
    args = parse(verb, words, until=lambda word: word in COLLECTIVES)
    if args.help:
        from busbw.cli.arguments.help import verb_help

        print(verb_help(verb, EPILOG), end="")
        return 0
    if args.step not in STEPS:
        raise UsageError(f"'{args.step}' is no step; there are {', '.join(STEPS)}")
    return run(args)


def run(args: Args) -> int:
    """Do one step."""
    from busbw.launch.clouds.azureml import settings, steps

    if args.step == "example":
        print(settings.EXAMPLE, end="")
        return 0
    names = settings.load(args.config)
    measurement = _measurement(args, names) if args.step == "submit" else None
    if args.step == "collect" and (not args.job or args.rest):
        raise UsageError("collect takes the name of one job: busbw azureml collect JOB")
    if args.dry_run:
        print(*_shown(args, names, measurement), sep="\n")
        return 0
    if args.step == "collect":
        return _collect(args, names, args.job)
    from busbw.launch.clouds.azureml.cloud import Cloud

    cloud = Cloud(names)
    if args.step == "setup":
        steps.setup(names, cloud, _asker(args.yes), _say)
    elif args.step == "teardown":
        steps.teardown(names, cloud, _asker(args.yes), _say, everything=args.everything)
    else:
        assert measurement is not None
        name = steps.submit(names, cloud, measurement, _asker(args.yes), _say)
        print(name)
        return _collect(args, names, name) if args.wait else 0
    return 0


def _shown(args: Args, names: Settings, measurement: Measurement | None) -> Iterator[str]:
    """What the step would do."""
    from busbw.launch.clouds.azureml import steps

    if args.step == "teardown":
        return steps.shown_teardown(names, everything=args.everything)
    if args.step == "collect":
        return steps.shown_collect(names, args.job, _target(args, args.job))
    return steps.shown(names, measurement)


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
        raise UsageError(f"submit takes a collective, one of {', '.join(COLLECTIVES)}, and the engine's options")
    asked = understand(args.rest[0], args.rest[1:])
    if asked.starts_ranks:
        raise UsageError("a job of Azure ML starts its ranks itself; options of a launch stand before the collective")
    nodes = names.cluster.nodes if args.nodes is None else args.nodes
    if not 1 <= nodes <= names.cluster.nodes:
        raise UsageError(f"--nodes {nodes}: the cluster {names.cluster.name} has {names.cluster.nodes}")
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


def _collect(args: Args, names: Settings, job: str) -> int:
    from busbw.launch.clouds.azureml import steps
    from busbw.launch.clouds.azureml.cloud import FINISHED, Cloud, scratch

    cloud = Cloud(names)
    target = _target(args, job)
    if target.exists():
        raise UserError(f"job {job} has been collected: its record is {target}")
    code = steps.wait(cloud, job, FINISHED, LONGEST_WAIT, _say)
    with scratch() as folder:
        steps.collect(cloud, job, target, Path(folder))
    _say(f"the record of this run is {target}")
    return code


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
