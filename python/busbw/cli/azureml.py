"""`busbw azureml setup|submit|collect|teardown`: the same measurement as a job of Azure Machine Learning."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.cli.verbs import COLLECTIVES

if TYPE_CHECKING:
    from busbw.launch.clouds.azureml import steps
    from busbw.launch.clouds.azureml.documents import Measurement
    from busbw.launch.clouds.azureml.settings import Settings

DEFAULT_FILE = "busbw-azureml.toml"
STEPS = ("example", "setup", "submit", "collect", "teardown")
LONGEST_WAIT = 24 * 3600.0

EXAMPLES = """\
steps:
  example    print a file of names to start from
  setup      make resource group, workspace, compute cluster and environment where they are missing
  submit     start a job: busbw azureml submit [--collect] COLLECTIVE [measuring options]
  collect    wait for a job and fetch its record: busbw azureml collect JOB
  teardown   delete the cluster that busbw made; with --everything, workspace and group too

examples:
  busbw azureml example > busbw-azureml.toml
  busbw azureml setup --dry-run
  busbw azureml submit --nodes 2 all_reduce -b 8 -e 8G -f 2
  busbw azureml collect calm_rhubarb_1
  busbw azureml teardown

Credentials are azure-identity's (az login, environment, managed identity) and are neither stored nor printed.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this verb."""
    parser.usage = "busbw azureml STEP [options] [COLLECTIVE [measuring options] | JOB]"
    parser.epilog = EXAMPLES
    parser.add_argument("step", choices=STEPS, metavar="STEP", help="what to do, of those below")
    parser.add_argument(
        "--config", type=Path, default=Path(DEFAULT_FILE), metavar="FILE", help=f"names ({DEFAULT_FILE})"
    )
    parser.add_argument("--dry-run", action="store_true", help="show every resource, or the job, and do nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask before what costs money or deletes")
    parser.add_argument("--nodes", type=int, metavar="N", help="nodes of the job (default: the cluster's)")
    parser.add_argument("--ranks-per-node", type=int, metavar="N", help="processes of each node (default: its GPUs)")
    parser.add_argument("--distribution", choices=("mpi", "pytorch"), default="mpi", help="who starts the ranks")
    parser.add_argument("--env", action="append", metavar="NAME[=VALUE]", help="give the ranks this variable")
    parser.add_argument("--time-limit", metavar="TIME", help="end the job after 90s, 20m, 2h or HH:MM:SS")
    parser.add_argument("--collect", action="store_true", help="after submitting, wait and fetch the record")
    parser.add_argument("--everything", action="store_true", help="teardown: workspace and resource group too")
    parser.add_argument("--runs", metavar="DIR", help="where kept runs lie")
    parser.add_argument("job", nargs="?", metavar="JOB", help="name of the job to collect")


def run_words(verb: str, words: Sequence[str]) -> int:
    """Everything from the collective on belongs to the engine, whatever it looks like."""
    from busbw.base.parser import Parser

    cut = next((at for at, word in enumerate(words) if word in COLLECTIVES), len(words))
    parser = Parser(prog=f"busbw {verb}", description="Measure as a job of Azure Machine Learning.")
    configure(parser)
    args = parser.understand(words[:cut])
    args.what = list(words[cut:])
    return run(args)


def run(args: argparse.Namespace) -> int:
    """Do one step."""
    from busbw.launch.clouds.azureml import settings, steps

    if args.step == "example":
        print(settings.EXAMPLE, end="")
        return 0
    names = settings.load(args.config)
    measurement = _measurement(args, names) if args.step == "submit" else None
    if args.dry_run:
        print(*steps.shown(names, measurement), sep="\n")
        return 0
    if args.step == "collect":
        if not args.job or args.what:
            raise UsageError("collect takes the name of one job: busbw azureml collect JOB")
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
        return _collect(args, names, name) if args.collect else 0
    return 0


def _measurement(args: argparse.Namespace, names: Settings) -> Measurement:
    import os

    from busbw.cli.launching import ranks_per_process
    from busbw.launch.clouds.azureml.documents import Measurement
    from busbw.launch.request import seconds, variables
    from busbw.runs.destination import new_run_id

    if args.job or not args.what:
        raise UsageError(f"submit takes a collective, one of {', '.join(COLLECTIVES)}, and the engine's options")
    nodes = names.cluster.nodes if args.nodes is None else args.nodes
    if not 1 <= nodes <= names.cluster.nodes:
        raise UsageError(f"--nodes {nodes}: the cluster {names.cluster.name} has {names.cluster.nodes}")
    ranks = args.ranks_per_node
    if ranks is None:
        ranks = max(1, names.cluster.gpus_per_node // ranks_per_process(args.what))
    if not 1 <= ranks <= 1024:
        raise UsageError(f"--ranks-per-node {ranks}: it must lie between 1 and 1024")
    return Measurement(
        tuple(args.what),
        nodes,
        ranks,
        args.distribution,
        variables(args.env or (), os.environ),
        seconds(args.time_limit) if args.time_limit else None,
        new_run_id("azureml"),
    )


def _collect(args: argparse.Namespace, names: Settings, job: str) -> int:
    from busbw.launch.clouds.azureml import steps
    from busbw.launch.clouds.azureml.cloud import FINISHED, Cloud, scratch
    from busbw.runs.destination import RECORD_NAME, runs_directory
    from busbw.runs.store import folder_name

    cloud = Cloud(names)
    target = runs_directory(args.runs) / folder_name(f"azureml-{job}") / RECORD_NAME
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
