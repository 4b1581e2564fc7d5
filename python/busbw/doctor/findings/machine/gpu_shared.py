"""A job of which some GPUs also hold another program's process: these ranks take turns with it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from busbw.base.secrets import shortened
from busbw.doctor.facts import Facts
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.findings.figures import below_expected
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
_BENCHMARK = re.compile(r"(?:^|/)(?:[a-z]\w{2,40}_perf|osu_[a-z]\w{2,40}|busbw[\w.-]{0,40})$")
"""Programs that measure, which hold little memory; another program matters to them where they are slow."""
_ASKED = re.compile(r"--query-compute-apps=(?P<names>[a-z_,]{8,200})")
_COLUMNS = re.compile(r"(?:[a-z_]{3,30}(?: \[MiB\])?, ?){2,8}[a-z_]{3,30}(?: \[MiB\])?\s*$")
_RAY = "ray::"
_NEAR = 1000
"""Of processes with such near numbers one may have started the other."""
_FEWEST = 4
"""GPUs of a job whose processes have one name with another program's."""
_OF_MPS = ("nvidia-cuda-mps", "Xorg", "gnome")


@dataclass(frozen=True, slots=True)
class _Row:
    gpu: str
    pid: int
    name: str
    line: int


def examine(facts: Facts) -> Iterator[Finding]:
    for log in facts.snapshot.logs:
        text = (log.text or "")[:_LOOK]
        if "MiB" not in text and "pid" not in text:
            continue
        job, others = _apart([*_rows(text), *_listed(text)])
        measures = _BENCHMARK.search(job) is not None
        # Two servers may share a GPU on purpose.
        if others and (measures or _PROGRESS.search(text)):
            slow = not measures or any(each.severity is not Severity.NOTE for each in below_expected.examine(facts))
            yield _finding(job, others, text, log.path, slow=slow)


def _finding(job: str, others: list[_Row], text: str, path: str, *, slow: bool) -> Finding:
    gpus = sorted({each.gpu for each in others}, key=lambda gpu: (len(gpu), gpu))
    pids = sorted({each.pid for each in others})
    names = sorted({each.name for each in others})
    seen = [Evidence(f"GPU {each.gpu}: pid {each.pid} ({shortened(each.name, 40)})", path, each.line)
            for each in others[:4]]  # fmt: skip
    parent = _parent(text, path, pids)
    left = parent is not None and parent[0] == 1
    listed = ", ".join(map(str, pids[:4]))
    who = f"{shortened(names[0], 40)} (pid {listed}{', its parent is gone' if left else ''})"
    return Finding(
        NAME, Severity.WARNING if slow else Severity.NOTE,
        f"another program, {who}, computes on {'GPUs' if len(gpus) > 1 else 'GPU'} "
        f"{', '.join(gpus[:8])} beside the job's {shortened(job, 40)}",
        (*seen, *([parent[1]] if parent else [])),
        Cost("kernels of both take turns there, and all ranks wait for the slowest"),
        f"end what is left of it (ps -o user,ppid,etime,cmd -p {listed}), or leave these GPUs out. Let the scheduler "
        "give GPUs to one job alone (cgroups, compute mode EXCLUSIVE_PROCESS) and end processes behind a job",
        Proof(instruction="nvidia-smi with the job alone on its GPUs, then the job's rate again"),
        stage=Stage.SYSTEM,
    )  # fmt: skip


def _parent(text: str, path: str, pids: list[int]) -> tuple[int, Evidence] | None:
    """The parent of one of these processes, where `ps` with the columns PID and PPID shows it."""
    at = -1
    for number, line in enumerate(text.split("\n"), 1):
        cells = line.split(maxsplit=8)
        if "PPID" in cells and "PID" in cells:
            at = cells.index("PPID")
            own = cells.index("PID")
        elif at >= 0 and len(cells) > max(at, own) and cells[own].isdecimal() and cells[at].isdecimal():
            if int(cells[own]) in pids:
                return int(cells[at]), Evidence(shortened(line.strip(), 160), path, number)
        elif line.strip():
            at = -1
    return None


def _rows(text: str) -> Iterator[_Row]:
    """Processes that compute, of `nvidia-smi`'s table and of `nvidia-smi pmon`."""
    seen = 0
    for number, line in enumerate(text.split("\n"), 1):
        found, least = _TABLE.match(line), LARGE_MIB
        if found is None and line.startswith("  "):
            found, least = _PMON.match(line), BUSY_PERCENT
        if found is None or found["name"].startswith(_OF_MPS):
            continue
        if int(found["much"]) < least and not _BENCHMARK.search(found["name"].strip()):
            continue
        seen += 1
        if seen > _MOST:
            return
        yield _Row(found["gpu"], int(found["pid"]), found["name"].strip(), number)


def _listed(text: str) -> Iterator[_Row]:
    """Processes of `nvidia-smi --query-compute-apps` that names the GPU, the process and its memory."""
    names: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        asked = _ASKED.search(line) if "compute-apps" in line else None
        if asked or ("pid" in line and "used" in line and _COLUMNS.match(line)):
            names = [each.strip().partition(" ")[0] for each in (asked["names"] if asked else line).split(",")]
            continue
        cells = [each.strip() for each in line.split(",", 12)] if names else []
        if not names or len(cells) != len(names):
            continue
        row = dict(zip(names, cells, strict=True))
        gpu, name = row.get("gpu_bus_id") or row.get("gpu_uuid") or "", row.get("process_name") or row.get("name") or ""
        much = (row.get("used_memory") or row.get("used_gpu_memory") or "").partition(" ")[0]
        if not (gpu and name and much.isdecimal() and row.get("pid", "").isdecimal()):
            continue
        if int(much) >= LARGE_MIB or _BENCHMARK.search(name):
            yield _Row(shortened(gpu, 40), int(row["pid"]), name, number)


def _apart(rows: list[_Row]) -> tuple[str, list[_Row]]:
    """The program that has one process on each of several GPUs, and those of others on some of them and not on all."""
    on = defaultdict[str, set[str]](set)
    for each in rows:
        on[each.name].add(each.gpu)
    job = max(on, key=lambda name: (_BENCHMARK.search(name) is not None, len(on[name])), default="")
    if not job or len(on[job]) < 2:
        return "", []
    if len(on) == 1:
        return job, _far_ones(rows)
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


def _far_ones(rows: list[_Row]) -> list[_Row]:
    """Of processes with one name those that were not started with the others, on GPUs that the others use as well.

    A launcher starts one process for each GPU at once, so that their numbers are near each other.
    """
    by_pid = sorted(rows, key=lambda each: each.pid)
    groups: list[list[_Row]] = []
    for each in by_pid:
        if groups and each.pid - groups[-1][-1].pid <= _NEAR:
            groups[-1].append(each)
        else:
            groups.append([each])
    job = max(groups, key=lambda group: len({each.gpu for each in group}))
    on = {each.gpu for each in job}
    others = [each for group in groups if group is not job for each in group]
    gpus = {each.gpu for each in others}
    one_each = len({each.pid for each in job}) == len(on) == len(job)
    return others if one_each and len(on) >= _FEWEST and gpus <= on and 2 * len(gpus) <= len(on) else []
