"""`busbw predict COLLECTIVE --machine TYPE --nodes N`: time and bus bandwidth that nobody has measured yet."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from busbw.base.errors import UsageError, UserError, exiting_with
from busbw.base.words import Args
from busbw.records import Collective

if TYPE_CHECKING:
    from busbw.expect.fabric import Fabric
    from busbw.expect.question import Prediction
    from busbw.expect.terms import Terms
    from busbw.machine.topology.load import Loaded
    from busbw.machine.topology.model import Machine

_DEFAULT_SIZES = [1 << power for power in (3, 10, 16, 20, 24, 26, 28, 30, 32)]
EPILOG = """\
Without --machine or --topology, this machine is read. --from fits the terms of
one node to a run that was measured on it (8 bytes to 1 GiB or more). That is
more accurate than the general terms.

examples:
  busbw predict all_reduce --machine ndv4 --nodes 1,2,12500 --sizes 1K,1G
  busbw predict all_reduce --machine ndv4 --nodes 2 --from catalogue:ndv4-1node
  busbw predict alltoall --machine dgx-h100 --nodes 64
  busbw predict step recordings --machine ndv5
  busbw predict all_gather --topology topo.xml --gpus-per-node 4 \\
      --nics 4 --nic-gbps 400
  busbw predict all_reduce --topology matrix.txt --gpu H100
  busbw predict --limits --machine dgx-h100 --nodes 1,2
  busbw predict step layers.toml --machine dgx-h100 --nodes 1,2,16
  busbw predict step layers.toml --parallel fsdp --times RUN
  busbw predict --list
  busbw predict --against-catalogue
"""


def run(args: Args) -> int:
    """Predict, list or check; what is named and cannot be used ends with 2, as with every other verb."""
    with exiting_with(2):
        return _run(args)


def _run(args: Args) -> int:
    from busbw.expect import text

    if args.list:
        print("\n".join(_list()))
        return 0
    if args.against_catalogue:
        from busbw.expect.check import all_entries

        checked = list(all_entries())
        print(text.page(checked) if args.markdown else text.check_text(checked), end="")
        return 0
    if args.collective and args.collective[0] == "step":
        from busbw.cli.predict_step import run as predict_step

        return predict_step(args, lambda: _adjusted(_fabric(args), args), lambda fabric: _terms(args, fabric))
    if args.parallel or args.times:
        raise UsageError("--parallel and --times belong to a step: busbw predict step FILE")
    fabric = _adjusted(_fabric(args), args)
    if args.limits:
        print(_limits(args, fabric), end="")
        return 0
    terms = _terms(args, fabric)
    found = _predictions(args, fabric, terms)
    if args.json:
        print(json.dumps(text.predictions_json(found, fabric, terms), indent=1, ensure_ascii=False))
    else:
        print(text.predictions_text(found, fabric, terms), end="")
    return 0


def _limits(args: Args, fabric: Fabric) -> str:
    from busbw.expect import text

    gpus = args.gpus_per_node
    if gpus is not None and not 1 <= gpus <= fabric.gpus:
        raise UsageError(f"--gpus-per-node {gpus}: {fabric.name} has {fabric.gpus} GPUs a node")
    if gpus == 1 and 1 in args.nodes:
        raise UsageError("--gpus-per-node 1: one GPU has nobody to talk to; ask for more nodes (--nodes 2)")
    return text.limits_text(fabric, args.nodes, multicast=not args.no_nvls, gpus_per_node=gpus)


def _predictions(args: Args, fabric: Fabric, terms: Terms) -> list[Prediction]:
    from busbw.expect.model import predict
    from busbw.expect.question import Question

    if len(args.collective) > 1:
        raise UsageError(f"'{args.collective[1]}' is one word too many: one collective is predicted at a time")
    if not args.collective:
        raise UsageError("say what to predict, such as all_reduce; `busbw predict --help` has examples")
    collective = args.collective[0]
    if collective not in get_args(Collective):
        from busbw.base.nearest import nearest

        near = nearest(collective, get_args(Collective))
        raise UsageError(f"there is no collective '{collective}'" + (f"; did you mean {near}?" if near else ""))
    gpus = fabric.gpus if args.gpus_per_node is None else args.gpus_per_node
    driven = args.gpus_per_process or 1
    if driven > gpus:
        raise UsageError(f"--gpus-per-process {driven}: a node of this question has {gpus} GPUs")
    return [
        predict(Question(collective, size, gpus, nodes, not args.no_nvls, driven), fabric, terms)
        for nodes in args.nodes
        for size in args.sizes or _DEFAULT_SIZES
    ]


def _fabric(args: Args) -> Fabric:
    from busbw.expect import machines
    from busbw.expect.fabric import of_machine

    if args.machine and args.topology:
        raise UsageError("--machine and --topology both say what the machine is; give one of them")
    if args.machine:
        return machines.require(args.machine)
    if args.topology:
        from busbw.machine.topology.load import load

        return of_machine(_named(load(Path(args.topology)), args.gpu))
    if args.gpu:
        raise UsageError("--gpu says which GPUs the machine of --topology FILE has; without a file say --machine")
    from busbw.machine.topology.live import read_live

    machine = read_live().machine
    if not machine.gpus:
        raise UsageError("this machine has no GPU; name one with --machine (--list shows which) or --topology FILE")
    return of_machine(machine)


def _named(loaded: Loaded, name: str | None) -> Machine:
    """The machine with its GPUs named, where its file does not say which they are.

    A file for virtual machines leaves NVLinks to the driver: they are those of a whole board, and a line says so. A
    matrix without NV# says that there are none.
    """
    from busbw.machine.topology.model import SWITCH, NvLinks
    from busbw.machine.topology.names import other_maker, product

    machine = loaded.machine
    if not name:
        return machine
    known = product(name)
    if known is None and not other_maker(name):
        raise UsageError(f"--gpu {name} is no GPU that is known; name it as nvidia-smi does, such as H100 or A100")
    _refuse_unlike(machine, name)
    machine = replace(machine, gpus=tuple(replace(gpu, name=gpu.name or name) for gpu in machine.gpus))
    silent = loaded.kind != "nvidia-smi topo -m" and not any(gpu.nvlinks or gpu.sm for gpu in machine.gpus)
    if known is None or not known.nvlinks or not silent:
        return machine
    print(
        f"busbw: {machine.source} leaves NVLinks to the driver; the {known.nvlinks} of a whole {name} are counted on",
        file=sys.stderr,
    )
    links = (NvLinks(SWITCH, known.nvlinks),)
    return replace(machine, gpus=tuple(replace(gpu, nvlinks=links) for gpu in machine.gpus))


def _refuse_unlike(machine: Machine, name: str) -> None:
    """UsageError where the file shows GPUs that those of --gpu cannot be."""
    from busbw.machine.topology.model import SWITCH
    from busbw.machine.topology.names import product, unlike

    for gpu in machine.gpus:
        switched = len(machine.gpus) > 2 and any(link.target == SWITCH for link in gpu.nvlinks)
        why = unlike(name, gpu.sm, gpu.nvlink_count, switched=switched)
        if gpu.name and product(gpu.name) != product(name):
            why = f"GPUs named {gpu.name[:40]}"
        if why:
            raise UsageError(f"--gpu {name} contradicts {machine.source}, which shows {why}")


def _adjusted(fabric: Fabric, args: Args) -> Fabric:
    from busbw.expect.links import NetKind

    if args.nic_gbps is not None and not 0 < args.nic_gbps < 1e6:
        raise UsageError(f"--nic-gbps {args.nic_gbps:g}: a positive number is needed")
    asked = args.nics is not None or args.nic_gbps is not None
    return replace(
        fabric,
        net_notes=() if asked else fabric.net_notes,
        nics=fabric.nics if args.nics is None else args.nics,
        nic_Gbps=fabric.nic_Gbps if args.nic_gbps is None else args.nic_gbps,
        net=fabric.net if args.net is None else NetKind(args.net),
        channels=args.channels,
        domain=fabric.domain if args.domain is None else _domain(args.domain, fabric),
    )


def _domain(gpus: int, fabric: Fabric) -> int:
    if not fabric.domain:
        raise UsageError(f"--domain {gpus}: NVLink of {fabric.name} ends with the host, so its hosts share no domain")
    if not fabric.gpus <= gpus <= fabric.domain or gpus % fabric.gpus:
        raise UsageError(
            f"--domain {gpus}: a domain of {fabric.name} has {fabric.gpus} to {fabric.domain} GPUs, "
            f"in hosts of {fabric.gpus}"
        )
    return gpus


def _terms(args: Args, fabric: Fabric) -> Terms:
    from busbw.expect.terms import general

    terms = general(fabric.sm)
    if not args.from_:
        return terms
    from busbw.cli.sources import resolve
    from busbw.expect.calibrate import calibrate, sweep_of

    found = resolve([args.from_], args.runs)
    if len(found) != 1:
        raise UserError(f"'{args.from_}' names {len(found)} runs where one is expected; add #1 for the first")
    sweep = sweep_of(found[0].record, args.from_)
    if sweep.gpus > fabric.gpus:
        raise UserError(f"{args.from_} ran on {sweep.gpus} GPUs, but {fabric.name} has {fabric.gpus}")
    return calibrate(sweep, fabric, terms)


def _list() -> list[str]:
    from busbw.base.text import columns
    from busbw.expect import machines

    rows = [[name, machines.describe(machines.require(name))] for name in machines.names()]
    return columns(["type", "what it is"], rows, left=(0, 1))
