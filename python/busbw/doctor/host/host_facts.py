"""What two equal machines should share below NCCL: firmware, kernel, limits, memory, clocks, interrupts, container.

Each fact is a short text that says the same on equal machines. Nothing here names a host, a disk, a user or an address.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from busbw.doctor.host import host_attributes, host_devices
from busbw.machine.topology.cpulist import read_list
from busbw.machine.topology.sysfs import read_word

MOST = 512
"""Files that are looked through in one folder."""
_LENGTH = 200
_FEW = 3

# Of the kernel's command line: what bears on buses, memory, processors and clocks. Others may name disks and addresses.
_WORDS = re.compile(
    r"(?:(?:intel_|amd_)?iommu(?:\.\w+)?|pci|pcie_\w+|nvidia\S*?|mlx5_core\.\w+|numa_balancing|hugepages|hugepagesz"
    r"|default_hugepagesz|transparent_hugepage|isolcpus|nohz_full|rcu_nocbs|irqaffinity|mitigations|nosmt|maxcpus"
    r"|processor\.max_cstate|intel_idle\.max_cstate|intel_pstate|amd_pstate|idle|tsc|clocksource|selinux|cgroup_\w+"
    r"|systemd\.unified_cgroup_hierarchy|swiotlb|mem|movable_node|init_on_alloc|preempt|skew_tick|nmi_watchdog"
    r"|audit|rd\.driver\.blacklist|modprobe\.blacklist)(?:=\S{0,120})?"
)
# Folders of /proc/sys of which every value is one, but those that follow from the memory or change by themselves.
_SYSCTLS = (
    "vm/*",
    "net/core/*",
    "net/ipv4/tcp_*",
    "net/ipv4/ip_local*",
    "net/ipv4/conf/all/*",
    "kernel/sched_*",
    "kernel/numa_*",
    "kernel/perf_*",
    "kernel/nmi_watchdog",
    "kernel/watchdog*",
    "kernel/pid_max",
)
_OF_ITSELF = re.compile(
    r".*(?:_mem|min_free_kbytes|reserve_kbytes|lowmem_reserve_ratio|stat_refresh|drop_caches|compact_memory|_pages_mempolicy"
    r"|optmem_max|max_user_|_bytes|default_qdisc|rps_|flow_limit|netdev_rss_key|bpf_jit_limit|fastopen_key)"
)
_WITH_SETTINGS = (
    "nvidia",
    "nvidia_uvm",
    "nvidia_peermem",
    "mlx5_core",
    "mlx5_ib",
    "ib_core",
    "ib_uverbs",
    "rdma_cm",
    "gdrdrv",
    "efa",
    "bnxt_re",
    "irdma",
    "iommu",
    "intel_idle",
    "processor",
    "kvm_intel",
    "kvm_amd",
)
_NO_SETTING = re.compile(r"DeviceFile\w+|ModifyDeviceFiles|AssignGpus")
_DRIVERS = ("mlx5_core", "mlx5_ib", "efa", "bnxt_re", "irdma", "ionic_rdma", "nvidia_peermem", "gdrdrv")


def host_facts(root: Path = Path("/")) -> dict[str, str]:
    """Every fact that can be read, by its name."""
    found: dict[str, str] = {}
    for name, value in _all(root):
        if value:
            found[name] = value[:_LENGTH]
    return found


Rows = Iterator[tuple[str, str | None]]


def _all(root: Path) -> Rows:
    yield from _firmware(root)
    yield from _kernel(root)
    yield from _processors(root)
    yield from _memory(root)
    yield from _modules(root)
    yield from _adapters(root)
    yield from _container(root)
    yield from _limits()


def _firmware(root: Path) -> Rows:
    dmi = root / "sys/class/dmi/id"
    version, date = read_word(dmi / "bios_version"), read_word(dmi / "bios_date")
    yield "BIOS", f"{version} of {date}" if version and date else version
    yield "machine product", read_word(dmi / "product_name")
    text = read_word(root / "proc/cpuinfo") or ""
    for name, key in (("processor model", "model name"), ("processor microcode", "microcode")):
        yield name, _match(rf"^{key}\s*: (.+)$", text)


def _kernel(root: Path) -> Rows:
    yield "kernel", read_word(root / "proc/sys/kernel/osrelease")
    line = read_word(root / "proc/cmdline") or ""
    words = sorted(word for word in line.split() if _WORDS.fullmatch(word))
    yield "kernel command line", (" ".join(words) or "nothing that matters here") if line else None
    yield "system", _match(r'^PRETTY_NAME="?([^"\n]+)', read_word(root / "etc/os-release") or "")
    yield "tuned profile", read_word(root / "etc/tuned/active_profile")
    yield "clock source", read_word(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    yield "PCIe power saving", _chosen(read_word(root / "sys/module/pcie_aspm/parameters/policy"))
    yield "lockdown", _chosen(read_word(root / "sys/kernel/security/lockdown"))
    folder = root / "proc/sys"
    for pattern in _SYSCTLS:
        for each in _entries(folder, pattern):
            if not _OF_ITSELF.fullmatch(each.name) and each.is_file():
                yield ".".join(each.relative_to(folder).parts), " ".join((read_word(each) or "").split())


def _processors(root: Path) -> Rows:
    cpu = root / "sys/devices/system/cpu"
    yield "hyper-threading", _yes(read_word(cpu / "smt/active"))
    governors = {read_word(each / "cpufreq/scaling_governor") for each in _entries(cpu, "cpu[0-9]*")} - {None}
    yield "clock governor", ", ".join(sorted(each for each in governors if each))
    highest = {read_word(each / "cpufreq/scaling_max_freq") for each in _entries(cpu, "cpu[0-9]*")} - {None}
    yield (
        "highest processor clock",
        ", ".join(sorted(f"{int(each) // 1000} MHz" for each in highest if each and each.isdecimal())),
    )
    no_turbo, boost = read_word(cpu / "intel_pstate/no_turbo"), read_word(cpu / "cpufreq/boost")
    yield "turbo", _yes(boost) if no_turbo is None else _yes("0" if no_turbo == "1" else "1")
    states = [
        read_word(each / "name") or "?"
        for each in sorted(_entries(cpu / "cpu0/cpuidle", "state[0-9]*"), key=lambda path: (len(path.name), path.name))
        if read_word(each / "disable") == "0"
    ]
    yield "deepest idle state", states[-1] if states else None


def _memory(root: Path) -> Rows:
    text = read_word(root / "proc/meminfo") or ""
    yield "memory", _about(_match(r"^MemTotal:\s+(\d+) kB", text))
    swap = _match(r"^SwapTotal:\s+(\d+) kB", text)
    yield "swap", None if swap is None else "none" if swap == "0" else "some"
    nodes = [
        _about(_match(r"MemTotal:\s+(\d+) kB", read_word(each / "meminfo") or "")) or "none"
        for each in sorted(
            _entries(root / "sys/devices/system/node", "node[0-9]*"), key=lambda path: (len(path.name), path.name)
        )
    ]
    yield "memory of NUMA nodes", ", ".join(nodes)
    pages = root / "sys/kernel/mm/transparent_hugepage"
    yield "transparent huge pages", _chosen(read_word(pages / "enabled"))
    yield "defragmentation for huge pages", _chosen(read_word(pages / "defrag"))
    for each in _entries(root / "sys/kernel/mm/hugepages", "hugepages-*"):
        yield f"huge pages of {each.name.removeprefix('hugepages-')}", read_word(each / "nr_hugepages")
    yield "merging of equal pages (KSM)", _yes(read_word(root / "sys/kernel/mm/ksm/run"))


def _modules(root: Path) -> Rows:
    text = read_word(root / "proc/driver/nvidia/version") or ""
    yield "NVIDIA module", ("open" if "Open Kernel Module" in text else "proprietary") if text else None
    settings = read_word(root / "proc/driver/nvidia/params") or ""
    for name, value in re.findall(r"^(\w{1,60}): (.+)$", settings, re.MULTILINE):
        if not _NO_SETTING.fullmatch(name):
            yield f"NVreg_{name}", value
    yield "NVSwitch driver", read_word(root / "proc/driver/nvidia-nvswitch/version")
    for name in _DRIVERS:
        folder = root / "sys/module" / name
        there = "loaded" if folder.is_dir() else "not loaded" if folder.parent.is_dir() else None
        yield f"module {name}", read_word(folder / "version") or there
    for name in _WITH_SETTINGS:
        for each in _entries(root / "sys/module" / name / "parameters", "*"):
            yield f"module {name} {each.name}", read_word(each)


def _adapters(root: Path) -> Rows:
    """Firmware, MTU, traffic class and where the interrupts of each RDMA device go."""
    for each in _entries(root / "sys/class/infiniband", "*"):
        yield f"{each.name} firmware", read_word(each / "fw_ver")
        yield f"{each.name} board", read_word(each / "board_id")
        yield f"{each.name} traffic class", " ".join((read_word(each / "tc/1/traffic_class") or "").split())
        mtus = {read_word(net / "mtu") for net in _entries(each / "device/net", "*")} - {None}
        yield f"{each.name} MTU", ", ".join(sorted(mtu for mtu in mtus if mtu))
        yield f"{each.name} interrupts", _interrupts(root, each / "device")


def _interrupts(root: Path, device: Path) -> str | None:
    """Whether the processors that serve a device are those of its NUMA node: lists differ between equal machines."""
    node = read_word(device / "numa_node")
    near = set(read_list(read_word(root / f"sys/devices/system/node/node{node}/cpulist") or ""))
    seen = [
        set(read_list(allowed))
        for each in _entries(device / "msi_irqs", "[0-9]*")
        if (allowed := read_word(root / f"proc/irq/{each.name}/smp_affinity_list"))
    ]
    if not near or not seen:
        return None
    if len(seen) > _FEW and len(set[int]().union(*seen)) == 1:
        return "all on one processor"
    inside = sum(cpus <= near for cpus in seen) / len(seen)
    return (
        "on its NUMA node" if inside > 0.9 else "away from its NUMA node" if inside < 0.1 else "on several NUMA nodes"
    )


def _container(root: Path) -> Rows:
    kinds = (("run/.containerenv", "podman"), (".dockerenv", "docker"), ("run/secrets/kubernetes.io", "kubernetes"))
    kind = next((kind for path, kind in reversed(kinds) if (root / path).exists()), None)
    yield "container", kind or "none"
    group = root / "sys/fs/cgroup"
    quota = (read_word(group / "cpu.max") or "").split()
    if len(quota) == 2 and quota[0].isdecimal() and quota[1].isdecimal() and int(quota[1]):
        yield "processors that the container may use", f"{int(quota[0]) / int(quota[1]):g}"
    else:
        yield "processors that the container may use", "all" if quota else None
    limit = read_word(group / "memory.max")
    yield "memory that the container may use", _about(str(int(limit) // 1024)) if limit and limit.isdecimal() else limit
    cpus = read_list(read_word(group / "cpuset.cpus.effective") or "")
    yield "processors of the container's set", str(len(cpus)) if cpus else None


def _limits() -> Rows:
    for name, which in (
        ("open files limit", resource.RLIMIT_NOFILE), ("processes limit", resource.RLIMIT_NPROC),
        ("stack limit", resource.RLIMIT_STACK), ("core file limit", resource.RLIMIT_CORE),
    ):  # fmt: skip
        soft, _ = resource.getrlimit(which)
        yield name, "unlimited" if soft == resource.RLIM_INFINITY else str(soft)


def _entries(folder: Path, pattern: str) -> Sequence[Path]:
    try:
        return sorted(folder.glob(pattern))[:MOST]
    except OSError:
        return ()


def _match(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else None


def _chosen(text: str | None) -> str | None:
    """`always [madvise] never` as madvise."""
    return _match(r"\[([\w-]+)\]", text or "")


def _yes(word: str | None) -> str | None:
    return {"1": "yes", "0": "no"}.get(word or "")


def _about(kib: str | None) -> str | None:
    """Memory to a fiftieth: equal machines differ by what the firmware keeps."""
    if kib is None or not kib.isdecimal():
        return None
    gib = int(kib) / (1 << 20)
    step = next(each for each in (0.25, 1, 4, 16, 64, 256, 1024) if gib <= each * 50 or each == 1024)
    return f"about {round(gib / step) * step:g} GiB"


# How suspicious a difference in a fact is, by the beginning of its name: the longest that fits counts.
_LINKS, _LIMITS, _VERSIONS, _HOSTS, _SMALL = 80, 70, 50, 40, 10
WEIGHTS: Mapping[str, int] = {
    "": _HOSTS, "BIOS": _VERSIONS, "kernel": _VERSIONS, "kernel command line": 65, "machine product": _VERSIONS,
    "processor model": _VERSIONS, "clock governor": _LIMITS, "highest processor clock": _LIMITS, "turbo": _LIMITS,
    "clock source": _LIMITS, "deepest idle state": 60, "hyper-threading": 55, "memory": 60, "swap": 30,
    "PCIe power saving": 60, "NVIDIA module": 55, "NVreg_": 60, "module ": _VERSIONS, "module nvidia_peermem": _LINKS,
    "module gdrdrv": _HOSTS, "transparent huge pages": 45, "vm.": 45,
    "net.": _HOSTS, "kernel.": 30, "huge pages of": 45,
    "system": 45,
    "open files limit": 45, "processes limit": 45, "stack limit": 30, "core file limit": _SMALL, "container": 45,
    "processors that the container may use": _LINKS, "processors of the container's set": _LIMITS,
    "memory that the container may use": _LIMITS, **host_devices.WEIGHTS,
    **host_attributes.WEIGHTS,
}  # fmt: skip
OF_DEVICES: Mapping[str, int] = {
    "firmware": 62, "board": _VERSIONS, "traffic class": _LIMITS, "MTU": _LINKS, "interrupts": 62,
    **host_devices.OF_DEVICES, **host_attributes.OF_DEVICES,
}  # fmt: skip


def weight_of(name: str) -> int:
    """How suspicious a difference in that fact is."""
    what = name.partition(" ")[2]
    if what in OF_DEVICES and not name.startswith(tuple(each for each in WEIGHTS if each)):
        return OF_DEVICES[what]
    return WEIGHTS[max((each for each in WEIGHTS if name.startswith(each)), key=len)]
