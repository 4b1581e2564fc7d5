"""Clues of starts: an engine for several ranks that was started by hand, and NICs that lack the way to GPU memory."""

from __future__ import annotations

import re
from collections.abc import Sequence

from busbw.doctor.clues.launch.node_ranks import number_of_batch
from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Finding
from busbw.doctor.shown_texts import Text, named

_LAUNCHER = re.compile(
    r"(?<![\w/-])(?:mpirun|mpiexec(?:\.hydra)?|srun|prun|flux run|trtllm-llmapi-launch|launch_triton_server\.py)\s"
    r"|\bSLURM_(?:PROCID|NTASKS)\b|\bMpiDefault\b|^\s{0,4}\d{1,5}: \S",
    re.MULTILINE,
)
_MPIRUN = re.compile(r"(?:mpirun|mpiexec(?:\.hydra)?) [^\n]{0,200}?(?:-np?|--np)[ =](?P<ranks>\d{1,5})\b")
_ALONE = re.compile(r"\bMPI size: 1, [^\n]{0,40}rank: 0\b")
_BY_HAND = re.compile(
    r"^[^\n]{0,80}?(?<!\w)(?P<what>tritonserver|trtllm-serve|python3? \S{1,120}\.py)(?= |$)[^\n]{0,400}", re.MULTILINE
)
_TYPED = re.compile(r"[#$>] ?(?:[A-Z][A-Z0-9_]{1,40}=\S{0,80} ){0,8}(?:exec )?$")
"""A prompt, and variables, before what was typed."""
_SPLIT = re.compile(
    r"\"?(?P<which>tensor_parallel|tp_size|pipeline_parallel|pp_size|world_size)\"?\s{0,4}[:=]\s{0,4}(?P<n>\d{1,4})\b"
)


def without_launcher(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """One process says that it is a world of its own, and no launcher is to be seen; or each of mpirun's does."""
    alone = [(text, found) for text in texts for found in _ALONE.finditer(text.text)]
    run = next(((text, found) for text in texts if (found := _MPIRUN.search(text.text))), None)
    if run is not None and int(run[1]["ranks"]) > 1 and len(alone) > 1:
        return Sharper(
            "each process is an MPI world of its own (size 1, rank 0), though mpirun started them together: it belongs "
            "to another MPI than the one that the program uses",
            "take the mpirun of the MPI that the program was built with: which mpirun, and ldd of the program or of "
            "mpi4py's MPI*.so. In containers of TensorRT-LLM that is /opt/hpcx/ompi/bin/mpirun. Or build mpi4py for "
            "this one. Engine and GPUs are right",
            (run[0].evidence(run[1].start()),),
        )
    hand = next(((text, found) for text in texts if (found := _BY_HAND.search(text.text))), None)
    if len(alone) != 1 or (_launched(texts) and not _is_typed(hand)):
        return None
    sizes = {found["which"]: int(found["n"]) for text in texts for found in _SPLIT.finditer(text.text)}
    tensor, pipeline = (
        sizes.get(f"{long}_parallel", sizes.get(short, 1))
        for long, short in (("tensor", "tp_size"), ("pipeline", "pp_size"))
    )
    ranks = max(tensor * pipeline, sizes.get("world_size", 1))
    wants = f"{ranks} ranks (tensor parallel {tensor}, pipeline parallel {pipeline})" if ranks > 1 else "several ranks"
    what = named(hand[1]["what"]) if hand else "the program"
    count = str(ranks) if ranks > 1 else "tp*pp"
    triton = (
        f"python3 scripts/launch_triton_server.py --world_size={count} (it calls mpirun -n {count}; or take "
        "orchestrator mode)"
        if what == "tritonserver"
        else f"mpirun -n {count} --allow-run-as-root {what} ..., one GPU for each rank (under Slurm: srun --mpi=pmix)"
    )
    return Sharper(
        f"the engine was built for {wants}, and {what} was started as one process (MPI size 1), without a launcher",
        f"start as many ranks as the engine has: {triton}. Or build the engine anew for one GPU (tp_size 1)",
        ((hand[0].evidence(hand[1].start("what")),) if hand else ()),
    )


def _launched(texts: Sequence[Text]) -> bool:
    return any(_LAUNCHER.search(text.text) for text in texts)


def _is_typed(hand: tuple[Text, re.Match[str]] | None) -> bool:
    """Whether a prompt shows the program as the command: a launcher that prose names started another run."""
    if hand is None:
        return False
    text, found = hand
    return bool(_TYPED.search(found[0][: found.start("what") - found.start()])) and not _BATCH.search(text.text)


_BATCH = re.compile(
    r"\bSLURM_(?:PROCID|NTASKS)\b|\bMpiDefault\b|^\s{0,4}\d{1,5}: \S|[#$>] ?(?:srun|sbatch)\b", re.MULTILINE
)

_EFAULT = re.compile(r"Bad address")
_LSMOD = re.compile(r"^[^\n]{0,80}[#$>] ?(?:sudo )?lsmod\b(?P<filter>[^\n]{0,120})$", re.MULTILINE)
_MODULES = re.compile(r"^nvidia\s{1,40}\d{4,12}\s", re.MULTILINE)
_PEER = re.compile(r"^(?:nvidia_peermem|nv_peer_mem)\s{1,40}\d{3,12}\s", re.MULTILINE)
_MOONCAKE = re.compile(r"rdma_context\.cpp|[Mm]ooncake")
_NIXL = re.compile(r"\bnixl|NIXL|\bUCX\b")


def peermem_not_loaded(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A NIC refuses GPU memory, and the list of the kernel's modules has no way to it."""
    if not any(_EFAULT.search(seen.fact) for seen in finding.evidence):
        return None
    loaded = any(_PEER.search(text.text) for text in texts)
    lists = listed_without_peers(texts)
    mooncake = any(_MOONCAKE.search(text.text) for text in texts)
    whose = "Mooncake" if mooncake else "NIXL" if any(_NIXL.search(text.text) for text in texts) else ""
    if loaded or not (lists or whose):
        return None
    cure = (
        "on the host: modprobe nvidia_peermem, and its name in /etc/modules-load.d; or DMA-BUF (open kernel modules of "
        "the driver, Linux 5.12 and newer"
        f"{'; Mooncake: built WITH_NVIDIA_PEERMEM=0' if mooncake else ''})"
    )
    nccl = f". Variables of NCCL do nothing for {whose}" if whose else ". Until then NCCL_NET_GDR_LEVEL=LOC"
    segments = ". Where it is loaded: unset expandable_segments in PYTORCH_CUDA_ALLOC_CONF" if not lists else ""
    title = (
        "nvidia_peermem is not loaded (lsmod lists nvidia's modules without it)"
        if lists
        else "the way to GPU memory is missing (nvidia_peermem or DMA-BUF)"
    )
    return Sharper(
        f"{title}, so that the NIC cannot register memory of GPUs (Bad address, EFAULT)",
        f"{cure}{nccl}{segments}",
        ((lists[0].evidence(lists[1]),) if lists else ()),
    )


def listed_without_peers(texts: Sequence[Text]) -> tuple[Text, int] | None:
    """Where lsmod lists the driver's modules, and the one that hands GPU memory on to NICs is in no list."""
    listed = next(
        ((text, found) for text in texts if (found := _LSMOD.search(text.text)) and _shows(found["filter"])), None
    )
    if listed is None or any(_PEER.search(text.text) for text in texts):
        return None
    text, found = listed
    return (text, found.start()) if _MODULES.search(text.text[found.end() : found.end() + 20_000]) else None


def _shows(filtered: str) -> bool:
    """Whether the command would list the module, where it looks for some only."""
    return "grep" not in filtered or re.search(r"peer|nvidia|nv", filtered) is not None


_LAUNCHERS = r"(?:torchrun|accelerate launch|deepspeed|torch\.distributed\.(?:run|launch)|composer)\b"
_STARTED = re.compile(
    r"\b(?P<by>srun|mpirun|mpiexec)\b(?P<options>(?:[^\n|;\\]|\\\n?){0,400}?)\s"
    rf"(?P<what>(?:python3? -m )?{_LAUNCHERS})"
)
_ONE_TASK = re.compile(r"--ntasks-per-node[= ]1\b|ppr:1:node|-npernode 1\b")
_COUNTS = re.compile(
    r"\bSLURM_(?:JOB_)?(?:NUM_NODES|NNODES)[=: ]{1,3}(?P<nodes>\d{1,5})\b"
    r"|\bSLURM_(?:NTASKS|NPROCS)[=: ]{1,3}(?P<tasks>\d{1,6})\b"
    r"|--nodes[= ](?P<nodes_>\d{1,5})\b|--ntasks[= ](?P<tasks_>\d{1,6})\b"
    r"|--ntasks-per-node[= ](?P<per>\d{1,4})\b|-npernode (?P<per_>\d{1,4})\b|ppr:(?P<per__>\d{1,4}):node"
)
_SHORT = re.compile(r"(?<=\s)-(?P<which>[nN]) ?(?P<n>\d{1,5})\b")
_TASKS = re.compile(r"srun: error: (?P<host>[A-Za-z][\w.-]{0,60}): tasks (?P<first>\d{1,6})-(?P<last>\d{1,6}): ")
_ONCE = (
    "start one launcher per node: srun --ntasks-per-node=1 {what}, with --nproc_per_node (accelerate: --num_machines = "
    "nodes, --num_processes = all GPUs) and its rank from SLURM_NODEID. Or no launcher: one task per GPU, and "
    "LOCAL_RANK=$SLURM_LOCALID"
)


def launchers_per_node(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """srun starts a launcher several times on a node, each of which starts ranks from the first GPU on."""
    for text in texts:
        run = _STARTED.search(text.text)
        if run is None or _ONE_TASK.search(run["options"]):
            continue
        counts: dict[str, int] = {}
        for found in _COUNTS.finditer(text.text):
            counts |= {name.rstrip("_"): int(number) for name, number in found.groupdict().items() if number}
        for found in _SHORT.finditer(run["options"]) if run["by"] == "srun" else ():
            counts |= {"nodes" if found["which"] == "N" else "tasks": int(found["n"])}
        told = _TASKS.search(text.text) if run["by"] == "srun" else None
        per = counts.get("per", 0)
        if not per and counts.get("nodes") and counts.get("tasks"):
            per = counts["tasks"] // counts["nodes"]
        if not per and told is not None:
            per = int(told["last"]) - int(told["first"]) + 1
        if per < 2:
            continue
        where = (
            f" ({counts['tasks']} tasks on {counts['nodes']} nodes)"
            if counts.get("tasks") and counts.get("nodes", 1) > 1
            else ""
        )
        what = named(run["what"], 40)
        by_batch = number_of_batch(text)
        of_port = finding.name == "port-in-use"
        each = "all of them want the same port" if of_port else "each starts ranks from the first GPU on"
        fix = _ONCE.format(what=what) + (". Another port does not help: all of them take it" if of_port else "")
        if by_batch is not None:
            fix += f". The batch script evaluates ${by_batch[0]} itself, where it is 0: leave that to srun's task"
        return Sharper(
            f"{run['by']} starts {per} launchers ({what}) on each node{where}, and {each}: "
            f"{finding.title.partition(': ')[0]}",
            fix,
            (
                text.evidence(run.start()),
                *((text.evidence(told.start()),) if told else ()),
                *((by_batch[1],) if by_batch is not None else ()),
            ),
        )
    return None
