"""Takes a snapshot of this host: the only file of the doctor that reads /proc, /sys, limits and the clock."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from busbw.base import files
from busbw.base.errors import UserError
from busbw.doctor.host.acting_files import acting_files
from busbw.doctor.host.host_attributes import host_attributes
from busbw.doctor.host.host_devices import host_devices
from busbw.doctor.host.host_facts import host_facts
from busbw.doctor.host.libraries import find_libraries
from busbw.doctor.reading.snapshot import HostState, ProcessState, Snapshot, TextFile
from busbw.importers.context import is_kept
from busbw.machine.nccl.conf import USER_CONF, ConfFile, Version, common, conf_paths, in_force, of_two_homes, read_conf
from busbw.machine.topology.cpulist import read_list
from busbw.machine.topology.gpu_state import GpuState
from busbw.machine.topology.live import Reading, command_output, read_live
from busbw.machine.topology.lspci import read_lspci
from busbw.machine.topology.sysfs import read_word

VIRTUAL_TOPOLOGY = "/var/run/nvidia-topologyd/virtualTopology.xml"
"""Read by NCCL where NCCL_TOPO_FILE is not set (src/graph/topo.cc)."""

MAX_TEXT = 32 << 20
LOOK_S = 0.25
SETTLE_S = 1.2


def collect(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> Snapshot:
    """This host as it is now. What cannot be read is left out and noted."""
    reading = _settled(read_live(root), root)
    environment = {name: value for name, value in environ.items() if is_kept(name)}
    libraries = find_libraries(environ)
    nccl = common(each.version for each in libraries)
    confs = conf_files(environ, root, nccl)
    homes = of_two_homes(environ, nccl) if any(each.path.endswith(f"/{USER_CONF}") for each in confs) else None
    settings = in_force(environment, _read(confs))
    graph, topology = settings.get("NCCL_GRAPH_FILE"), settings.get("NCCL_TOPO_FILE")
    topology_path = topology.value if topology else VIRTUAL_TOPOLOGY
    topology_text = read_text(topology_path, root) if topology or (root / topology_path[1:]).exists() else None
    return Snapshot(
        source="this machine",
        live=True,
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        machine=reading.machine,
        gpus=reading.gpus,
        driver=reading.driver,
        environment=environment,
        confs=confs,
        topology=topology_text,
        graph=read_text(graph.value, root) if graph and graph.value else None,
        host=host_state(root, environ),
        processes=processes(reading.gpus, root),
        libraries=libraries,
        notes=(homes,) if homes else (),
    )


def _settled(first: Reading, root: Path) -> Reading:
    """A second look where a GPU was busy without a process: NVML's load is that of the last second, and may be ours."""
    if any((gpu.utilisation_percent or 0) > 0 and not gpu.processes for gpu in first.gpus):
        time.sleep(SETTLE_S)
        return read_live(root)
    return first


def conf_files(
    environ: Mapping[str, str], root: Path = Path("/"), version: Version | None = None
) -> tuple[TextFile, ...]:
    """The conf files that exist, in the order in which NCCL reads them."""
    return tuple(read_text(path, root) for path in conf_paths(environ, version) if _inside(root, path).exists())


def _read(confs: Sequence[TextFile]) -> list[ConfFile]:
    return [read_conf(each.text, each.path) for each in confs if each.text is not None]


def read_text(path: str, root: Path = Path("/")) -> TextFile:
    """A text file up to 32 MiB."""
    try:
        return TextFile(path, files.read_start(_inside(root, path), MAX_TEXT).decode("utf-8", "replace"))
    except UserError as problem:
        # Whoever shows it names the file, and not where it was read from.
        return TextFile(path, None, str(problem).rpartition(" cannot be read: ")[2])


def host_state(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> HostState:
    """Processors, shared memory, IOMMU, access control, limits."""
    total, free = _shared_memory(root / "dev/shm")
    by_conf = {name: each.value for name, each in in_force({}, _read(conf_files(environ, root))).items()}
    acting = acting_files(environ, root, by_conf)
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    balancing = read_word(root / "proc/sys/kernel/numa_balancing")
    return HostState(
        online_cpus=read_list(read_word(root / "sys/devices/system/cpu/online") or ""),
        busy_cpus=_busy(root / "proc/stat"),
        shm_total_MiB=total,
        shm_free_MiB=free,
        iommu=_iommu(root),
        acs_redirects=_acs(),
        peer_memory=_peer_memory(root),
        memlock_KiB=None if soft == resource.RLIM_INFINITY else soft / 1024,
        container=(root / ".dockerenv").exists() or (root / "run/.containerenv").exists(),
        numa_balancing=None if balancing is None else balancing == "1",
        # What is known by name stands over what was found in a folder.
        facts={**host_attributes(root), **host_devices(root), **acting, **host_facts(root)},
    )


def processes(gpus: Sequence[GpuState], root: Path = Path("/")) -> tuple[ProcessState, ...]:
    """busbw itself first, then every process that has a GPU open and that this host can see."""
    using: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for gpu in gpus:
        for each in gpu.processes:
            using.setdefault(each.pid, []).append(gpu.index)
            names[each.pid] = each.name or "?"
    mine = ProcessState(os.getpid(), "busbw", (), tuple(sorted(os.sched_getaffinity(0))))
    found = [mine]
    for pid, indices in sorted(using.items()):
        status = read_word(root / f"proc/{pid}/status")
        allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", status or "", re.MULTILINE)
        found.append(ProcessState(pid, names[pid], tuple(indices), read_list(allowed[1]) if allowed else ()))
    return tuple(found)


def _inside(root: Path, path: str) -> Path:
    return root / path.lstrip("/") if path.startswith("/") else Path(path)


def _shared_memory(folder: Path) -> tuple[float | None, float | None]:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None, None
    return found.f_blocks * found.f_frsize / (1 << 20), found.f_bavail * found.f_frsize / (1 << 20)


def _busy(stat: Path) -> dict[str, float]:
    """Busy share of every processor over LOOK_S."""
    before = _ticks(stat)
    time.sleep(LOOK_S)
    after = _ticks(stat)
    shares = {}
    for cpu, (busy, total) in after.items():
        earlier = before.get(cpu, (0, 0))
        if total > earlier[1]:
            shares[cpu] = round((busy - earlier[0]) / (total - earlier[1]), 3)
    return shares


def _ticks(stat: Path) -> dict[str, tuple[int, int]]:
    try:
        text = stat.read_text(encoding="ascii", errors="replace")
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        if re.match(r"cpu\d", line):
            name, *numbers = line.split()
            values = [int(each) for each in numbers[:8]]
            idle = sum(values[3:5])
            found[name[3:]] = (sum(values) - idle, sum(values))
    return found


def _iommu(root: Path) -> str | None:
    """How the IOMMU treats GPUs; "identity" where any group passes through, "translated" where all are mapped."""
    types = []
    try:
        groups = sorted((root / "sys/kernel/iommu_groups").iterdir())[:4096]
    except OSError:
        return None
    for group in groups:
        try:
            devices = sorted((group / "devices").iterdir())[:64]
        except OSError:
            continue
        classes = [read_word(device / "class") or "" for device in devices]
        if any(each.startswith(("0x0302", "0x0300")) for each in classes):
            types.append(read_word(group / "type") or "")
    if not types:
        return None
    return "identity" if all(each == "identity" for each in types) else "translated"


def _acs() -> tuple[str, ...]:
    """Bridges with redirecting access control; lspci shows it to root only."""
    output = command_output(("lspci", "-vvv"))
    if not output:
        return ()
    try:
        devices = read_lspci(output.decode("utf-8", "replace"), "lspci -vvv")
    except UserError:
        return ()
    return tuple(each.bus_id for each in devices if each.redirects and "bridge" in each.kind)


def _peer_memory(root: Path) -> bool | None:
    """Whether a NIC may reach GPU memory: nvidia_peermem, or DMA-BUF of the open kernel modules."""
    try:
        names = {line.split()[0] for line in (root / "proc/modules").read_text(errors="replace").splitlines() if line}
    except OSError:
        return None
    open_modules = "Open Kernel Module" in (read_word(root / "proc/driver/nvidia/version") or "")
    return bool(names & {"nvidia_peermem", "nv_peer_mem"}) or open_modules
