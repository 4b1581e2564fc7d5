"""Clues of how ranks were started: a batch script without srun, a launcher around a launcher, another MPI's mpirun."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from busbw.doctor.clues.texts import Sharper
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Evidence, Finding
from busbw.doctor.shown_texts import Text, named

_TASKS = re.compile(r"^#SBATCH\s{1,8}(?P<option>--ntasks(?:-per-node)?[= ]|-n ?)(?P<n>\d{1,5})\b", re.MULTILINE)
_DIRECT = re.compile(
    r"^\s{0,12}(?:(?:time|exec|nohup|stdbuf -\S{1,4}) |[A-Z_]{2,40}=\S{1,80} ){0,6}"
    r"(?P<what>(?:[\w./~${}-]{0,120}/)?python[\d.]{0,5} (?:-[uOB] ){0,3}(?:-m [\w.]{1,80}|[\w./~${}-]{1,120}\.py)\b)",
    re.MULTILINE,
)
_LAUNCHER = re.compile(
    r"^[^#\n]{0,200}(?<![\w/-])(?:srun|mpirun|mpiexec|torchrun|deepspeed|accelerate launch|horovodrun|prun)\s"
    r"|torch\.distributed\.(?:run|launch)|lightning run|submitit",
    re.MULTILINE,
)
_BY_SLURM = re.compile(r"Multi-processing is handled by Slurm|\bSLURM auto-requeueing enabled", re.IGNORECASE)
_MEMBER = re.compile(r"GLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: \d{1,6}/(?P<of>\d{1,6})\b")


def without_srun(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Slurm was to start several tasks, and the batch script calls python itself: that is one process."""
    for text in texts:
        asked = [found for found in _TASKS.finditer(text.text) if int(found["n"]) > 1]
        direct = _DIRECT.search(text.text, asked[-1].end()) if asked else None
        if direct is None or _LAUNCHER.search(text.text):
            continue
        what = named(direct["what"].strip())
        option = f"{asked[0]['option'].rstrip(' =')}={asked[0]['n']}"
        return Sharper(
            f"the batch script starts {what} without srun: Slurm runs it once, as rank 0 on the first node, and the "
            "ranks that it waits for were never started",
            f"write srun before it in the script (srun {what}): srun starts the {option} tasks on each node. "
            "For Lightning that number is its devices (gpus), and --nodes its num_nodes. Network and NCCL have no "
            "part in it",
            (text.evidence(direct.start("what")), *_waits(texts)),
            fails=True,
        )
    return _first_alone(finding, texts)


def _waits(texts: Sequence[Text]) -> Iterator[Evidence]:
    found = next(((text, each) for text in texts if (each := _MEMBER.search(text.text))), None)
    if found:
        yield found[0].evidence(found[1].start())


def _first_alone(finding: Finding, texts: Sequence[Text]) -> Sharper | None:
    """Lightning leaves the start to Slurm, and one rank of several tells of itself."""
    members = [(text, found) for text in texts for found in _MEMBER.finditer(text.text)]
    size = max((int(found["of"]) for _, found in members), default=0)
    if {found["rank"] for _, found in members} != {"0"} or size < 2 or not any(_BY_SLURM.search(t.text) for t in texts):
        return None
    return Sharper(
        f"Lightning leaves it to Slurm to start its {size} ranks, and rank 0 alone tells of itself: unless the other "
        "ranks write elsewhere, they were not started",
        "start the script by srun (srun python train.py), with --ntasks-per-node equal to devices (gpus) and --nodes "
        "to num_nodes. In a shell of salloc, to run on one node only: unset SLURM_NTASKS, or SLURM_JOB_NAME=bash. "
        f"Where all {size} ranks run: {finding.fix}",
        (members[0][0].evidence(members[0][1].start()),),
    )


_COUNTS = re.compile(r"world_size=(?P<ranks>\d{1,7}), (?:worker_count|num_workers_joined)=(?P<workers>\d{1,7})")
_SEVERAL = re.compile(
    r"(?P<said>(?<![\w./-])srun [^\n]{0,200}?(?:-n ?|--ntasks(?:-per-node)?[ =])(?P<srun>\d{1,5})\b"
    r"|#SBATCH\s{1,8}--ntasks(?:-per-node)?[ =](?P<batch>\d{1,5})\b"
    r"|(?<![\w./-])mpi(?:run|exec) [^\n]{0,200}?-np? (?P<mpi>\d{1,5})\b"
    r"|(?<![\w./-])torchrun [^\n]{0,200}?--nproc[-_]per[-_]node[ =](?P<torch>\d{1,5})\b)"
)
_SPAWN = re.compile(r"torch/multiprocessing/spawn\.py|\bmp\.spawn\(|\bmultiprocessing\.spawn\(")


def spawned_twice(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """A launcher starts several tasks, and each of them spawns a worker per GPU."""
    evidence = Text("", "\n".join(seen.fact for seen in finding.evidence))
    counts = next((found for text in (evidence, *texts) if (found := _COUNTS.search(text.text))), None)
    spawn = next(((text, found) for text in texts if (found := _SPAWN.search(text.text))), None)
    if counts is None or spawn is None:
        return None
    for text in texts:
        for found in _SEVERAL.finditer(text.text):
            tasks = int(found["srun"] or found["batch"] or found["mpi"] or found["torch"])
            if tasks < 2:
                continue
            launcher = found["said"].split()[0].replace("#SBATCH", "srun")
            return Sharper(
                f"workers are started twice over: {launcher} starts {tasks} tasks, and each spawns a worker per GPU "
                f"(mp.spawn), so that {counts['workers']} came to a job of {counts['ranks']}",
                f"one task per node where the program spawns its workers (srun --ntasks-per-node=1, {launcher} with "
                f"1). Or one task per GPU and no mp.spawn: rank from SLURM_PROCID (RANK), GPU from SLURM_LOCALID "
                "(LOCAL_RANK). More time does not help. A file of init_method file:// of an earlier start: delete it",
                (text.evidence(found.start("said")), spawn[0].evidence(spawn[1].start())),
            )
    return None


_ALONE = re.compile(r"Runtime world size \(1\)|\bMPI (?:world )?size \(?1\)?[ ,.]|mpi_world_size\(?\)?\W{1,4}1\b")
_LAUNCHED = re.compile(
    r"(?P<said>(?<![\w./-])(?P<by>mpirun|mpiexec|srun) [^\n]{0,200}?(?:-np?|--np|--ntasks)[ =](?P<n>\d{1,5})\b)"
)
_OF_RUN = re.compile(r"^(?:mpirun|mpiexec) \((?P<what>Open MPI|OpenRTE)\) (?P<version>\d[\w.]{1,12})", re.MULTILINE)
_OF_LIBRARY = re.compile(r"\bOpen MPI v(?P<version>\d[\w.]{1,12})")
_WHICH = re.compile(r"^(?P<path>/[\w./-]{2,120}/mpirun)$", re.MULTILINE)


def worlds_apart(finding: Finding, facts: Facts, texts: Sequence[Text]) -> Sharper | None:
    """Several processes of one mpirun say that they are alone: their MPI is not that of the mpirun."""
    run = next(((text, each) for text in texts for each in _LAUNCHED.finditer(text.text) if int(each["n"]) > 1), None)
    if run is None or sum(len(_ALONE.findall(text.text)) for text in texts) < 2:
        return None
    text, found = run
    by_srun = found["by"] == "srun"
    of_run, of_library, path = (
        next((each for text in texts if (each := words.search(text.text))), None)
        for words in (_OF_RUN, _OF_LIBRARY, _WHICH)
    )
    where = f" ({path['path']})" if path else ""
    differ = of_run is not None and of_library is not None and of_run["version"] != of_library["version"]
    why = (
        "srun does not tell them of each other (--mpi)"
        if by_srun
        else f"mpirun is Open MPI {of_run['version']}{where}, and the program's library Open MPI "
        f"{of_library['version']}"
        if of_run and of_library and differ
        else "mpirun belongs to another MPI than the one that the program uses"
    )
    cure = (
        "srun --mpi=pmix (srun --mpi=list shows what there is), with an MPI in the image that speaks PMIx"
        if by_srun
        else "start by the mpirun of the library's own MPI: its full path (in containers of TensorRT-LLM "
        "/opt/hpcx/ompi/bin/mpirun or /usr/local/mpi/bin/mpirun), before conda's in PATH. Or build mpi4py anew for "
        "this one (MPICC=..., pip install --no-binary mpi4py mpi4py)"
    )
    return Sharper(
        f"each of the {found['n']} processes is an MPI world of its own (size 1): {why}",
        f"{cure}. Engine, its tensor parallel size and the number of ranks are right",
        (text.evidence(found.start("said")),),
    )
