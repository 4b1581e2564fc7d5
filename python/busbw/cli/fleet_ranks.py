"""`busbw fleet run` and `watch` where a launcher has started busbw several times: rank 0 leads, the others measure."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.words import Args
from busbw.launch.place import Place, find_place, without_rank

if TYPE_CHECKING:
    from busbw.fleet.crew import Crew
    from busbw.fleet.words import Launching

AGENTS = ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm", "I_MPI_HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER")


def lead(args: Args, launching: Callable[[Args], Launching], verb: Callable[[Args, Crew | None], int]) -> int:
    """Do the verb: alone, or as rank 0 with the ranks of all nodes; any other rank does what rank 0 asks of it."""
    from busbw.fleet.words import RANKS

    place = find_place(os.environ)
    if place.size == 1:
        if args.launcher == RANKS:
            raise UsageError("--launcher ranks: busbw runs alone here; start it once on each node, as by "
                             "`mpirun --map-by ppr:1:node busbw fleet run ...`")  # fmt: skip
        return verb(args, None)
    if args.launcher not in {None, RANKS}:
        return _nested(args, place, verb)
    args.launcher = RANKS
    from busbw.fleet.meeting import crew, join_limit, take_part

    named = _named(args)
    if place.rank:
        return take_part(place, named, lambda: launching(args))
    limit = join_limit(os.environ)
    with crew(place, named) as ranks, ExitStack() as stack:
        stack.callback(_tell_of_strangers, ranks)
        if args.idle:
            raise UsageError("--idle asks Slurm which nodes to take, but this job has its nodes already; leave it out")
        nodes = ranks.gather(limit)
        if lost := ranks.missing():
            _say_missing(lost, nodes, place, limit)
        if not _says_nodes(args):
            args.hosts = ",".join(nodes)
        return verb(args, ranks)


def _tell_of_strangers(ranks: Crew) -> None:
    if told := ranks.door.sentence():
        print(f"busbw fleet: {told}", file=sys.stderr)


def _nested(args: Args, place: Place, verb: Callable[[Args, Crew | None], int]) -> int:
    """Somebody wants that launcher within the one around us: rank 0 alone uses it, as if nothing were around it."""
    if place.rank:
        return 0
    from shutil import which

    if args.launcher == "mpirun" and not any(map(which, ("ssh", "rsh"))) and not any(map(os.environ.get, AGENTS)):
        raise UserError("--launcher mpirun starts programs on other nodes through ssh, which is not installed here; "
                        "leave --launcher out: the ranks of this job then measure by themselves")  # fmt: skip
    kept = without_rank(os.environ)
    for name in set(os.environ) - set(kept):
        del os.environ[name]
    return verb(args, None)


def _named(args: Args) -> tuple[str, ...]:
    """The nodes in the order in which they were named: rank 0 is likely to be on the first."""
    from pathlib import Path

    from busbw.fleet.fabric import expand
    from busbw.launch.hosts import once, read_hostfile

    try:
        if args.hosts:
            return expand(args.hosts)
        return once(read_hostfile(Path(args.hostfile))) if args.hostfile else ()
    except UserError:
        return ()  # rank 0 says it when it reads them again


def _says_nodes(args: Args) -> bool:
    """Whether words or the head of the file name the nodes; a topology names those of the whole cluster."""
    from pathlib import Path

    file = Path(args.file) if args.action == "run" else None
    return bool(args.hosts or args.hostfile or (file and file.is_file() and file.stat().st_size))


def _say_missing(lost: list[int], nodes: tuple[str, ...], place: Place, limit: float) -> None:
    shown = ", ".join(map(str, lost[:8])) + (", ..." if len(lost) > 8 else "")
    said = (f"{len(lost)} of {place.size} ranks ({shown}) did not come within {limit:g} s to rank 0, which runs on "
            f"{nodes[0]}")  # fmt: skip
    if len(nodes) == 1:
        raise UserError(f"{said}; if they looked elsewhere for it, set BUSBW_ADDRESS={nodes[0]} for all ranks "
                        f"(mpirun: -x BUSBW_ADDRESS={nodes[0]})")  # fmt: skip
    print(f"busbw: {said}; the fleet goes on without them", file=sys.stderr, flush=True)
