"""Two hosts that differ below NCCL: the planted difference is named first, between those that equal machines show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.doctor.facts import gather
from busbw.doctor.host.collect import host_state
from busbw.doctor.reading.snapshot import Snapshot
from busbw.doctor.side_by_side import compare
from busbw.machine.topology.gpu_state import Driver
from busbw.machine.topology.model import PcieLink

from .cases import healthy, machine, state
from .test_collect import put

FILES = {
    "/sys/class/dmi/id/bios_version": "2.10.1",
    "/sys/class/dmi/id/bios_date": "03/14/2026",
    "/sys/class/dmi/id/product_name": "SYS-821GE",
    "/proc/sys/kernel/osrelease": "6.8.0-60-generic",
    "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=1-2 ro iommu=pt pci=realloc",
    "/etc/os-release": 'PRETTY_NAME="Ubuntu 24.04"',
    "/proc/cpuinfo": "processor : 0\nmodel name\t: Xeon 8480\nmicrocode\t: 0x2b\n",
    "/sys/devices/system/cpu/smt/active": "1",
    "/sys/devices/system/cpu/intel_pstate/no_turbo": "0",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq": "3800000",
    "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance",
    "/sys/devices/system/cpu/cpu0/cpuidle/state0/name": "POLL",
    "/sys/devices/system/cpu/cpu0/cpuidle/state0/disable": "0",
    "/sys/devices/system/cpu/cpu0/cpuidle/state1/name": "C1E",
    "/sys/devices/system/cpu/cpu0/cpuidle/state1/disable": "0",
    "/sys/devices/system/cpu/cpu0/cpuidle/state2/name": "C6",
    "/sys/devices/system/cpu/cpu0/cpuidle/state2/disable": "1",
    "/proc/meminfo": "MemTotal:       2113533440 kB\nSwapTotal:             0 kB\n",
    "/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       1056766720 kB\n",
    "/sys/devices/system/node/node1/meminfo": "Node 1 MemTotal:       1056766720 kB\n",
    "/sys/devices/system/node/node0/cpulist": "0-55",
    "/sys/devices/system/node/node1/cpulist": "56-111",
    "/sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    "/proc/sys/vm/nr_hugepages": "0",
    "/proc/sys/kernel/numa_balancing": "0",
    "/proc/sys/vm/zone_reclaim_mode": "0",
    "/proc/sys/net/core/rmem_max": "212992",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc",
    "/sys/module/pcie_aspm/parameters/policy": "default [performance] powersave powersupersave",
    "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.1",
    "/proc/driver/nvidia/params": 'EnableMSI: 1\nEnableStreamMemOPs: 0\nRegistryDwords: ""\n',
    "/sys/module/mlx5_core/version": "24.10-1.1.4",
    "/sys/module/gdrdrv/version": "2.5",
    "/sys/class/infiniband/mlx5_0/fw_ver": "28.43.2026",
    "/sys/class/infiniband/mlx5_0/board_id": "MT_0000000838",
    "/sys/class/infiniband/mlx5_0/tc/1/traffic_class": "106",
    "/sys/class/infiniband/mlx5_0/device/numa_node": "0",
    "/sys/class/infiniband/mlx5_0/device/net/eth2/mtu": "9000",
    "/sys/class/infiniband/mlx5_0/device/msi_irqs/88": "msix",
    "/proc/irq/88/smp_affinity_list": "3",
    "/etc/tuned/active_profile": "throughput-performance",
    "/sys/fs/cgroup/cpu.max": "max 100000",
    "/sys/fs/cgroup/memory.max": "max",
}

PLANTED: dict[str, tuple[str, str, str]] = {
    "an older BIOS": ("/sys/class/dmi/id/bios_version", "1.4.2", "BIOS"),
    "another board": ("/sys/class/dmi/id/product_name", "SYS-820GP", "machine product"),
    "another kernel": ("/proc/sys/kernel/osrelease", "5.15.0-25-generic", "kernel"),
    "the kernel without iommu=pt": (
        "/proc/cmdline",
        "BOOT_IMAGE=/vmlinuz root=UUID=3-4 ro pci=realloc",
        "kernel command line",
    ),
    "processors kept from programs": (
        "/proc/cmdline",
        "ro iommu=pt pci=realloc isolcpus=2-111 nohz_full=2-111",
        "kernel command line",
    ),
    "another microcode": ("/proc/cpuinfo", "model name\t: Xeon 8480\nmicrocode\t: 0x1\n", "processor microcode"),
    "a slow governor": ("/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave", "clock governor"),
    "a capped processor clock": (
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
        "2000000",
        "highest processor clock",
    ),
    "no turbo": ("/sys/devices/system/cpu/intel_pstate/no_turbo", "1", "turbo"),
    "deep sleep": ("/sys/devices/system/cpu/cpu0/cpuidle/state2/disable", "0", "deepest idle state"),
    "no hyper-threading": ("/sys/devices/system/cpu/smt/active", "0", "hyper-threading"),
    "a memory module that is missing": ("/proc/meminfo", "MemTotal: 2045533440 kB\nSwapTotal: 0 kB\n", "memory"),
    "a node with less memory": (
        "/sys/devices/system/node/node1/meminfo",
        "Node 1 MemTotal: 990766720 kB\n",
        "memory of NUMA nodes",
    ),
    "huge pages kept back": ("/proc/sys/vm/nr_hugepages", "400000", "vm.nr_hugepages"),
    "no transparent huge pages": (
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "always madvise [never]",
        "transparent huge pages",
    ),
    "memory moved by the kernel": ("/proc/sys/kernel/numa_balancing", "1", "NUMA balancing"),
    "memory reclaimed early": ("/proc/sys/vm/zone_reclaim_mode", "1", "vm.zone_reclaim_mode"),
    "small socket buffers": ("/proc/sys/net/core/rmem_max", "65536", "net.core.rmem_max"),
    "a slow clock source": ("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet", "clock source"),
    "links that sleep": (
        "/sys/module/pcie_aspm/parameters/policy",
        "default performance [powersave] powersupersave",
        "PCIe power saving",
    ),
    "the closed module": (
        "/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.1",
        "NVIDIA module",
    ),
    "a setting of the module": (
        "/proc/driver/nvidia/params",
        'EnableMSI: 1\nEnableStreamMemOPs: 0\nRegistryDwords: "RMForceP2P=0"\n',
        "NVreg_RegistryDwords",
    ),
    "older drivers of NICs": ("/sys/module/mlx5_core/version", "5.8-3.0.7", "module mlx5_core"),
    "older firmware of a NIC": ("/sys/class/infiniband/mlx5_0/fw_ver", "28.33.1000", "mlx5_0 firmware"),
    "a small MTU": ("/sys/class/infiniband/mlx5_0/device/net/eth2/mtu", "1500", "mlx5_0 MTU"),
    "another traffic class": ("/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "0", "mlx5_0 traffic class"),
    "interrupts on the other node": ("/proc/irq/88/smp_affinity_list", "60", "mlx5_0 interrupts"),
    "another profile of tuned": ("/etc/tuned/active_profile", "powersave", "tuned profile"),
    "a container with few processors": (
        "/sys/fs/cgroup/cpu.max",
        "800000 100000",
        "processors that the container may use",
    ),
    "a container with little memory": ("/sys/fs/cgroup/memory.max", "68719476736", "memory that the container may use"),
    "another runtime": ("/run/.containerenv", "", "container"),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.doctor.host.collect.LOOK_S", 0.0)


def snapshot(root: Path, number: int, planted: tuple[str, str, str] | None = None) -> Snapshot:
    """A host of a fleet: what differs between equal ones differs here too."""
    files = {**FILES, "/proc/cmdline": FILES["/proc/cmdline"].replace("1-2", str(number))}
    files["/proc/meminfo"] = FILES["/proc/meminfo"].replace("533440", f"{531440 + number}")
    files["/proc/irq/88/smp_affinity_list"] = str(number % 50)
    if planted is not None:
        files[planted[0]] = planted[1]
    for path, text in files.items():
        put(root, path, text)
    warm = tuple(state(i, temperature_C=30.0 + 25 * (number % 2)) for i in range(4))
    environment = {"SLURM_JOB_ID": str(number), "RANK": str(number)}
    return healthy(
        host=replace(host_state(root), busy_cpus={}, shm_total_MiB=64000.0, shm_free_MiB=63000.0), gpus=warm,
        environment=environment, driver=Driver("570.1", "nvml"),
    )  # fmt: skip


def test_equal_hosts_of_a_fleet_differ_in_small_print_alone(tmp_path: Path) -> None:
    found = compare({str(i): gather(snapshot(tmp_path / str(i), i)) for i in range(5)})
    assert found.outlier is None
    assert all(each.weight <= 10 for each in found.differences), [each.name for each in found.differences]


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_difference_of_hosts_is_named_first_and_its_machine_too(name: str, tmp_path: Path) -> None:
    good, bad = snapshot(tmp_path / "a", 1), snapshot(tmp_path / "b", 2, PLANTED[name])
    named = [each.name for each in compare({"a": gather(good), "b": gather(bad)}).differences]
    named = [each for each in named if not each.startswith("finding ")]
    assert named[0] == PLANTED[name][2] or (PLANTED[name][2] in named[:2] and named[0] == "in a container"), named[:4]
    fleet = {str(i): gather(snapshot(tmp_path / str(i), i)) for i in range(4)}
    found = compare({**fleet, "odd": gather(bad)})
    assert found.outlier == "odd", [(each.name, each.alone) for each in found.differences]


def gpus(index: int | None, **changes: Any) -> Callable[[Snapshot], Snapshot]:
    """These fields of one GPU, or of all."""
    return lambda each: replace(
        each, gpus=tuple(replace(gpu, **changes) if index in (None, gpu.index) else gpu for gpu in each.gpus)
    )


def nic(**changes: Any) -> Callable[[Snapshot], Snapshot]:
    """These fields of the second RDMA device."""
    made = machine()
    nics = tuple(replace(each, **changes) if each.name == "mlx5_1" else each for each in made.nics)
    return lambda each: replace(each, machine=replace(made, nics=nics))


CHANGES: dict[str, tuple[Callable[[Snapshot], Snapshot], str]] = {
    "ECC off": (gpus(2, ecc=False), "GPU2 ECC"),
    "ECC pending": (gpus(2, ecc_pending=False), "GPU2 ECC after a reset"),
    "persistence": (gpus(1, persistence=False), "GPU1 persistence mode"),
    "VBIOS": (gpus(3, vbios="96.0"), "GPU3 VBIOS"),
    "application clock": (gpus(None, application_clock_MHz=1200.0), "GPU0 application clock"),
    "width of a NIC": (nic(pcie=PcieLink(5, 8, 5, 16)), "mlx5_1 PCIe link"),
    "speed of a NIC": (nic(pcie=PcieLink(3, 16, 5, 16)), "mlx5_1 PCIe link"),
    "rate of a port": (nic(speed_Gbps=100.0), "mlx5_1 rate"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_planted_difference_of_devices_is_named_first(name: str, tmp_path: Path) -> None:
    change, wanted = CHANGES[name]
    known = tuple(state(i, ecc=True, ecc_pending=True, persistence=True, vbios="97.0") for i in range(4))
    good = replace(snapshot(tmp_path, 2), gpus=known)
    named = [each.name for each in compare({"a": gather(good), "b": gather(change(good))}).differences]
    assert next(each for each in named if not each.startswith("finding ")) == wanted, named[:4]


MORE: dict[str, tuple[str, str, str]] = {
    "swap": ("/proc/meminfo", "MemTotal: 2113531440 kB\nSwapTotal: 8388604 kB\n", "swap"),
    "a set of processors": ("/sys/fs/cgroup/cpuset.cpus.effective", "0-7", "processors of the container's set"),
    "another congestion control": (
        "/proc/sys/net/ipv4/tcp_congestion_control",
        "cubic",
        "net.ipv4.tcp_congestion_control",
    ),
    "few ports": ("/proc/sys/net/ipv4/ip_local_port_range", "61000 61100", "net.ipv4.ip_local_port_range"),
    "large pages": ("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "512", "huge pages of 1048576kB"),
    "merged pages": ("/sys/kernel/mm/ksm/run", "1", "merging of equal pages (KSM)"),
    "strict unmapping": ("/sys/module/iommu/parameters/strict", "1", "module iommu strict"),
    "another NVSwitch driver": ("/proc/driver/nvidia-nvswitch/version", "570.2", "NVSwitch driver"),
    "a locked kernel": ("/sys/kernel/security/lockdown", "none integrity [confidentiality]", "lockdown"),
    "little time for programs": ("/proc/sys/kernel/sched_rt_runtime_us", "1000", "kernel.sched_rt_runtime_us"),
}


@pytest.mark.parametrize("name", MORE)
def test_what_one_host_has_and_the_other_lacks_stands_before_small_print(name: str, tmp_path: Path) -> None:
    found = compare({"a": gather(snapshot(tmp_path / "a", 1)), "b": gather(snapshot(tmp_path / "b", 2, MORE[name]))})
    assert found.differences[0].name == MORE[name][2] and found.differences[0].weight > 10


def test_interrupts_that_one_processor_serves_alone_are_told(tmp_path: Path) -> None:
    for number in range(90, 96):
        put(tmp_path, f"/sys/class/infiniband/mlx5_0/device/msi_irqs/{number}", "msix")
        put(tmp_path, f"/proc/irq/{number}/smp_affinity_list", "0")
    made = snapshot(tmp_path, 0).host
    assert made is not None and made.facts["mlx5_0 interrupts"] == "all on one processor"


def test_no_disk_address_or_name_of_the_kernels_line_goes_into_a_bundle(tmp_path: Path) -> None:
    put(tmp_path, "/proc/cmdline", "root=UUID=5f-1 ip=10.1.2.3::gw:node7 rd.luks.key=abc iommu=pt nfsroot=srv:/x\n")
    assert host_state(tmp_path).facts["kernel command line"] == "iommu=pt"
