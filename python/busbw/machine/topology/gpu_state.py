"""What a GPU says of itself at this moment: identity, links, clocks, memory faults, and who uses it."""

from __future__ import annotations

from dataclasses import dataclass, field

from busbw.machine.topology.model import NvLinks, PcieLink


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that has the GPU open; `memory_MiB` is None where the driver does not say."""

    pid: int
    name: str | None = None
    memory_MiB: float | None = None
    compute: bool = True


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU as NVML or nvidia-smi shows it; None where it does not say.

    `slowdowns` are reasons for which the clock is held down now, in NVML's words without their prefix
    (hw_slowdown, hw_thermal, hw_power_brake, sw_thermal, sw_power_cap, applications_clocks, sync_boost, idle).
    """

    index: int
    bus_id: str | None = None
    name: str | None = None
    sm: int | None = None
    pcie: PcieLink = field(default_factory=PcieLink)
    nvlinks: tuple[NvLinks, ...] = ()
    nvlinks_inactive: int = 0
    nvlink_errors: int | None = None
    numa: int | None = None
    cpus: tuple[int, ...] = ()
    utilisation_percent: float | None = None
    memory_used_MiB: float | None = None
    memory_total_MiB: float | None = None
    pstate: int | None = None
    sm_clock_MHz: float | None = None
    max_sm_clock_MHz: float | None = None
    application_clock_MHz: float | None = None
    default_application_clock_MHz: float | None = None
    slowdowns: tuple[str, ...] = ()
    temperature_C: float | None = None
    power_limit_W: float | None = None
    default_power_limit_W: float | None = None
    mig: bool | None = None
    ecc_uncorrected: int | None = None
    rows_remapped_uncorrected: int | None = None
    row_remap_pending: bool | None = None
    row_remap_failed: bool | None = None
    compute_mode: str | None = None
    ecc: bool | None = None
    ecc_pending: bool | None = None
    """ECC after the next reset."""
    persistence: bool | None = None
    bar1_MiB: float | None = None
    """The window through which PCIe devices reach its memory."""
    vbios: str | None = None
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver below the GPUs, and how it was asked."""

    version: str | None = None
    asked: str = "nothing"


def program_of(command: str | None) -> str | None:
    """The program's name alone: what follows it may hold secrets."""
    words = (command or "").split()
    return words[0].rpartition("/")[2][:60] or None if words else None
