"""Tasks of Slurm that may use fewer processors than their job asked for, by what commands and loaders tell of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from busbw.base.secrets import shortened
from busbw.doctor.finding import Evidence
from busbw.doctor.reading.shown import Shown
from busbw.machine.topology.cpulist import read_list

_ASKED = re.compile(
    r"^\s{0,4}#SBATCH\s{1,8}(?:--cpus-per-task[= ]|-c ?)(?P<a>\d{1,4})\b|\bCPUs/Task=(?P<b>\d{1,4})\b"
    r"|^\s{0,8}(?:export )?SLURM_CPUS_PER_TASK=(?P<c>\d{1,4})\b"
)
_ALLOWED = re.compile(r"(?:'s current affinity list|\bCpus_allowed_list):\s{1,8}(?P<cpus>\d[\d,-]{0,400})\b")
_LOADER = re.compile(r"will create (?P<made>\d{1,4}) worker processes in total.{0,120}system is (?P<most>\d{1,4})\b")
_STEP = re.compile(r"\bCPUs=(?P<cpus>\d{1,6}) Tasks=(?P<tasks>\d{1,6})\b")
_SRUN = re.compile(r"^(?!\s{0,8}(?:[\w@.:~/\[\]-]{0,60}[$#>]|#)).{0,120}?\bsrun (?!-{1,2}(?:overlap|jobid|mpi=list))")
"""The command of a job's script: one behind a prompt looks at a job that runs."""
_PASSED = re.compile(r"(?:--cpus-per-task[= ]|\s-c ?)\d|SRUN_CPUS_PER_TASK=|--cpus-per-task[= ]\"?\$")
_LEAST, _CORE = 2, 4
"""Times as many processors that were asked for; so many has one core at most, and more a program chose by itself."""


@dataclass(frozen=True, slots=True)
class FewerCpus:
    """How many processors a job asked for each task, how many these have, whether srun was not told; and by what."""

    asked: int
    given: int
    which: str
    untold: bool
    seen: tuple[Evidence, ...]


def fewer_cpus(shown: Shown) -> FewerCpus | None:
    """What a log shows of it; None where tasks have what they asked for, or nothing tells."""
    asked: tuple[int, Evidence] | None = None
    given: tuple[int, str, Evidence] | None = None
    srun: Evidence | None = None
    passed = False
    for number, line in enumerate(shown.lines, 1):
        seen = Evidence(shortened(line.strip(), 200), shown.source, number)
        passed = passed or (("srun" in line or "SRUN_" in line) and _PASSED.search(line) is not None)
        if found := _ASKED.search(line):
            asked = asked or (int(found["a"] or found["b"] or found["c"]), seen)
        elif "srun " in line and _SRUN.match(line):
            srun = srun or seen
        elif told := _given(line):
            given = (*told, seen) if given is None or told[0] < given[0] or (told[1] and not given[1]) else given
    if asked is None or given is None or passed or asked[0] < _LEAST * given[0] or given[0] > _CORE:
        return None
    said = (given[2], asked[1], *((srun,) if srun else ()))
    return FewerCpus(asked[0], given[0], given[1], srun is not None, said)


def _given(line: str) -> tuple[int, str] | None:
    """How many processors a line says that a task has, and which where it names them."""
    if found := _ALLOWED.search(line):
        return len(read_list(found["cpus"])), found["cpus"][:40]
    if (found := _LOADER.search(line)) and int(found["made"]) > int(found["most"]):
        return int(found["most"]), ""
    if (found := _STEP.search(line)) and int(found["tasks"]) > 1:
        return max(1, int(found["cpus"]) // int(found["tasks"])), ""
    return None
