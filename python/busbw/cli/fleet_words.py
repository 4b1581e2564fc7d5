"""What the words of `busbw fleet` say: nodes, options, limits, and how ranks are started."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError, exiting_with
from busbw.base.words import Args

if TYPE_CHECKING:
    from busbw.fleet.fabric import Fabric
    from busbw.fleet.level import Before
    from busbw.fleet.options import Options
    from busbw.fleet.results import Results
    from busbw.fleet.run import Limits
    from busbw.fleet.words import Launching

MOST_TOPOLOGY = 64 << 20


def given(args: Args, *, may_miss: bool = False) -> tuple[Fabric, Options, Results]:
    """Nodes, options and results, from the file where it has a head, else from the words."""
    from busbw.base.files import read_text
    from busbw.fleet import results
    from busbw.fleet.options import Options

    found: tuple[Fabric | None, Options | None, Results] = (None, None, results.Results())
    if args.file and not (may_miss and not Path(args.file).exists()):
        text = read_text(args.file, results.MOST_BYTES, hint="it is hardly the results of a fleet")
        found = results.read(text, args.file)
    fabric, options, measured = found
    words = _fabric(args)
    if fabric is None:
        if words is None:
            raise UsageError("say which nodes: --hosts gpu[001-016], --hostfile FILE or --topology FILE; "
                             "see `busbw fleet --help`")  # fmt: skip
        fabric = words
        results.check(measured, fabric, args.file)
    elif words is not None and words != fabric:
        raise UserError(
            f"{args.file} is of other nodes, pods or rails than those named now; leave them out, or use another file"
        )
    if options is None:
        options = Options(smallest_loss=args.smallest_loss, repeats=args.repeats, most_repeats=4 * args.repeats,
                          inside=_inside(args), later=getattr(args, "later", None) or 0.0)  # fmt: skip
    return fabric, options, measured


def limits_of(args: Args, seconds: float) -> Limits:
    from busbw.fleet.run import Limits

    if args.traffic is not None and args.program:
        raise UsageError("--traffic counts what the engine sends; what --program sends is not known")
    return Limits(seconds, args.trial_limit, args.nodes_at_once, args.steps_at_once,
                  float("inf") if args.traffic is None else args.traffic)  # fmt: skip


def known_before(args: Args) -> Before:
    """What is known besides the results: expected bandwidths and earlier results."""
    from busbw.base.files import read_text
    from busbw.fleet.level import Before, read_expected
    from busbw.fleet.results import MOST_BYTES, read

    earlier = []
    for file in args.earlier or ():
        text = read_text(file, MOST_BYTES, hint="it is hardly the results of a fleet")
        earlier.append((file, read(text, file)[2]))
    return Before(read_expected(args.expected) if args.expected else {}, earlier)


def _fabric(args: Args) -> Fabric | None:
    from busbw.base.files import read_text
    from busbw.fleet.fabric import expand, fabric_of, unknown_to
    from busbw.fleet.pods import read_above, read_pods
    from busbw.launch.hosts import once, read_hostfile

    if args.hosts and args.hostfile:
        raise UsageError("--hosts and --hostfile both name the nodes; give one of them")
    nodes: tuple[str, ...] | None = None
    if args.hosts is not None:
        with exiting_with(2):
            nodes = expand(args.hosts)
    elif args.hostfile:
        nodes = once(read_hostfile(Path(args.hostfile)))
    pods, above = {}, dict[str, str]()
    if args.topology:
        text = read_text(args.topology, MOST_TOPOLOGY, hint="it is hardly a topology")
        pods = read_pods(text, args.topology, nodes or ())
        above = read_above(text, set(pods.values()), args.topology)
        if not pods:
            raise UserError(
                f"{args.topology} names no node; it has lines such as `SwitchName=leaf1 Nodes=gpu[001-032]`"
            )
        if nodes and (missing := unknown_to(nodes, pods)):
            some = f"{', '.join(missing[:3])}{' and others' if len(missing) > 3 else ''}"
            say(f"busbw: {args.topology} does not name {len(missing)} of {len(nodes)} nodes ({some}): no leaf is "
                 "named for those")  # fmt: skip
    if nodes is None and not pods:
        return None
    nodes = tuple(pods) if nodes is None else nodes
    return fabric_of(nodes, pods, args.rails, above)


def _inside(args: Args) -> tuple[str, ...]:
    kinds = (getattr(args, "inside", None) or "nvlink").split(",")
    found: list[str] = []
    for kind in [] if kinds == ["none"] else kinds:
        if kind not in {"nvlink", "pcie", "nic"}:
            raise UsageError(
                f"--inside takes nvlink, pcie and nic with commas between, or none; '{kind}' is none of them"
            )
        if kind != "nvlink" and not args.program:
            raise UsageError(f"--inside {kind} needs --program: NCCL alone does not measure it")
        found += ["nvlink"] if kind == "nvlink" else [f"{kind}{rail}" for rail in range(args.rails)]
    return tuple(dict.fromkeys(found))


def find_launcher(how: Launching) -> None:
    from busbw.launch.launchers import PROGRAMS
    from busbw.launch.request import find_program

    if how.launcher != "local":
        find_program(how.launcher_program or PROGRAMS[how.launcher], how.launcher)


def launching(args: Args, *, for_show: bool = False) -> Launching:
    import os

    from busbw.fleet.words import Launching
    from busbw.launch.engine import PROGRAM, find_engine
    from busbw.launch.launchers import in_pods
    from busbw.launch.request import variables

    program = Path(args.program).absolute() if args.program else None
    if program and not for_show and not os.access(program, os.X_OK):
        raise UserError(f"--program {args.program} is no program that can be run")
    if program and args.library:
        raise UsageError("--library is for the engine; --program measures with what it opens itself")
    by_cluster = in_pods(args.launcher)
    if by_cluster and program:
        raise UsageError("--launcher k8s measures with the engine of its image; --program is for srun and mpirun")
    if by_cluster and not args.image and not for_show:
        raise UsageError("--launcher k8s needs a container image with busbw in it: --image IMAGE")
    engine = Path(PROGRAM) if program or for_show or by_cluster else find_engine()
    devices = tuple(name for name in (args.devices or "").split(",") if name)
    return Launching(engine, args.launcher or "srun", args.launcher_program, tuple(args.launcher_arg or ()), program,
                     args.gpus_per_node, devices, args.size, args.library,
                     variables(args.env or (), os.environ), args.image, args.namespace)  # fmt: skip


def say(said: str) -> None:
    """A line for people, beside what programs read."""
    print(said, file=sys.stderr, flush=True)
