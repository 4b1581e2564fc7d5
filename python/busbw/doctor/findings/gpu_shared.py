"""A job of which some GPUs also hold another program's process: these ranks take turns with it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.signature import Stage

NAME = "gpu-shared"
LARGE_MIB = 4096
"""What a process holds that computes; desktops and monitors hold less."""
BUSY_PERCENT = 20
_MOST = 4096
_LOOK = 1 << 20
_TABLE = re.compile(
    r"\|\s{1,6}(?P<gpu>\d{1,3})\s{1,8}(?:N/A|\d{1,3})\s{1,8}(?:N/A|\d{1,3})\s{1,14}(?P<pid>\d{1,9})\s{1,8}C(?:\+G)?\s{1,8}"
    r"(?P<name>\S[^|\n]{0,80}?)\s{1,60}(?P<much>\d{1,7})MiB \|"
)
_PMON = re.compile(
    r"\s{1,8}(?P<gpu>\d{1,3})\s{1,12}(?P<pid>\d{1,9})\s{1,8}C(?:\+G)?\s{1,8}(?P<much>\d{1,3})\s{1,8}(?:\d{1,3}|-)"
    r"(?:\s{1,8}(?:\d{1,3}|-)){0,5}\s{1,8}(?P<name>[A-Za-z.]\S{0,40})\s*$"
)
_PROGRESS = re.compile(
    r"\b(?:tps|tok(?:ens)?/s(?:ec)?|samples/s|img/s|it/s|s/it|mfu|tflops?|elapsed time per iteration|step_time)\b",
    re.IGNORECASE,
)
_RAY = "ray::"
_NEAR = 1000
"""Of processes with such near numbers one may have started the other."""
_OF_MPS = ("nvidia-cuda-mps", "Xorg", "gnome")


@dataclass(frozen=True, slots=True)
class _Row:
    gpu: int
    pid: int
    name: str
    line: int


def examine(facts: Facts) -> Iterator[Finding]:
    for log in facts.snapshot.logs:
        text = (log.text or "")[:_LOOK]
        if "MiB |" not in text and "pid" not in text:
            continue
        if not _PROGRESS.search(text):
            continue  # two servers may share a GPU on purpose
        job, others = _apart(list(_rows(text)))
        if not others:
            continue
        gpus = sorted({each.gpu for each in others})
        names = sorted({each.name for each in others})
        pids = ", ".join(str(each) for each in sorted({each.pid for each in others})[:4])
        yield Finding(
            NAME, Severity.WARNING,
            f"another program, {shortened(names[0], 40)}, computes on {'GPUs' if len(gpus) > 1 else 'GPU'} "
            f"{', '.join(map(str, gpus[:8]))} beside the job's {shortened(job, 40)}",
            tuple(Evidence(f"GPU {each.gpu}: pid {each.pid} ({shortened(each.name, 40)})", log.path, each.line)
                  for each in others[:4]),
            Cost("kernels of both take turns there, and all ranks wait for the slowest"),
            f"end what is left of it (ps -o user,ppid,etime,cmd -p {pids}), or leave these GPUs out. Let the scheduler "
            "give GPUs to one job alone (cgroups, compute mode EXCLUSIVE_PROCESS) and end processes behind a job",
            Proof(instruction="nvidia-smi with the job alone on its GPUs, then the job's rate again"),
            stage=Stage.SYSTEM,
        )  # fmt: skip


def _rows(text: str) -> Iterator[_Row]:
    """Processes that compute, of `nvidia-smi`'s table and of `nvidia-smi pmon`."""
    seen = 0
    for number, line in enumerate(text.split("\n"), 1):
        found, least = _TABLE.match(line), LARGE_MIB
        if found is None and line.startswith("  "):
            found, least = _PMON.match(line), BUSY_PERCENT
        if found is None or int(found["much"]) < least or found["name"].startswith(_OF_MPS):
            continue
        seen += 1
        if seen > _MOST:
            return
        yield _Row(int(found["gpu"]), int(found["pid"]), found["name"].strip(), number)


def _apart(rows: list[_Row]) -> tuple[str, list[_Row]]:
    """The program that has one process on each of several GPUs, and those of others on some of them and not on all."""
    on = defaultdict[str, set[int]](set)
    for each in rows:
        on[each.name].add(each.gpu)
    job = max(on, key=lambda name: len(on[name]), default="")
    if not job or len(on[job]) < 2:
        return "", []
    own = [each.pid for each in rows if each.name == job]
    others = [
        each
        for each in rows
        if each.name != job
        and each.gpu in on[job]
        and not (each.name.startswith(_RAY) and job.startswith(_RAY))
        and all(abs(each.pid - pid) > _NEAR for pid in own)
    ]
    gpus = {each.gpu for each in others}
    return (job, others) if gpus and gpus < on[job] else ("", [])
