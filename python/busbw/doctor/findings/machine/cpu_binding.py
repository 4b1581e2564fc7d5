"""Ranks bound to too few processors, to busy ones, or to another NUMA node than their GPU's."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from busbw.base.secrets import shortened
from busbw.doctor.bound_runs import slowed_by_binding
from busbw.doctor.facts import Facts
from busbw.doctor.fewer_cpus import fewer_cpus
from busbw.doctor.finding import Cost, Evidence, Finding, Proof, Severity
from busbw.doctor.reading.shown import Shown
from busbw.doctor.reading.snapshot import HostState, ProcessState
from busbw.doctor.signature import Stage
from busbw.machine.topology.cpulist import read_list, read_mask, write_list

NAME = "cpu-binding"
BUSY = 0.8
_PROOF = Proof(unbind=True)
_FIX = (
    "bind each rank to the processors of its GPU's NUMA node (`busbw topo` lists them), or do not bind at all: "
    "mpirun --bind-to none, srun --cpu-bind=none with --cpus-per-task"
)


def examine(facts: Facts) -> Iterator[Finding]:
    host = facts.snapshot.host
    for process in facts.snapshot.processes:
        if not process.cpus:
            continue
        yield from _too_few(facts, process, host)
        yield from _far(facts, process)
    yield from _by_log(facts)
    yield from _slower(facts)
    for shown in facts.shown:
        yield from _fewer(shown)
        yield from _crowded(shown)


def _too_few(facts: Facts, process: ProcessState, host: HostState | None) -> Iterator[Finding]:
    own = not process.gpus
    ranks = len(facts.machine.gpus) if own and facts.machine else max(1, len(process.gpus))
    count = len(process.cpus)
    busy = {cpu: host.busy_cpus.get(str(cpu), 0.0) for cpu in process.cpus} if host else {}
    # A machine with fewer processors than GPUs binds nobody: there is nothing to mend.
    bound = host is not None and bool(host.online_cpus) and count < len(host.online_cpus)
    if not bound or ranks == 0:
        return
    # A rank needs a processor for itself and one for NCCL's proxy thread.
    scarce = count < 2 * ranks
    taken = [cpu for cpu, share in busy.items() if share >= BUSY] if own else []
    crowded = count - len(taken) < ranks
    if not scarce and not crowded:
        return
    who = "this process, and every rank that it starts," if own else f"{process.name} (pid {process.pid})"
    proofs = [Evidence(f"allowed processors: {write_list(process.cpus)}", f"/proc/{process.pid}/status")]
    proofs += [Evidence(f"processor {cpu} was {busy[cpu]:.0%} busy with other work", "/proc/stat") for cpu in taken[:8]]
    what = f"{count} processor{'s' * (count > 1)} for {ranks} rank{'s' * (ranks > 1)}"
    yield Finding(
        NAME, Severity.WARNING,
        f"{who} may run on {what}" + (f", {len(taken)} of them busy" if taken else ""),
        tuple(proofs),
        Cost("small messages wait for the processor, and transfers over the network for NCCL's proxy thread"),
        _FIX, _PROOF,
    )  # fmt: skip


def _far(facts: Facts, process: ProcessState) -> Iterator[Finding]:
    if facts.machine is None or len(facts.machine.numa_nodes) < 2:
        return
    for gpu in facts.machine.gpus:
        if gpu.index not in process.gpus or gpu.numa is None or not gpu.cpus:
            continue
        if not set(process.cpus) & set(gpu.cpus):
            yield Finding(
                NAME, Severity.WARNING,
                f"{process.name} (pid {process.pid}) runs far from {gpu.key}: its processors are of another NUMA node",
                (Evidence(f"allowed processors: {write_list(process.cpus)}", f"/proc/{process.pid}/status"),
                 Evidence(f"{gpu.key} is on NUMA node {gpu.numa}: {write_list(gpu.cpus)}", facts.machine.source)),
                Cost("transfers through host memory and the network cross the sockets' interconnect"), _FIX, _PROOF,
            )  # fmt: skip


def _slower(facts: Facts) -> Iterator[Finding]:
    """Two runs of one test, of which the one with bound ranks is slower."""
    found = slowed_by_binding(facts.shown)
    if found is not None:
        yield Finding(
            NAME, Severity.WARNING, found.told, found.seen,
            Cost(f"{found.factor:.1f} times less, the same test without it", found.factor, "both tables"),
            "mpirun --bind-to none (or --bind-to numa, --map-by ppr:N:numa:PE=M), and no OMPI_MCA_ variable that says "
            "otherwise: NCCL's proxy threads need cores of their own, near the GPU. srun: --cpu-bind=none",
            _PROOF, stage=Stage.SETTING,
        )  # fmt: skip


def _fewer(shown: Shown) -> Iterator[Finding]:
    """Tasks that Slurm gave fewer processors than their job asked for."""
    told = fewer_cpus(shown)
    if told is None:
        return
    which = f" ({told.which})" if told.which else ""
    many = f"processor{'s' * (told.given > 1)}"
    why = ": srun does not take --cpus-per-task over from sbatch" if told.untold else ""
    yield Finding(
        NAME, Severity.WARNING,
        f"each task runs on {told.given} {many}{which}, and the job asked for {told.asked} for each{why}",
        told.seen,
        Cost(f"the rank, its loaders and NCCL's threads share {told.given} {many}; the GPUs wait for data"),
        f"srun --cpus-per-task={told.asked}, or export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before srun: since "
        "Slurm 22.05 srun does not inherit it from sbatch. Then taskset -pc of a rank lists all of them. Fewer loader "
        "workers do not mend it",
        _PROOF, stage=Stage.SETTING,
    )  # fmt: skip


_CORE = 2
"""So many processors has a core as a rule; they have neighbouring numbers only on small machines."""
_MASK = re.compile(r"Setting affinity for GPU (?P<gpu>\d{1,4}) to (?P<mask>[0-9a-f]{1,8}(?:,[0-9a-f]{8}){0,64}) *$")
_LIST = re.compile(r"(?:for GPU (?P<gpu>\d{1,4}) .{0,200})?CPU affinity = ?(?P<cpus>[\d,-]{1,400})\W*$")


def _by_log(facts: Facts) -> Iterator[Finding]:
    """NCCL prints the affinity that it found: `(GPU affinity = ... ; CPU affinity = 5)`, or the mask that it sets."""
    for log in facts.logs:
        ranks: dict[tuple[int, ...], set[str]] = defaultdict(set)
        for said in log.affinities:
            cpus, gpu = _processors(said.text)
            if not cpus:
                continue
            ranks[cpus].add(gpu)
            who, count = len(ranks[cpus]), len(cpus)
            if count == 1 or (who > 1 and (count < who or count == _CORE)):
                title = f"a rank was bound to one processor, {cpus[0]}" if who == 1 else (
                    f"{who} ranks of a host were bound to the same {count} processor{'s' * (count > 1)}, "
                    f"{write_list(cpus)}"
                )  # fmt: skip
            elif count == _CORE and cpus[1] - cpus[0] > 1:
                title = f"a rank was bound to one core, processors {write_list(cpus)}"
            else:
                continue
            # On one node the proxy rests, and a run that shows no wait for its processor lost nothing by it.
            calm = who == 1 and facts.ran_on_one_node and _went_well(facts, log.source)
            yield Finding(
                NAME, Severity.NOTE if calm else Severity.WARNING, title,
                (Evidence(shortened(said.text, 160), log.source, said.line),),
                Cost("small messages wait for the processor, and the proxy thread shares it"), _FIX, _PROOF,
                # Sockets that were chosen where no RDMA is known are slow by this.
                stage=Stage.NETWORK if facts.has_rdma else Stage.SETTING,
            )  # fmt: skip
            break


def _went_well(facts: Facts, source: str) -> bool:
    """Whether the job of that log went on or ended, and went through no network of the host."""
    sockets = any("Socket" in said.text for log in facts.logs for said in log.networks.values())
    scan = next((each for each in facts.scans if each.source == source), None)
    if scan is None or sockets:
        return False
    return bool(scan.ended or scan.course.done or any(scan.kinds[each] for each in ("rows", "ends", "steps")))


def _processors(text: str) -> tuple[tuple[int, ...], str]:
    """The processors that a line of NCCL leaves a rank, and its GPU."""
    if found := _MASK.search(text):
        return read_mask(found["mask"]), found["gpu"]
    found = _LIST.search(text)
    return (read_list(found["cpus"]), found["gpu"] or "") if found else ((), "")


_ALLOWED = re.compile(r"(?:'s current affinity list|\bCpus_allowed_list):\s{1,8}(?P<cpus>\d[\d,-]{0,400})\b")
_MPSTAT = re.compile(
    r"(?:Average:|\d\d:\d\d:\d\d(?: [AP]M)?)\s{1,12}(?P<cpu>\d{1,4})(?:\s{1,12}\d{1,3}[.,]\d\d){6,10}\s{1,12}"
    r"(?P<idle>\d{1,3}[.,]\d\d)\s*$"
)
_TOP = re.compile(r"%?Cpu(?P<cpu>\d{1,4})\s{0,3}: .{10,120}?(?P<idle>\d{1,3}[.,]\d)\s?id\b")
_JOB = re.compile(r"\bJobId=(?P<job>\d{1,12})\b")
_SHARED_NODE = re.compile(r"\bOverSubscribe=(?:YES|OK|FORCE)\b")
_NO_TIME, _RESTS = 5.0, 80.0
"""Per cent of the time that a processor does nothing: one that is full, and one that nobody uses."""


def _crowded(shown: Shown) -> Iterator[Finding]:
    """Processes that may use some processors alone, all of them full, while others of the host do nothing."""
    allowed: dict[tuple[int, ...], list[Evidence]] = defaultdict(list)
    idle: dict[int, tuple[float, Evidence]] = {}
    jobs, shares = dict[str, None](), False
    for number, line in enumerate(shown.lines, 1):
        if "ffinity list" in line or "Cpus_allowed_list" in line:
            if (found := _ALLOWED.search(line)) and (cpus := tuple(read_list(found["cpus"]))):
                allowed[cpus].append(Evidence(shortened(line.strip(), 160), shown.source, number))
        elif found := _MPSTAT.match(line) or _TOP.match(line):
            share = float(found["idle"].replace(",", "."))
            idle[int(found["cpu"])] = share, Evidence(shortened(line.strip(), 160), shown.source, number)
        elif "JobId=" in line and (found := _JOB.search(line)):
            jobs[found["job"]] = None
        shares = shares or ("OverSubscribe=" in line and _SHARED_NODE.search(line) is not None)
    for cpus, said in allowed.items():
        mine = [idle[cpu] for cpu in cpus if cpu in idle]
        others = [each for cpu, each in idle.items() if cpu not in cpus]
        if not _are_apart([share for share, _ in mine], [share for share, _ in others], len(cpus)):
            continue
        two = shares and len(jobs) > 1
        who = f"{len(said)} processes" if len(said) > 1 else "a process"
        yield Finding(
            NAME, Severity.WARNING,
            f"{who}{f' of {len(jobs)} jobs' if two else ''} may run on processors {write_list(cpus)} alone, which have "
            "no time left while others do nothing"
            + (", and Slurm lets jobs share them (OverSubscribe)" if two else ""),
            (said[0], *said[-1:][: len(said) - 1], mine[0][1], others[0][1]),
            Cost("ranks, loaders and NCCL's proxy threads wait for a processor"),
            "give each job and rank processors of its own: disjoint lists (srun --cpus-per-task with cgroups or "
            "task/affinity, taskset, numactl), more of them. OverSubscribe=NO or --exclusive where jobs share a node",
            _PROOF, stage=Stage.SETTING,
        )  # fmt: skip


def _are_apart(mine: list[float], others: list[float], count: int) -> bool:
    """Whether the processors that are allowed are full, and those that are not do nothing."""
    if len(mine) < min(2, count) or len(others) < 2:
        return False
    return median(mine) <= _NO_TIME and median(others) >= _RESTS
