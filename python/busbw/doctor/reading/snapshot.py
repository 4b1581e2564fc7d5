"""Everything that findings are drawn from, as one value: taken live, from saved files, or from a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from busbw.machine.topology.gpu_state import Driver, GpuState
from busbw.machine.topology.model import Machine

SAVED = "saved files"
"""The source of a snapshot that is put together from files, each of its own time."""
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file as it was read; `text` is None where it could not be, and `why` says the reason."""

    path: str
    text: str | None
    why: str = ""
    cut: bool = False
    """Whether it is what could be unpacked of a packed file that was cut off."""


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A process that uses GPUs, or busbw itself (gpus is empty): the processors it may run on."""

    pid: int
    name: str
    gpus: tuple[int, ...]
    cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """A libnccl.so that a program may load, and by which way it would be found."""

    path: str
    version: str | None
    found_by: str


@dataclass(frozen=True, slots=True)
class HostState:
    """The operating system's part. `busy_cpus` names processors with their busy share (0 to 1) while we looked.

    `iommu` is "translated", "identity" (passes addresses through) or None where there is none or nobody may look;
    `acs_redirects` are bridges that send traffic between devices below them up to the root.
    """

    online_cpus: tuple[int, ...] = ()
    busy_cpus: Mapping[str, float] = field(default_factory=dict)
    shm_total_MiB: float | None = None
    shm_free_MiB: float | None = None
    iommu: str | None = None
    acs_redirects: tuple[str, ...] = ()
    peer_memory: bool | None = None
    memlock_KiB: float | None = None
    container: bool = False
    numa_balancing: bool | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    """What two equal machines should share, by name (host_facts.py)."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One host at one time. Files: conf in the order in which NCCL reads them; topology and graph as configured."""

    source: str
    live: bool = False
    schema: int = SCHEMA
    taken: str | None = None
    machine: Machine | None = None
    gpus: tuple[GpuState, ...] = ()
    driver: Driver = field(default_factory=Driver)
    environment: Mapping[str, str] = field(default_factory=dict)
    confs: tuple[TextFile, ...] = ()
    topology: TextFile | None = None
    graph: TextFile | None = None
    logs: tuple[TextFile, ...] = ()
    records: tuple[TextFile, ...] = ()
    host: HostState | None = None
    processes: tuple[ProcessState, ...] = ()
    libraries: tuple[LibraryFile, ...] = ()
    notes: tuple[str, ...] = ()
    others: tuple[Machine, ...] = ()
    """Further machines that the same paste shows."""
    listed_nics: int | None = None
    """Functions of RDMA cards that `lspci` lists beside a matrix; None where it lists none."""
    listed_gpus: int | None = None
    """GPUs that `lspci` lists where nvidia-smi shows others; None where they agree or one of both is missing."""
    links_off: tuple[tuple[int, int, str], ...] = ()
    """NVLinks that a list in a log shows as inactive: the GPU, the link, and where the line stands."""
