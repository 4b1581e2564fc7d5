"""A trial as a launch: which program runs on which nodes, with which words and variables."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from busbw.base.programs import with_this_package
from busbw.fleet.trial import INSIDE, Trial
from busbw.launch.job import Host, JobSpec, SlurmOptions
from busbw.launch.launchers import KUBERNETES, in_pods, planner
from busbw.launch.plan import LaunchPlan, ProcessPlan

ITERATIONS = 20
WARMUPS = 2
SMALL = 8  # bytes of a message that is to be quick
CANCEL_S = 30.0  # until a job is deleted
RANKS = "ranks"
"""No launcher of ours: busbw itself was started once on each node, and each starts what is measured there."""


@dataclass(frozen=True)
class Launching:
    """How groups are started. `program` measures instead of the engine: docs/reference/fleet.md says how."""

    engine: Path
    launcher: str = "srun"
    launcher_program: str | None = None
    launcher_arguments: tuple[str, ...] = ()
    program: Path | None = None
    gpus_per_node: int = 8
    devices: tuple[str, ...] = ()  # the RDMA device of each rail, as NCCL_IB_HCA names it
    size: int = 256 << 20
    library: str | None = None  # for the engine; without it, the NCCL that it finds
    environment: dict[str, str] = field(default_factory=dict)
    image: str | None = None  # for Kubernetes
    namespace: str | None = None

    @property
    def by_turns(self) -> bool:
        """Whether a node can be in one group at a time: a pod has its GPUs for itself."""
        return in_pods(self.launcher)

    @property
    def any_cpu(self) -> bool:
        """Whether what is started may leave our processors: mpirun binds the busbw that it starts to a core."""
        return self.launcher == RANKS


def launch(trial: Trial, how: Launching, output: Path) -> LaunchPlan:
    """Processes on the nodes of a trial that write `output`: the engine a record, a program its samples."""
    inside = trial.kind == INSIDE
    ranks = how.gpus_per_node if inside and how.program is None else len(trial.nodes)
    environment = {**how.environment, **_variables(trial, how, output)}
    if in_pods(how.launcher):
        return _by_busbw_run(trial, how, output, environment, ranks)
    words = () if how.program else _words(trial, how, output)
    if how.launcher == RANKS and not inside:
        return _of_each_node(trial, (str(how.program or how.engine), *words), environment)
    job = JobSpec(
        ranks=ranks,
        engine=how.program or how.engine,
        arguments=words,
        environment=environment,
        nodes=len(trial.nodes),
        hosts=()
        if how.launcher in {"local", RANKS}
        else tuple(Host(node, ranks // len(trial.nodes)) for node in trial.nodes),
        folder=output.parent,
        name=f"fleet-{trial.channel}",
        launcher_program=how.launcher_program,
        # Steps of one allocation share its nodes: rails are measured at the same time.
        launcher_arguments=(*(("--overlap",) if how.launcher == "srun" else ()), *how.launcher_arguments),
        slurm=SlurmOptions(nodelist=compressed(trial.nodes) if how.launcher == "srun" else None),
    )
    if how.launcher in {"local", RANKS}:
        return planner("local").plan(replace(job, nodes=1))
    return planner(how.launcher).plan(job)


def _of_each_node(trial: Trial, argv: tuple[str, ...], environment: dict[str, str]) -> LaunchPlan:
    """A process for each node, in its order; they meet on the first one."""
    shared = {**environment, "BUSBW_WORLD_SIZE": str(len(trial.nodes)), "BUSBW_ADDRESS": trial.nodes[0],
              "BUSBW_HOSTS": ",".join(trial.nodes)}  # fmt: skip
    processes = (ProcessPlan(node, argv, {**shared, "BUSBW_RANK": str(seat)}) for seat, node in enumerate(trial.nodes))
    return LaunchPlan(tuple(processes), secret=True)


def part(whole: LaunchPlan, seat: int, address: str, secret: str) -> LaunchPlan:
    """What one node starts of a group; inside a node, all of it."""
    if whole.meets:
        return whole
    mine = whole.processes[seat]
    met = {**mine.environment, "BUSBW_ADDRESS": address, "BUSBW_SECRET": secret}
    return LaunchPlan((replace(mine, environment=met),))


def _by_busbw_run(trial: Trial, how: Launching, output: Path, environment: dict[str, str], ranks: int) -> LaunchPlan:
    """`busbw run`, which submits a Job, follows it, brings its record and deletes it; told to end, it cancels it."""
    words = [
        "run", "--launcher", KUBERNETES, "--image", how.image or "", "--ranks", str(ranks), "--nodes",
        str(len(trial.nodes)), "--nodelist", ",".join(trial.nodes), "--gpus-per-node", str(how.gpus_per_node),
    ]  # fmt: skip
    words += ["--namespace", how.namespace] if how.namespace else []
    words += ["--launcher-program", how.launcher_program] if how.launcher_program else []
    words += [f"--launcher-arg={word}" for word in how.launcher_arguments]
    words += [f"--env={name}={value}" for name, value in environment.items()]
    argv = (sys.executable, "-m", "busbw", *words, *_words(trial, how, output))
    # Isolated: a folder in which somebody measures may hold any busbw.py.
    variables = {"PYTHONSAFEPATH": "1", "PYTHONPATH": with_this_package({})["PYTHONPATH"]}
    return LaunchPlan((ProcessPlan("busbw run", argv, variables),), grace=CANCEL_S)


def _variables(trial: Trial, how: Launching, output: Path) -> dict[str, str]:
    found = {}
    if trial.kind != INSIDE and how.devices:
        rail = int(trial.channel.removeprefix("rail").removeprefix("latency"))
        found["NCCL_IB_HCA"] = f"={how.devices[rail % len(how.devices)]}"
        found["CUDA_VISIBLE_DEVICES"] = str(rail % how.gpus_per_node)
    if how.program:
        found |= {
            "BUSBW_FLEET_KIND": trial.kind,
            "BUSBW_FLEET_CHANNEL": trial.channel,
            "BUSBW_FLEET_NODES": ",".join(trial.nodes),
            "BUSBW_FLEET_REPEATS": str(trial.repeats),
            "BUSBW_FLEET_SAMPLES": str(output),
        }
    return found


def _words(trial: Trial, how: Launching, output: Path) -> tuple[str, ...]:
    size = str(SMALL if trial.channel.startswith("latency") else how.size)
    return ("all_reduce", "-b", size, "-e", size, "-n", str(ITERATIONS), "-w", str(WARMUPS), "-c", "0",
            "-N", str(trial.repeats), "--record", str(output),
            *(("--library", how.library) if how.library else ()))  # fmt: skip


def traffic(trial: Trial, how: Launching) -> int:
    """Bytes that the nodes of a trial send to each other: an all-reduce over n ranks sends 2 (n - 1) times its size."""
    calls = WARMUPS + ITERATIONS * trial.repeats
    size = SMALL if trial.channel.startswith("latency") else how.size
    return 0 if trial.kind == INSIDE else 2 * (len(trial.nodes) - 1) * size * calls


def compressed(nodes: Sequence[str]) -> str:
    """Slurm's host list: gpu001,gpu002,gpu004 is gpu[001-002,004]."""
    groups: dict[tuple[str, int], list[int]] = {}
    plain = []
    for node in nodes:
        found = re.fullmatch(r"(.*?)([0-9]{1,9})", node)
        if found:
            groups.setdefault((found[1], len(found[2])), []).append(int(found[2]))
        else:
            plain.append(node)
    for (stem, width), numbers in groups.items():
        runs: list[list[int]] = []
        for number in sorted(numbers):
            if runs and number == runs[-1][1] + 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        parts = [f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in runs]
        plain.append(f"{stem}{parts[0]}" if len(numbers) == 1 else f"{stem}[{','.join(parts)}]")
    return ",".join(plain)
