"""Processes of one launcher, each of which believes to be the only one: rank 0 of 1, the same GPU, all of the data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.shown import Shown
from busbw.doctor.signature import Stage

NAME = "ranks-alone"
_ALONE = re.compile(
    r"\b(?:global[_ ]?)?rank['\"]?\s?[=:#]?\s?0\s?(?:/|of|out of)\s?1\b(?![/.\d])"
    r"|\brank['\"]?\s?[=:]?\s?0\b.{0,60}\b(?:world[_ -]?size|size|nranks|num_processes|ntasks)['\"]?"
    r"\s?(?:is|[=:])?\s?1\b(?![.\d])"
    r"|\b(?:world[_ -]?size|num_processes)['\"]?\s?(?:is|[=:])?\s?1\b(?![.\d]).{0,60}\brank['\"]?\s?[=:]?\s?0\b"
    r"|\bprocess 0 of 1\b|\bnum[_ ]processes: 1\b.{0,40}\bprocess[_ ]index: 0\b",
    re.IGNORECASE,
)
_WORDS = ("rank", "size", "process")
_OF_MPI = re.compile(r"MPI (?:size|world)|MEMBER: ", re.IGNORECASE)
"""What `worlds-of-one` and `ranks-alike` tell."""
_LABEL = re.compile(r"\[\d{1,9}(?:@\d{1,4})?,(?P<mpi>\d{1,6})\](?:<std\w{3}>)?:|\s{0,6}(?P<srun>\d{1,5}): ")
_PID = re.compile(r"\bpid\W{0,3}(?P<pid>\d{2,9})\b", re.IGNORECASE)
_RUN = re.compile(
    r"\b(?:(?P<by>mpirun|mpiexec(?:\.hydra)?|srun)\b[^|;#]{0,300}?\s(?:-np?|--np|--ntasks|-n)[ =]?(?P<n>\d{1,6})\b"
    r"|#SBATCH\s{1,8}(?:--ntasks(?:-per-node)?[= ]|-n ?)(?P<tasks>\d{1,6})\b)"
)
_STARTS_RANKS = re.compile(r"\b(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate launch|deepspeed)\b")
_APART = re.compile(r"\bsweep\b|\btrial\b|wandb agent|\boptuna\b|\barray task\b|SLURM_ARRAY_TASK_ID", re.IGNORECASE)
"""Words of jobs whose processes are meant to have nothing to do with each other."""
_TOGETHER = re.compile(
    r"MASTER_(?:ADDR|PORT)|init_process_group|\bDDP\b|DistributedDataParallel|DistributedSampler|\bNCCL\b|\bFSDP\b"
)
_DEVICE = re.compile(r"\b(?:cuda:\d{1,2}|GPU ?\d{1,2})\b")
_OWN_GPU = re.compile(r"--(?:gpus-per-task|ntasks-per-gpu|gpu-bind)[= ](?!0\b)")
"""Options by which each task sees another GPU as its first."""
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
_TIMES = re.compile(
    r"\b\d{1,7}(?:\.\d{1,9})? ?m?s(?:ec\w{0,5})?\b(?!/)|\b(?:time|pid|took)\W{1,3}\d[\d.]{0,12}", re.IGNORECASE
)
_LOSS = re.compile(r"\bloss\b\W{0,3}\d", re.IGNORECASE)
_CURES: Mapping[str, str] = {
    "mpirun": (
        "mpirun sets OMPI_COMM_WORLD_RANK, _SIZE and _LOCAL_RANK (Intel MPI and MPICH: PMI_RANK, PMI_SIZE), and no "
        'RANK: set them first, RANK=os.environ["OMPI_COMM_WORLD_RANK"], WORLD_SIZE=..._SIZE, LOCAL_RANK=..._LOCAL_RANK'
    ),
    "srun": (
        "srun sets SLURM_PROCID, SLURM_NTASKS and SLURM_LOCALID, and no RANK: set RANK, WORLD_SIZE and LOCAL_RANK from "
        "them in each task, within what srun starts"
    ),
}
_MOST = 64


def examine(facts: Facts) -> Iterator[Finding]:
    for shown in facts.shown:
        if (found := _of_log(shown)) is not None:
            yield found
            return


def _of_log(shown: Shown) -> Finding | None:
    """The finding, where several processes of a launcher say in one log that they are alone, and belong together."""
    said: dict[str, Evidence] = {}
    by, command, started, together = "", None, 0, False
    for number, line in enumerate(shown.lines, 1):
        if _APART.search(line) or _STARTS_RANKS.search(line):
            return None  # not meant to be one job, or ranks that a launcher of their own numbers
        together = together or _TOGETHER.search(line) is not None
        if command is None and (found := _RUN.search(line)):
            by = "srun" if found["tasks"] or found["by"] == "srun" else "mpirun"
            started = int(found["n"] or found["tasks"])
            command = Evidence(shortened(line.strip(), 200), shown.source, number)
        lowered = line.lower()
        if "1" not in line or not any(word in lowered for word in _WORDS) or len(said) >= _MOST:
            continue
        if _ALONE.search(line) and not _OF_MPI.search(line):
            label = _LABEL.match(line)
            who = label[0] if label else pid[0] if (pid := _PID.search(line)) else ""
            by = by or ("mpirun" if label and label["mpi"] else "srun" if label and label["srun"] else "")
            if who or started > 1:
                said.setdefault(who or f"line {number}", Evidence(shortened(line.strip(), 200), shown.source, number))
    known = {who: seen for who, seen in said.items() if not who.startswith("line ")}
    # Without labels a process that speaks twice would count twice.
    alone = known or (said if len(said) >= started > 1 else {})
    if len(alone) < 2 or not by:
        return None
    same = _same_loss(shown)
    devices = [set(_DEVICE.findall(seen.fact)) for seen in alone.values()]
    own = command is not None and _OWN_GPU.search(command.fact) is not None
    shared = devices[0] and not own and all(each == devices[0] for each in devices)
    one_gpu = next(iter(devices[0])) if shared else ""
    if not (together or same or one_gpu):
        return None
    return _told(by, list(alone.values()), command, same, one_gpu)


def _same_loss(shown: Shown) -> Evidence | None:
    """A line with a loss that two labelled processes print alike but for its times."""
    first: dict[str, str] = {}
    for number, line in enumerate(shown.lines, 1):
        label = _LABEL.match(line) if "loss" in line.lower() else None
        if label is None or not _LOSS.search(line):
            continue
        bare = _TIMES.sub("", _STAMP.sub("", line[label.end() :]))
        if first.setdefault(bare, label[0]) != label[0]:
            return Evidence(shortened(line.strip(), 200), shown.source, number)
        if len(first) > 4096:
            return None
    return None


def _told(by: str, alone: list[Evidence], command: Evidence | None, same: Evidence | None, one_gpu: str) -> Finding:
    how = f", all of them on {one_gpu}" if one_gpu else ""
    how += ", with the same loss" if same is not None else ""
    return Finding(
        NAME, Severity.ERROR,
        f"{len(alone)} processes that {by} started are no job together: each says that it is rank 0 of 1{how}, since "
        f"the program does not read the variables by which {by} tells ranks",
        (*alone[:2], *((same,) if same else ()), *((command,) if command else ())),
        Cost("each process does the whole work alone, on all of the data, and overwrites what the others write"),
        f"{_CURES[by]}. Or start one torchrun per node (--nproc_per_node=GPUs), which sets RANK, WORLD_SIZE and "
        "LOCAL_RANK. Take the device from LOCAL_RANK, and let the program stop where RANK is missing, not take 0 of 1",
        Proof(instruction="print RANK, WORLD_SIZE, LOCAL_RANK, OMPI_COMM_WORLD_RANK and SLURM_PROCID in each process"),
        stage=Stage.LAUNCH,
    )  # fmt: skip
