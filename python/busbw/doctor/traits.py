"""A snapshot as named values to lay beside those of another machine, and how suspicious a difference in each is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from busbw.doctor.facts import Facts
from busbw.doctor.host.host_facts import OF_DEVICES, weight_of
from busbw.machine.topology.gpu_state import GpuState
from busbw.machine.topology.model import Machine, PcieLink

FAULT, LINK, LIMIT, SETTING, VERSION, HOST, DETAIL = 100, 80, 70, 60, 50, 40, 10
"""How likely a difference is the reason of a difference in bandwidth, from hardware that is broken to small print."""

# Values of a run or a place, of which two equal machines differ.
_PERSONAL = ("HOST", "_ADDR", "_PORT", "RANK", "JOB", "_ID", "PWD", "HOME", "USER", "NODELIST", "PATH", "_FILE_DIR")


@dataclass(frozen=True, slots=True)
class Trait:
    """One named value; `part` is what it belongs to."""

    part: str
    value: str
    weight: int


def traits(facts: Facts) -> dict[str, Trait]:
    """What the machine is, by name; a value that nobody could read is left out."""
    found: dict[str, Trait] = {}
    for name, part, value, weight in _all(facts):
        if value is not None and value != "":
            found[name] = Trait(part, _shown(value), weight)
    return found


Row = tuple[str, str, object, int]


def _all(facts: Facts) -> Iterator[Row]:
    snapshot = facts.snapshot
    for gpu in snapshot.gpus:
        yield from _gpu(gpu)
    if facts.machine is not None:
        yield from _machine(facts.machine)
    yield "driver", "driver", snapshot.driver.version, VERSION
    if snapshot.libraries:
        first = snapshot.libraries[0]
        yield "NCCL that is found first", "library", f"{first.version or 'unknown'} by {first.found_by}", VERSION
    for name, setting in facts.settings.items():
        personal = any(word in name for word in _PERSONAL) and not name.startswith("NCCL_")
        yield f"{name}", "setting", setting.value, DETAIL if personal else SETTING
    yield from _host(facts)


def _gpu(gpu: GpuState) -> Iterator[Row]:
    who = f"GPU{gpu.index}"
    yield f"{who} product", who, gpu.name, VERSION
    yield f"{who} PCIe link", who, _link(gpu.pcie), LINK
    yield f"{who} NVLinks", who, sum(each.count for each in gpu.nvlinks), FAULT
    yield f"{who} NVLinks that are inactive", who, gpu.nvlinks_inactive, FAULT
    yield f"{who} NVLink errors", who, _some(gpu.nvlink_errors), LINK
    yield f"{who} uncorrected memory errors", who, _some(gpu.ecc_uncorrected), FAULT
    yield f"{who} row remapping failed", who, gpu.row_remap_failed, FAULT
    yield f"{who} row remapping pending", who, gpu.row_remap_pending, FAULT
    yield (
        f"{who} clock held down by",
        who,
        ", ".join(each for each in gpu.slowdowns if each != "idle") or "nothing",
        FAULT,
    )
    yield f"{who} power limit", who, _unit(gpu.power_limit_W, "W"), LIMIT
    yield f"{who} application clock", who, _unit(gpu.application_clock_MHz, "MHz"), LIMIT
    yield f"{who} highest clock", who, _unit(gpu.max_sm_clock_MHz, "MHz"), LIMIT
    yield f"{who} MIG", who, gpu.mig, LIMIT
    yield f"{who} compute mode", who, gpu.compute_mode, LIMIT
    yield f"{who} ECC", who, gpu.ecc, LIMIT
    yield f"{who} ECC after a reset", who, gpu.ecc_pending, SETTING
    yield f"{who} persistence mode", who, gpu.persistence, SETTING
    yield f"{who} VBIOS", who, gpu.vbios, VERSION
    yield f"{who} NUMA node", who, gpu.numa, HOST
    yield f"{who} other programs", who, bool(gpu.processes), LIMIT
    yield f"{who} temperature", who, _band(gpu.temperature_C, 20, "C"), DETAIL


def _machine(machine: Machine) -> Iterator[Row]:
    yield "GPUs", "machine", len(machine.gpus), FAULT
    yield "NUMA nodes", "machine", len(machine.numa_nodes), HOST
    yield "RDMA devices", "network", len([nic for nic in machine.nics if nic.rdma]), FAULT
    yield "network interfaces", "network", len([nic for nic in machine.nics if not nic.rdma]), HOST
    kinds = Counter(each.text for each in machine.connections)
    yield "connections of pairs", "machine", ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())), LINK
    for nic in machine.nics:
        weight = LINK if nic.rdma else HOST
        yield f"{nic.name} is up", nic.name, nic.up, weight + 10
        yield f"{nic.name} rate", nic.name, _unit(nic.speed_Gbps, "Gb/s"), weight
        yield f"{nic.name} PCIe link", nic.name, _link(nic.pcie, at_rest=False), weight
        yield f"{nic.name} link layer", nic.name, nic.link_layer, weight
        yield f"{nic.name} GPU Direct RDMA", nic.name, nic.gdr, weight
        yield f"{nic.name} NUMA node", nic.name, nic.numa, HOST


def _host(facts: Facts) -> Iterator[Row]:
    host = facts.snapshot.host
    if host is None:
        return
    yield "IOMMU", "host", host.iommu or "none seen", LINK
    yield "bridges with access control (ACS)", "host", len(host.acs_redirects), LINK
    yield "GPU Direct RDMA module", "host", host.peer_memory, LINK
    yield "/dev/shm", "host", _band(host.shm_total_MiB, 2048, "MiB"), HOST
    yield "locked memory limit", "host", _unit(host.memlock_KiB, "KiB") or "unlimited", HOST
    yield "processors", "host", len(host.online_cpus), HOST
    yield "NUMA balancing", "host", host.numa_balancing, HOST
    yield "in a container", "host", host.container, DETAIL
    yield "busy processors", "host", _busy(host.busy_cpus.values()), HOST
    for name, value in host.facts.items():
        device, _, what = name.partition(" ")
        yield name, device if what in OF_DEVICES else "host", value, weight_of(name)


def _busy(shares: Collection[float]) -> str | None:
    """Roughly how many processors other programs keep busy: a look of a moment says no more."""
    if not shares:
        return None
    part = sum(share > 0.5 for share in shares) / len(shares)
    return "hardly any" if part < 0.05 else "some" if part < 0.3 else "many"


def _link(link: PcieLink, *, at_rest: bool = True) -> str | None:
    # A GPU at rest lowers its generation: the width and what both could do at most tell more.
    if link.width is None and link.max_width is None:
        return None
    most = f"generation {link.max_generation} x{link.max_width}"
    return f"x{link.width} of {most}" if at_rest else f"generation {link.generation} x{link.width} of {most}"


def _some(count: int | None) -> str | None:
    return None if count is None else ("some" if count else "none")


def _unit(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:g} {unit}"


def _band(value: float | None, step: float, unit: str) -> str | None:
    if value is not None and 0 < value < step / 2:
        return f"{value:g} {unit}"
    return None if value is None else f"about {round(value / step) * step:g} {unit}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)[:200]
