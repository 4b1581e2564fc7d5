"""From the user's words to a JobSpec: reads host file, topology and mpirun's version, checks what belongs together."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from busbw.base.errors import UsageError
from busbw.base.options import LAUNCH, MEASURING, options_of
from busbw.base.programs import ask
from busbw.base.words import Args
from busbw.launch import affinity
from busbw.launch.hosts import parse_hosts, read_hostfile
from busbw.launch.job import Bind, Host, JobSpec, KubernetesOptions, Mpi, SlurmOptions, TorchrunOptions
from busbw.launch.launchers import PROGRAMS, in_pods
from busbw.launch.processors import SLURM, check_sets, processors_of_node

# Beside what the user names: what changes a measurement, and what programs need to be found on other hosts.
FORWARDED = re.compile(
    r"(NCCL|UCX|RCCL|MSCCLPP)_\w+|BUSBW_(LIBRARY|INTERFACE|PORT|PORT_RANGE|JOIN_TIMEOUT)|LD_LIBRARY_PATH"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MPI_LOOKUP_SECONDS = 20.0
MOST_RANKS = 16384


@dataclass(frozen=True)
class Program:
    """What every rank runs, and how many ranks a process of it is (threads times devices)."""

    path: Path
    arguments: tuple[str, ...]
    ranks_per_process: int = 1


def build_job(args: Args, program: Program, environment: Mapping[str, str], folder: Path) -> JobSpec:
    """The job that the user described."""
    _check_meaning(args)
    hosts = _hosts(args)
    nodes = _nodes(args, hosts)
    ranks = _ranks(args, nodes, program.ranks_per_process)
    _check_room(args.launcher, hosts, nodes, ranks)
    mpi = mpi_flavour(args.launcher_program or PROGRAMS["mpirun"]) if args.launcher == "mpirun" else Mpi.HYDRA
    chosen = variables(args.env or (), os.environ)
    return JobSpec(
        ranks=ranks,
        engine=program.path,
        arguments=program.arguments,
        environment={**chosen, **environment},
        bind=Bind(args.bind or ("gpu" if args.topology else "none")),
        nodes=nodes,
        gpus_per_node=args.gpus_per_node,
        cpu_sets=_cpu_sets(args, ranks // nodes),
        hosts=hosts[:nodes],
        forward=tuple(sorted(name for name in os.environ if FORWARDED.fullmatch(name))),
        time_limit=args.time_limit,
        folder=folder,
        name=args.job_name or "busbw",
        launcher_program=args.launcher_program,
        launcher_arguments=tuple(args.launcher_arg or ()),
        mpi=mpi,
        slurm=_slurm(args),
        torchrun=_torchrun(args, nodes),
        kubernetes=_kubernetes(args),
    )


def variables(words: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """`NAME=VALUE` as it says, `NAME` with our own value."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not _NAME.fullmatch(name):
            raise UsageError(f"--env {word!r}: '{name}' cannot name a variable; letters, digits and _ can")
        if not equals and name not in environ:
            raise UsageError(f"--env {name}: there is no such variable here; write {name}=VALUE")
        found[name] = value if equals else environ[name]
    return found


def mpi_flavour(program: str) -> Mpi:
    """Which mpirun this is, as its --version says; where there is none, the words of Open MPI 4 (5 takes them too)."""
    said = ask([program, "--version"], _MPI_LOOKUP_SECONDS).stdout
    return flavour_of(said)


def flavour_of(version_text: str) -> Mpi:
    """From what `mpirun --version` prints."""
    if re.search(r"HYDRA|Intel\(R\) MPI|MPICH", version_text):
        return Mpi.HYDRA
    found = re.search(r"\(?(?:Open ?MPI|OpenRTE|PRTE|prterun)\)?\s+v?(\d+)", version_text)
    return Mpi.OPEN_MPI_5 if found and int(found[1]) >= 5 else Mpi.OPEN_MPI_4


# --- checks ------------------------------------------------------------------------------------------------------


def _check_meaning(args: Args) -> None:
    for option in options_of(MEASURING):
        value = getattr(args, option.key) if option.half == LAUNCH else None
        if value is None or value is False or value == []:
            continue
        if option.launchers and args.launcher not in option.launchers:
            known = ", ".join(option.launchers)
            raise UsageError(f"{option.shown} means nothing to --launcher {args.launcher}; it belongs to {known}")
    if args.launcher in SLURM and any(word.split("=")[0] in {"--array", "-a"} for word in args.launcher_arg or ()):
        raise UsageError(
            "--launcher-arg --array would start one run several times, into one record; write the array's script "
            "yourself and call busbw in it (docs/guide/launching.md shows one)"
        )


def _hosts(args: Args) -> tuple[Host, ...]:
    if args.hosts and args.hostfile:
        raise UsageError("--hosts and --hostfile both say where ranks run; keep one of them")
    if args.hostfile:
        return read_hostfile(Path(args.hostfile))
    return parse_hosts(args.hosts, "--hosts") if args.hosts else ()


def _nodes(args: Args, hosts: Sequence[Host]) -> int:
    allocated = _nodes_of_allocation(args)
    nodes: int = args.nodes or len(hosts) or allocated or 1
    if allocated and nodes > allocated:
        raise UsageError(
            f"--nodes {nodes}, but this allocation has {allocated}: leave --nodes out, or allocate {nodes} with salloc"
        )
    if hosts and nodes > len(hosts):
        raise UsageError(f"--nodes {nodes}, but only {len(hosts)} hosts are named: {_names(hosts)}")
    if args.launcher == "local" and nodes > 1:
        raise UsageError("--launcher local has one node, this one; several need mpirun, hydra, slurm or torchrun")
    return nodes


def _nodes_of_allocation(args: Args) -> int | None:
    """The nodes of the allocation that we are in: a launch inside `salloc -N 16` takes all 16."""
    inside = args.launcher in {"slurm", "srun"} and os.environ.get("SLURM_JOB_ID")
    text = os.environ.get("SLURM_JOB_NUM_NODES", os.environ.get("SLURM_NNODES", "")) if inside else ""
    nodes = int(text) if text.isdecimal() and len(text) < 8 else None
    if nodes and nodes > 1 and not args.nodes and args.ranks is not None and args.ranks % nodes:
        raise UsageError(
            f"--ranks {args.ranks} cannot be shared out equally over the {nodes} nodes of this allocation; "
            "say with --nodes how many to take"
        )
    return nodes


def _ranks(args: Args, nodes: int, ranks_per_process: int) -> int:
    per_node = args.ranks_per_node
    if per_node is None and args.gpus_per_node and args.ranks is None:
        if args.gpus_per_node % ranks_per_process:
            raise UsageError(
                f"--gpus-per-node {args.gpus_per_node} does not divide into processes of {ranks_per_process} ranks "
                "(threads times devices); say --ranks-per-node"
            )
        per_node = args.gpus_per_node // ranks_per_process
    ranks: int | None = args.ranks if args.ranks is not None else per_node and per_node * nodes
    if not ranks:
        raise UsageError("how many ranks? say --ranks N, or --nodes N --gpus-per-node N (or --ranks-per-node N)")
    if per_node is not None and per_node * nodes != ranks:
        raise UsageError(f"--ranks {ranks} contradicts {per_node} ranks on each of {nodes} nodes")
    if ranks % nodes:
        raise UsageError(f"{ranks} ranks cannot be shared out equally over {nodes} nodes")
    if ranks > MOST_RANKS:
        raise UsageError(f"{ranks} ranks are more than {MOST_RANKS}, which is the most")
    return ranks


def _check_room(launcher: str, hosts: Sequence[Host], nodes: int, ranks: int) -> None:
    for host in hosts[:nodes]:
        if host.slots is not None and host.slots < ranks // nodes:
            raise UsageError(f"host {host.name} takes {host.slots} ranks, but {ranks // nodes} are to run on each")
    if launcher == "mpirun" and nodes > 1 and not hosts and not os.environ.get("BUSBW_ADDRESS"):
        raise UsageError("mpirun over several nodes: name them with --hosts or --hostfile, so that ranks can meet")


def _cpu_sets(args: Args, local_ranks: int) -> tuple[frozenset[int], ...]:
    if args.topology:
        near = affinity.read_file(Path(args.topology))
    elif args.bind == "gpu":
        near = affinity.from_sysfs()
        if not near and args.launcher in {"local", "torchrun"}:
            raise UsageError("--bind gpu: this machine shows no NVIDIA GPU; --bind cores needs none")
        if not near:
            raise UsageError("--bind gpu: a node's topology is needed; name a file of it with --topology")
    else:
        return ()
    if args.bind not in {None, "gpu"}:
        raise UsageError(f"--topology says which processors are next to GPUs, but --bind {args.bind} asks for others")
    place = {"partition": args.partition, "nodelist": args.nodelist}
    cpus = args.cpus_per_node or processors_of_node(args.launcher, near, place)
    sets = affinity.cpu_sets(near, local_ranks, cpus)
    check_sets(sets, near)
    beyond = max((max(each) for each in sets), default=-1)
    if args.cpus_per_node and beyond >= args.cpus_per_node:
        raise UsageError(
            f"--cpus-per-node {args.cpus_per_node}, but by the topology a GPU is next to processor {beyond}: "
            "say as many as a node has, counting both threads of a core"
        )
    return sets


def _slurm(args: Args) -> SlurmOptions:
    return SlurmOptions(
        partition=args.partition,
        nodelist=args.nodelist,
        account=args.account,
        exclusive=args.exclusive,
        requeue=args.requeue,
        mpi=args.mpi,
        container_image=args.container_image,
        container_mounts=args.container_mounts,
    )


def _kubernetes(args: Args) -> KubernetesOptions:
    if not in_pods(args.launcher):
        return KubernetesOptions()
    if not args.image:
        raise UsageError("--launcher k8s needs a container image with busbw in it: --image IMAGE")
    # A pod's host name and a label are made of the name: both must be a label of DNS.
    for option, value in (("--job-name", args.job_name), ("--namespace", args.namespace)):
        if value is not None and not re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", value):
            raise UsageError(f"{option} {value}: Kubernetes takes up to 40 small letters, digits and -")
    return KubernetesOptions(args.image, args.namespace or "default", args.kind or "job", _kubernetes_nodes(args))


def _kubernetes_nodes(args: Args) -> tuple[str, ...]:
    names = tuple(args.nodelist.split(",")) if args.nodelist else ()
    for name in names:
        # The name of a node is one of DNS: labels with dots between.
        if len(name) > 253 or not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9-]{1,63})*", name):
            raise UsageError(f"--nodelist {args.nodelist}: Kubernetes takes names of nodes with commas between")
    if names and args.nodes and len(set(names)) != args.nodes:
        raise UsageError(f"--nodelist names {len(set(names))} nodes, and --nodes says {args.nodes}")
    return names


def _torchrun(args: Args, nodes: int) -> TorchrunOptions:
    if args.launcher == "torchrun" and nodes > 1:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+:\d{1,5}|\[[0-9A-Fa-f:.]+\]:\d{1,5}", args.rdzv_endpoint or ""):
            raise UsageError("torchrun over several nodes: say where they meet with --rdzv-endpoint HOST:PORT")
        if args.node_rank is not None and args.node_rank >= nodes:
            raise UsageError(f"--node-rank {args.node_rank}: nodes count from 0 and there are {nodes}")
    return TorchrunOptions(args.rdzv_endpoint, args.node_rank)


def _names(hosts: Sequence[Host]) -> str:
    shown = ", ".join(host.name for host in hosts[:8])
    return shown + (", ..." if len(hosts) > 8 else "")


def find_program(name: str, launcher: str, environ: Mapping[str, str] = os.environ) -> None:
    """Complain in one sentence where a launcher is not installed."""
    if shutil.which(name, path=environ.get("PATH")) is None:
        from busbw.base.errors import UserError

        raise UserError(
            f"--launcher {launcher} needs {name}, which was not found; install it, name it with --launcher-program, "
            "or start the ranks another way (--launcher local needs nothing)"
        )
