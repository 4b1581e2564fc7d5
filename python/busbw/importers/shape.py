"""How many ranks measured: what each source says, which of them is believed, and where they contradict each other.

In this order: the list of ranks of the tool (where it is whole, or says how it was cut), size over count, NCCL's
messages, the launcher's command, and last bus over algorithm bandwidth. Where none says it, the number stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from busbw.records import Case, Collective, Rank
from busbw.records.bandwidth import bus_factor

SCALE = {
    "all_reduce": 2.0,
    "all_gather": 1.0,
    "reduce_scatter": 1.0,
    "alltoall": 1.0,
    "alltoallv": 1.0,
    "gather": 1.0,
    "scatter": 1.0,
}
"""Bus over algorithm bandwidth of very many ranks, where it depends on them."""


def size_of_list(ranks: Sequence[Rank], options: dict[str, Any], notes: list[str]) -> int | None:
    """Ranks of one communicator by the tool's list; nccl-tests cuts the list at 2,048 bytes of each process."""
    if not ranks or (ranks[-1].rank == len(ranks) - 1 and _is_plain(ranks, options)):
        return len(ranks) or None
    copies = sum(1 for rank in ranks if rank.rank == 0)
    if copies > 1:
        notes.append(f"{copies} ranks call themselves 0: {copies} copies that were started without MPI are mixed here")
        return max(rank.rank for rank in ranks) + 1
    total = _total(ranks, options, notes)
    if total is None:
        return None
    groups: dict[int, int] = {}
    for rank in ranks:
        groups[rank.group or 0] = groups.get(rank.group or 0, 0) + 1
    if len(groups) == 1:
        return total
    if len(set(groups.values())) > 1 or total != len(ranks):
        notes.append("communicators of different sizes: the number of ranks is left open")
        return None
    return next(iter(groups.values()))


def _is_plain(ranks: Sequence[Rank], options: dict[str, Any]) -> bool:
    """Whether the list counts from 0 in one group, a rank a process or all ranks of one process: most lists are so."""
    each = options.get("nthreads", 1) * options.get("ngpus", 1)
    if each != 1 and each != len(ranks):
        return False
    return all(rank.rank == at and not rank.group for at, rank in enumerate(ranks))


def _total(ranks: Sequence[Rank], options: dict[str, Any], notes: list[str]) -> int | None:
    """All ranks of the job, also where the list was cut; None where it is an excerpt."""
    numbers = sorted({rank.rank for rank in ranks})
    firsts: dict[tuple[str, int | None], int] = {}
    for rank in ranks:
        key = (rank.host, rank.pid)
        firsts[key] = min(rank.rank, firsts.get(key, rank.rank))
    each = int(options["nthreads"] * options["ngpus"]) if {"nthreads", "ngpus"} <= options.keys() else None
    whole = numbers == list(range(len(numbers)))
    if each and each > 1 and sorted(firsts.values()) == list(range(0, each * len(firsts), each)):
        total = each * len(firsts)
        if total > len(numbers):
            notes.append(f"the list of ranks is cut: it names {len(numbers)} of {len(firsts)} x {each} = {total} ranks")
        return max(total, len(numbers))
    if not whole:
        notes.append(f"the list of ranks is an excerpt: it names {len(numbers)}, the last is rank {numbers[-1]}")
        return None
    return len(numbers)


@dataclass(frozen=True)
class Said:
    """What every source says of the number of ranks; None where it says nothing."""

    listed: int | None = None
    counted: int | None = None
    messages: frozenset[int] = frozenset()
    command: int | None = None
    at_least: int = 1


def decide(said: Said, cases: Callable[[], Sequence[Case]], notes: list[str]) -> int | None:
    """The number of ranks, with a note for what it follows from and for every contradiction.

    The cases are asked for only where the ratio of their bandwidths is needed.
    """
    told = next(iter(said.messages)) if len(said.messages) == 1 else None
    command = said.command
    chosen, source = said.listed, "the list of ranks"
    if chosen is None and said.counted is not None and said.counted >= said.at_least:
        chosen, source = said.counted, "size over count"
    if chosen is None and told is not None and told >= said.at_least:
        chosen, source = told, "NCCL's messages"
    if chosen is None and command is not None and command >= said.at_least and agrees(cases(), command):
        chosen, source = command, "the command above the results"
        notes.append(f"{chosen} ranks: from {source}")
    derived = derived_ranks(cases()) if chosen is None else None
    if derived is not None and derived >= said.at_least:
        chosen, source = derived, "bus bandwidth over algorithm bandwidth"
        notes.append(f"{chosen} ranks: from {source}, nothing names them")
    for other, what in ((told, "NCCL's messages"), (said.counted, "size over count"), (command, "the command above")):
        if chosen is not None and other is not None and other != chosen and what[:8] != source[:8]:
            notes.append(f"{source} says {chosen} ranks, but {what} {_VERBS[what[:4]]} {other}")
    return chosen


_VERBS = {"NCCL": "speak of", "size": "gives", "the ": "starts"}


def agrees(cases: Sequence[Case], ranks: int) -> bool:
    """Whether bus over algorithm bandwidth of the cases can come from that many ranks."""
    return all(
        ranks_fit(case.collective, case.algbw_GBps, case.busbw_GBps, ranks) for case in cases if not case.conversion
    )


def ranks_fit(collective: Collective, algbw: float | None, busbw: float | None, size: int) -> bool:
    """Whether bus bandwidth over algorithm bandwidth is what `size` ranks give."""
    factor = bus_factor(collective, size)
    if factor is None or not algbw or busbw is None or algbw < 1:
        return True
    return abs(busbw - factor * algbw) <= 0.02 + 0.02 * busbw


def derived_ranks(cases: Sequence[Case]) -> int | None:
    """The only number of ranks that bus bandwidth over algorithm bandwidth allows, given their two decimals."""
    best = max((case for case in cases if case.algbw_GBps and case.busbw_GBps and not case.conversion),
               key=lambda case: case.algbw_GBps or 0, default=None)  # fmt: skip
    if best is None or not best.algbw_GBps or not best.busbw_GBps or best.algbw_GBps < 0.5:
        return None
    scale = SCALE.get(best.collective)
    return None if scale is None else ranks_of_ratio(best.algbw_GBps, best.busbw_GBps, scale)


def ranks_of_ratio(algbw: float, busbw: float, scale: float) -> int | None:
    """The only n with busbw = scale (1 - 1/n) algbw, both rounded to a hundredth; None where there are several."""
    low = (busbw - 0.005) / (algbw + 0.005) / scale
    high = (busbw + 0.005) / (algbw - 0.005) / scale
    if not 0 < low <= high < 1:
        return None
    least, most = ceil(1 / (1 - low)), floor(1 / (1 - high))
    return least if least == most and least > 1 else None


# -- the launcher's words --------------------------------------------------------------------------------------------

_PROGRAM_WORD = re.compile(
    r"\S*(?:[a-z]_(?:test_)?perf(?:_mpi)?|osu_[a-z_]+|IMB-\w+|ucc_perftest|nccom-test|[a-z]_test|\w+\.py)(?=\s|$|\"|')"
)
_RUNS = re.compile(
    r"\b(?P<torch>torchrun|torch\.distributed\.(?:run|launch))\b|\b(?P<deepspeed>deepspeed)\b|\b(?P<srun>srun)\b|\b(?P<jsrun>jsrun)\b"
    r"|\b(?P<mpi>mpirun\w*|mpiexec[\w.]*|orterun|prterun|prun|aprun|flux)\b"
)


_HIDDEN = re.compile(
    r"\b(?:ba|z)?sh +-l?c +[\"']? *\\?\$"
    r"|(?<!\S)(?:-np?|-N|--np|--n?nodes|--ntasks|-ppn|-npernode|--[a-z]+[_-]per[_-]node|--num_(?:gpus|nodes))[= ]*\\?\$"
)
"""A number of ranks, or the command itself, is in a variable that is not shown."""
_VARIABLE = re.compile(r"\\?\$(?:\{(?P<braced>\w{1,80})\}|(?P<plain>\w{1,80}))")
MAX_EXPANDED = 20_000


def expanded(command: str, assigned: Mapping[str, str], directives: str) -> str:
    """The command with the variables that the script sets, and those of Slurm that its directives give."""
    nodes, tasks = option(directives, "-N", "--nodes"), option(directives, "--ntasks-per-node")
    all_tasks = option(directives, "-n", "--ntasks") or (nodes * tasks if nodes and tasks else None)
    slurm = {"SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NTASKS_PER_NODE": tasks,
             "SLURM_NTASKS": all_tasks}  # fmt: skip
    values = {**{name: str(value) for name, value in slurm.items() if value}, **assigned}
    for _ in range(3):
        found = _VARIABLE.sub(lambda match: values.get(match["braced"] or match["plain"], match[0]), command)
        if found == command or len(found) > MAX_EXPANDED:
            break
        command = found
    return command


def option(text: str, *names: str) -> int | None:
    """The number of the first option that is there: `-n 8`, `-n8`, `-n=8`, `--ntasks=8`."""
    for name in names:
        glued = r"[ =]?\s*" if len(name) == 2 else r"[ =]\s*"
        found = re.search(rf"(?<![\w-]){re.escape(name)}{glued}(\d{{1,7}})\b", text)
        if found:
            return int(found[1])
    return None


def ranks_of_command(command: str, directives: str = "") -> int | None:
    """Ranks that a command starts, where it and the batch directives above it say so in full."""
    program = None
    for program in _PROGRAM_WORD.finditer(command):
        if not program[0].endswith(".py") or "torch" in command or "deepspeed" in command:
            break
    before, after = (command[: program.start()], command[program.end() :]) if program else (command, "")
    each = 1
    if program and "_perf" in program[0]:
        given = option(after, "-g", "--ngpus"), option(after, "-t", "--nthreads")
        each = (given[0] or 1) * (given[1] or 1)
    # The innermost starts the ranks: srun bash -c 'torchrun ...'
    runs = next(reversed(list(_RUNS.finditer(before))), None)
    if runs is None:
        told = option(after, "-r", "--nworkers") if program and "nccom" in program[0] else None
        return told or (each if program and each > 1 else None)
    if _HIDDEN.search(before[runs.start() :]):
        return None  # a variable that nobody shows may start several on each
    processes = _PROCESSES[str(runs.lastgroup)](before[runs.start() :], directives)
    return processes * each if processes else None


def _torch(text: str, _: str) -> int | None:
    each = option(text, "--nproc_per_node", "--nproc-per-node")
    return each * (option(text, "--nnodes") or 1) if each else None


def _deepspeed(text: str, _: str) -> int | None:
    each = option(text, "--num_gpus")
    return each * (option(text, "--num_nodes") or 1) if each else None


def _srun(text: str, directives: str) -> int | None:
    both = f"{text}\n{directives}"
    tasks = option(text, "-n", "--ntasks")
    if tasks:
        return tasks
    each, nodes = option(both, "--ntasks-per-node", "--tasks-per-node"), option(both, "-N", "--nodes")
    if each:
        # Slurm runs on one node unless told otherwise.
        return each * (nodes or 1)
    # One task a node is srun's default.
    return option(directives, "-n", "--ntasks") or option(text, "-N", "--nodes")


def _jsrun(text: str, _: str) -> int | None:
    sets, tasks = option(text, "-n", "--nrs"), option(text, "-a", "--tasks_per_rs")
    return option(text, "-p", "--np") or (sets * (tasks or 1) if sets else None)


def _mpi(text: str, directives: str) -> int | None:
    told = option(text, "-np", "--np", "-n", "--n", "--ntasks", "-c")
    if told:
        return told
    hosts = re.search(r"(?<![\w-])(?:-H|--host|-hosts|--hosts|-host)[ =]\s*([\w.,:\[\]-]{1,4000})", text)
    names = [each for each in hosts[1].split(",") if each] if hosts else []
    ppr = re.search(r"ppr:(\d{1,6}):node", text)
    each = int(ppr[1]) if ppr else option(text, "-N", "-npernode", "--npernode", "-ppn", "-perhost", "-N")
    if names and each:
        return each * len({name.split(":")[0] for name in names})
    if names and any(":" in name for name in names):
        slots = [name.rpartition(":")[2] for name in names if ":" in name]
        return (
            sum(map(int, slots)) + len(names) - len(slots)
            if all(slot.isdecimal() and len(slot) < 6 for slot in slots)
            else None
        )
    per_node, nodes = option(directives, "--ntasks-per-node"), option(directives, "-N", "--nodes")
    if each and nodes:
        return each * nodes
    return option(directives, "-n", "--ntasks") or (per_node * nodes if per_node and nodes else None)


_PROCESSES = {"torch": _torch, "deepspeed": _deepspeed, "srun": _srun, "jsrun": _jsrun, "mpi": _mpi}
