"""What is to be run, before anything is known about how."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from busbw.base.secrets import hide_variable


class Bind(enum.Enum):
    """Which processors a rank may use."""

    NONE = "none"
    CORES = "cores"
    GPU = "gpu"  # those next to its GPU


class Mpi(enum.Enum):
    """The kinds of mpirun, as far as their words differ."""

    OPEN_MPI_4 = "openmpi4"
    OPEN_MPI_5 = "openmpi5"
    HYDRA = "hydra"


@dataclass(frozen=True)
class Host:
    """A machine that takes part, and how many ranks it takes; None: as many as every other."""

    name: str
    slots: int | None = None


@dataclass(frozen=True)
class SlurmOptions:
    """What only Slurm understands."""

    partition: str | None = None
    nodelist: str | None = None
    account: str | None = None
    exclusive: bool = False
    requeue: bool = False  # a batch job that was preempted, or lost a node, is started again
    mpi: str | None = None  # srun's --mpi; None: none at all, the ranks need no PMI to meet
    container_image: str | None = None  # pyxis
    container_mounts: str | None = None


@dataclass(frozen=True)
class TorchrunOptions:
    """How the torchruns of several hosts find each other."""

    endpoint: str | None = None  # host:port of the first host
    node_rank: int | None = None


@dataclass(frozen=True)
class KubernetesOptions:
    """What a manifest needs beside the job itself."""

    image: str | None = None
    namespace: str = "default"
    kind: str = "job"  # or mpijob
    hosts: tuple[str, ...] = ()  # a pod on each of these; else wherever the cluster puts them


@dataclass(frozen=True)
class JobSpec:
    """One measurement by several ranks; `ranks` are processes, `nodes` share them out equally."""

    ranks: int
    engine: Path  # the program of every rank
    arguments: tuple[str, ...]  # its words; for the engine, the collective first
    environment: Mapping[str, str] = field(default_factory=dict)  # additions to what each rank inherits
    bind: Bind = Bind.NONE
    nodes: int = 1
    gpus_per_node: int | None = None
    cpu_sets: tuple[frozenset[int], ...] = ()  # by local rank, where the node's topology gave them
    hosts: tuple[Host, ...] = ()
    forward: tuple[str, ...] = ()  # names in our own environment that ranks on other hosts need too
    time_limit: float | None = None  # seconds
    folder: Path = Path()  # where files of the launch lie: the run's folder
    name: str = "busbw"  # as a queue shows it
    launcher_program: str | None = None  # where the launcher's own program is not the one on PATH
    launcher_arguments: tuple[str, ...] = ()  # handed to the launcher as they are
    mpi: Mpi = Mpi.OPEN_MPI_4
    slurm: SlurmOptions = SlurmOptions()
    torchrun: TorchrunOptions = TorchrunOptions()
    kubernetes: KubernetesOptions = KubernetesOptions()

    @property
    def secrets(self) -> dict[str, str]:
        """Variables whose names or values say that they are secret: a scheduler gets them, no file does."""
        return {name: value for name, value in self.environment.items() if hide_variable(name, value) != value}

    @property
    def open_environment(self) -> dict[str, str]:
        """The other variables."""
        return {name: value for name, value in self.environment.items() if name not in self.secrets}

    @property
    def ranks_per_node(self) -> int:
        """Ranks of one node."""
        return self.ranks // self.nodes

    @property
    def argv(self) -> tuple[str, ...]:
        """The words of one rank."""
        return (str(self.engine), *self.arguments)
