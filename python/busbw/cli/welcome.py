"""`busbw` without words: what was found on this machine, and the three commands that make sense here."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SHOWN = ("mpirun", "hydra", "torchrun", "slurm", "k8s")


@dataclass(frozen=True)
class Found:
    """What a look at this machine, without starting anything, shows."""

    gpus: tuple[str, ...]  # their names
    nccls: tuple[tuple[str, str], ...]  # version and path
    launchers: tuple[str, ...]
    cpus: int


def look(environ: Mapping[str, str] = os.environ) -> Found:
    """Ask NVML, the loader's folders and PATH: tenths of a second."""
    from busbw.doctor.host.libraries import find_libraries
    from busbw.launch.launchers import PROGRAMS
    from busbw.machine.topology.nvml import read_nvml

    told = read_nvml()
    gpus = tuple(gpu.name or "GPU" for gpu in told[0]) if told else ()
    if not gpus:
        gpus = tuple("NVIDIA GPU" for _ in Path("/proc/driver/nvidia/gpus").glob("*"))
    nccls = tuple((each.version or "of unknown version", each.path) for each in find_libraries(environ))
    launchers = tuple(name for name in _SHOWN if shutil.which(PROGRAMS[name], path=environ.get("PATH")))
    return Found(gpus, nccls, launchers, len(os.sched_getaffinity(0)))


def text(found: Found) -> str:
    """What is printed."""
    kinds = {name: found.gpus.count(name) for name in found.gpus}
    gpus = ", ".join(f"{count} x {name}" for name, count in kinds.items()) or "none; busbw measures processors here"
    lines = [
        "busbw measures collectives, says what slows them down, and makes them faster.",
        "",
        "Found on this machine:",
        f"  GPUs        {gpus}",
        *(f"  {'NCCL' if not i else '':<12}{version}  {path}" for i, (version, path) in enumerate(found.nccls[:4])),
        *([] if found.nccls else ["  NCCL        none"]),
        f"  launchers   {' '.join(('local', *found.launchers))}",
        f"  processors  {found.cpus}",
        "",
        "Three commands that make sense here:",
    ]
    width = max(len(command) for command, _ in commands(found))
    lines += [f"  {command:<{width}}  {said}" for command, said in commands(found)]
    return "\n".join([*lines, "", "`busbw --help` lists every verb."])


def commands(found: Found) -> list[tuple[str, str]]:
    """Three command lines and what they do."""
    doctor = ("busbw doctor", "what keeps this machine from its bandwidth")
    if len(found.gpus) > 1 and found.nccls:
        count = len(found.gpus)
        return [
            (f"busbw all_reduce -b 8 -e 4G -f 4 -t {count}", "measure NCCL between the GPUs"),
            doctor,
            (f"busbw all_reduce -b 1K -e 64M -f 4 -t {count} --library auto --library busbw", "NCCL against our own"),
        ]
    if found.gpus:
        return [doctor, ("busbw topo", "GPUs, links and NICs"), _cpu()]
    return [
        _cpu(),
        ("busbw import LOG", "read the log of a benchmark that ran elsewhere"),
        ("busbw predict all_reduce --machine ndv4 --nodes 2", "what two nodes with GPUs should reach"),
    ]


def _cpu() -> tuple[str, str]:
    return "busbw all_reduce -b 8 -e 64M -f 4 -t 2 --library cpu", "two ranks on processors"


def main() -> int:
    """Look and tell."""
    print(text(look()))
    sys.stdout.flush()
    return 0
