"""`busbw predict COLLECTIVE --machine TYPE --nodes N`: time and bus bandwidth that nobody has measured yet."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from busbw.base.errors import UsageError, UserError
from busbw.cli.report import sizes
from busbw.records import Collective

if TYPE_CHECKING:
    from busbw.expect.fabric import Fabric
    from busbw.expect.model import Prediction
    from busbw.expect.terms import Terms

_DEFAULT_SIZES = [1 << power for power in (3, 10, 16, 20, 24, 26, 28, 30, 32)]
_EPILOG = """\
Without --machine or --topology, this machine is read. --from fits the terms of
one node to a run that was measured on it (8 bytes to 1 GiB or more), which is
nearer to the truth than the general terms.

examples:
  busbw predict all_reduce --machine ndv4 --nodes 1,2,12500 --sizes 1K,1G
  busbw predict all_reduce --machine ndv4 --nodes 2 --from catalogue:ndv4-1node
  busbw predict alltoall --machine dgx-h100 --nodes 64
  busbw predict all_gather --topology topo.xml --gpus 4 --nics 4 --nic-gbps 400
  busbw predict --limits --machine dgx-h100 --nodes 1,2
  busbw predict --list
  busbw predict --check
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this verb."""
    parser.epilog = _EPILOG
    parser.add_argument("collective", nargs="?", help="such as all_reduce")
    parser.add_argument("--machine", metavar="TYPE", help="machine type; --list shows those that are known")
    parser.add_argument("--topology", metavar="FILE", help="a machine from a file: NCCL's XML, nvidia-smi's output")
    parser.add_argument("--gpus", type=int, metavar="N", help="GPUs used of each node (default all)")
    parser.add_argument("--nodes", type=_numbers, default=[1], metavar="N,N", help="numbers of nodes (default 1)")
    parser.add_argument("--sizes", type=sizes, default=_DEFAULT_SIZES, metavar="SIZES", help="8,1K,64M,1G")
    parser.add_argument("--from", dest="source", metavar="RUN", help="fit the terms to this run on one node")
    network = parser.add_argument_group("instead of what the machine type says")
    network.add_argument("--nics", type=int, metavar="N", help="network interfaces of a node")
    network.add_argument("--nic-gbps", type=float, metavar="GBIT/S", help="rate of each")
    network.add_argument("--net", choices=["InfiniBand", "RoCE", "Ethernet"], help="kind of network")
    network.add_argument("--channels", type=int, metavar="N", help="as with NCCL_MAX_NCHANNELS=N")
    network.add_argument("--no-nvls", action="store_true", help="as with NCCL_NVLS_ENABLE=0")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--limits", action="store_true", help="bus bandwidth of large messages, by algorithm")
    parser.add_argument("--list", action="store_true", help="list the machine types")
    parser.add_argument("--check", action="store_true", help="compare predictions with the catalogue's figures")
    parser.add_argument("--markdown", action="store_true", help="with --check: the page docs/results/predictions.md")
    parser.add_argument("--runs", metavar="DIR", help="where kept runs lie")


def run(args: argparse.Namespace) -> int:
    """Predict, list or check."""
    from busbw.expect import text

    if args.list:
        print("\n".join(_list()))
        return 0
    if args.check:
        from busbw.expect.check import all_entries

        checked = list(all_entries())
        print(text.page(checked) if args.markdown else text.check_text(checked), end="")
        return 0
    fabric = _adjusted(_fabric(args), args)
    if args.limits:
        print(text.limits_text(fabric, args.nodes, multicast=not args.no_nvls), end="")
        return 0
    terms = _terms(args, fabric)
    found = _predictions(args, fabric, terms)
    if args.json:
        print(json.dumps(text.predictions_json(found, fabric, terms), indent=1, ensure_ascii=False))
    else:
        print(text.predictions_text(found, fabric, terms), end="")
    return 0


def _predictions(args: argparse.Namespace, fabric: Fabric, terms: Terms) -> list[Prediction]:
    from busbw.expect.model import Question, predict

    if args.collective is None:
        raise UsageError("say what to predict, such as all_reduce; `busbw predict --help` has examples")
    if args.collective not in get_args(Collective):
        from difflib import get_close_matches

        near = get_close_matches(args.collective, get_args(Collective), n=1)
        raise UsageError(f"there is no collective '{args.collective}'" + (f"; did you mean {near[0]}?" if near else ""))
    gpus = fabric.gpus if args.gpus is None else args.gpus
    return [
        predict(Question(args.collective, size, gpus, nodes, not args.no_nvls), fabric, terms)
        for nodes in args.nodes
        for size in args.sizes
    ]


def _fabric(args: argparse.Namespace) -> Fabric:
    from busbw.expect import machines
    from busbw.expect.fabric import of_machine

    if args.machine and args.topology:
        raise UsageError("--machine and --topology both say what the machine is; give one of them")
    if args.machine:
        return machines.require(args.machine)
    if args.topology:
        from busbw.machine.topology.load import load

        return of_machine(load(Path(args.topology)).machine)
    from busbw.machine.topology.live import read_live

    machine = read_live().machine
    if not machine.gpus:
        raise UsageError("this machine has no GPU; name one with --machine (--list shows which) or --topology FILE")
    return of_machine(machine)


def _adjusted(fabric: Fabric, args: argparse.Namespace) -> Fabric:
    from busbw.expect.links import NetKind

    for name, value in (("--nics", args.nics), ("--nic-gbps", args.nic_gbps), ("--channels", args.channels)):
        if value is not None and not 0 < value < 1e6:
            raise UsageError(f"{name} {value:g}: a positive number is needed")
    return replace(
        fabric,
        nics=fabric.nics if args.nics is None else args.nics,
        nic_Gbps=fabric.nic_Gbps if args.nic_gbps is None else args.nic_gbps,
        net=fabric.net if args.net is None else NetKind(args.net),
        channels=args.channels,
    )


def _terms(args: argparse.Namespace, fabric: Fabric) -> Terms:
    from busbw.expect.terms import general

    terms = general(fabric.sm)
    if not args.source:
        return terms
    from busbw.cli.sources import resolve
    from busbw.expect.calibrate import calibrate, sweep_of

    found = resolve([args.source], args.runs)
    if len(found) != 1:
        raise UserError(f"'{args.source}' names {len(found)} runs where one is expected; add #1 for the first")
    sweep = sweep_of(found[0].record, args.source)
    if sweep.gpus > fabric.gpus:
        raise UserError(f"{args.source} ran on {sweep.gpus} GPUs, but {fabric.name} has {fabric.gpus}")
    return calibrate(sweep, fabric, terms)


def _list() -> list[str]:
    from busbw.base.text import columns
    from busbw.expect import machines

    rows = [[name, machines.describe(machines.require(name))] for name in machines.names()]
    return columns(["type", "what it is"], rows, left=(0, 1))


def _numbers(text: str) -> list[int]:
    try:
        values = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers; write it as 1,2,16") from None
    if min(values) < 1:
        raise argparse.ArgumentTypeError("a job has at least one node")
    return values
