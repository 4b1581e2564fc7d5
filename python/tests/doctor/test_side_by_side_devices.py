"""Two hosts whose devices, services or folders of settings differ: the planted difference is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.facts import gather
from busbw.doctor.host.collect import host_state
from busbw.doctor.host.host_attributes import host_attributes
from busbw.doctor.host.host_devices import host_devices
from busbw.doctor.reading.snapshot import Snapshot
from busbw.doctor.side_by_side import compare

from .test_collect import put

IB = "/sys/class/infiniband/mlx5_0"
PORT = f"{IB}/ports/1"
NET = "/sys/class/net/eth0"
GPU = "/sys/bus/pci/devices/0000:10:00.0"
CPU = "/sys/devices/system/cpu"
FILES = {
    f"{PORT}/pkeys/0": "0xffff",
    f"{PORT}/sm_lid": "0x1",
    f"{PORT}/state": "4: ACTIVE",
    f"{PORT}/phys_state": "5: LinkUp",
    f"{PORT}/link_layer": "InfiniBand",
    f"{PORT}/gid_attrs/types/0": "IB/RoCE v1",
    f"{PORT}/gid_attrs/types/1": "RoCE v2",
    f"{PORT}/gids/0": "fe80:0000:0000:0000:0000:0000:0000:0001",
    f"{PORT}/gids/1": "0000:0000:0000:0000:0000:ffff:0a00:0001",
    f"{PORT}/counters/symbol_error": "0",
    f"{PORT}/counters/link_downed": "1",
    f"{PORT}/counters/port_xmit_wait": "10",
    f"{PORT}/hw_counters/local_ack_timeout_err": "0",
    f"{PORT}/hw_counters/out_of_sequence": "7",
    f"{IB}/device/msi_irqs/1": "msix",
    f"{IB}/device/msi_irqs/2": "msix",
    f"{GPU}/class": "0x030200",
    f"{GPU}/vendor": "0x10de",
    f"{GPU}/aer_dev_correctable": "RxErr 0\nTOTAL_ERR_COR 0",
    f"{GPU}/aer_dev_fatal": "TOTAL_ERR_FATAL 0",
    f"{GPU}/power/control": "on",
    f"{GPU}/link/l1_aspm": "0",
    f"{GPU}/resource": "0x0000000000000000 0x0000001fffffffff 0x000000000014220c",
    "/proc/driver/nvidia/gpus/0000:10:00.0/information": "Model: \t H100\nGPU Firmware: \t 550.54.15",
    "/proc/driver/nvidia-fs/version": "version: 2.19",
    "/proc/10/comm": "nv-fabricmanage",
    "/proc/12/comm": "irqbalance",
    "/proc/13/comm": "chronyd",
    "/dev/infiniband/uverbs0": "",
    "/dev/gdrdrv": "",
    "/dev/nvidia-caps-imex-channels/channel0": "",
    "/sys/devices/system/edac/mc/mc0/ce_count": "0",
    f"{CPU}/vulnerabilities/mds": "Not affected",
    f"{CPU}/cpu0/thermal_throttle/package_throttle_count": "0",
    f"{CPU}/intel_uncore_frequency/package_00_die_00/max_freq_khz": "2500000",
    "/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw": "350000000",
    "/sys/fs/resctrl/schemata": "MB:0=100;1=100",
    "/proc/sys/net/ipv4/conf/eth0/rp_filter": "0",
    f"{NET}/threaded": "0",
    f"{NET}/tx_queue_len": "1000",
    f"{NET}/queues/rx-0/rps_cpus": "0",
    f"{NET}/queues/rx-1/rps_cpus": "0",
    f"{NET}/ecn/roce_np/enable/3": "1",
    "/sys/class/net/bond0/bonding/mode": "802.3ad 4",
    "/sys/class/net/bond0/bonding/slaves": "eth1 eth2",
    "/etc/hosts": "127.0.0.1 localhost\n10.0.0.4 node4",
    "/proc/sys/kernel/hostname": "node4",
    "/sys/fs/cgroup/pids.max": "max",
    "/sys/fs/cgroup/cpuset.mems.effective": "0-1",
    "/sys/fs/cgroup/cpu.weight": "100",
    "/proc/sys/kernel/tainted": "0",
    "/sys/fs/selinux/enforce": "0",
    "/etc/modprobe.d/nvidia.conf": "options nvidia NVreg_A=1",
    "/etc/ld.so.conf.d/cuda.conf": "/usr/local/cuda/lib64",
    "/proc/sys/kernel/yama/ptrace_scope": "1",
    "/proc/mounts": "tmpfs /dev/shm tmpfs rw,nosuid 0 0",
    "/proc/sys/fs/file-max": "999999",
    "/proc/sys/net/ipv6/conf/all/disable_ipv6": "0",
}
GONE = None
PLANTED: list[tuple[str, str | None, str]] = [
    (f"{PORT}/pkeys/0", "0x7fff", "mlx5_0 pkeys"),
    (f"{PORT}/gid_attrs/types/1", GONE, "mlx5_0 GID kinds"),
    (f"{PORT}/sm_lid", "0x0", "mlx5_0 subnet manager"),
    (f"{PORT}/counters/symbol_error", "123456", "mlx5_0 symbol errors"),
    (f"{PORT}/counters/link_downed", "9", "mlx5_0 times that the link was down"),
    (f"{PORT}/counters/port_xmit_wait", "99999999", "mlx5_0 congestion waits"),
    (f"{PORT}/hw_counters/local_ack_timeout_err", "5000", "mlx5_0 acknowledgement timeouts"),
    (f"{PORT}/hw_counters/out_of_sequence", "99999", "mlx5_0 packets out of sequence"),
    (f"{PORT}/gids/1", GONE, "mlx5_0 addresses (GIDs)"),
    (f"{IB}/device/msi_irqs/2", GONE, "mlx5_0 interrupts (number)"),
    (f"{GPU}/aer_dev_correctable", "RxErr 777\nTOTAL_ERR_COR 777", "PCIe GPUs with many corrected errors"),
    (f"{GPU}/power/control", "auto", "PCIe GPUs that may sleep"),
    (f"{GPU}/link/l1_aspm", "1", "PCIe GPUs with link power saving"),
    (f"{GPU}/resource", "0x0000000000000000 0x000000000fffffff 0x000000000014220c", "windows of GPUs (BAR)"),
    ("/proc/driver/nvidia/gpus/0000:10:00.0/information", "GPU Firmware: \t N/A", "GSP firmware"),
    ("/proc/driver/nvidia-fs/version", GONE, "GPUDirect Storage (nvidia-fs)"),
    ("/proc/10/comm", GONE, "program NVIDIA fabric manager"),
    ("/proc/12/comm", GONE, "program irqbalance"),
    ("/proc/13/comm", "ntpd", ""),
    ("/proc/13/comm", GONE, "program clock service"),
    ("/proc/20/comm", "nvidia-cuda-mps", "program CUDA MPS"),
    ("/dev/infiniband/uverbs0", GONE, "device file infiniband/uverbs*"),
    ("/dev/gdrdrv", GONE, "device file gdrdrv"),
    ("/dev/nvidia-caps-imex-channels/channel0", GONE, "device file nvidia-caps-imex-channels/*"),
    ("/sys/devices/system/edac/mc/mc0/ce_count", "4242", "corrected memory errors"),
    (f"{CPU}/vulnerabilities/mds", "Mitigation: Clear CPU buffers", "mitigation of mds"),
    (f"{CPU}/cpu0/thermal_throttle/package_throttle_count", "9000", "processors throttled by heat"),
    (f"{CPU}/intel_uncore_frequency/package_00_die_00/max_freq_khz", "1200000", "uncore clock"),
    ("/sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw", "150000000", "power limit of processors"),
    ("/sys/fs/resctrl/schemata", "MB:0=20;1=100", "shares of cache and memory bandwidth (resctrl)"),
    ("/proc/sys/net/ipv4/conf/eth0/rp_filter", "1", "eth0 rp_filter"),
    (f"{NET}/threaded", "1", "eth0 threaded"),
    (f"{NET}/tx_queue_len", "100", "eth0 tx_queue_len"),
    (f"{NET}/ecn/roce_np/enable/3", "0", "eth0 ECN"),
    ("/sys/class/net/bond0/bonding/mode", "active-backup 1", "bond0 bond"),
    ("/sys/class/net/bond0/bonding/slaves", "eth1", "bond0 bond partners"),
    ("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 node4", "own name in /etc/hosts"),
    ("/sys/fs/cgroup/pids.max", "512", "processes that the container may have"),
    ("/sys/fs/cgroup/cpuset.mems.effective", "0", "memory nodes of the container's set"),
    ("/sys/fs/cgroup/cpu.weight", "10", "cgroup cpu.weight"),
    ("/proc/sys/kernel/tainted", "4096", "kernel taint"),
    ("/sys/fs/selinux/enforce", "1", "SELinux"),
    ("/etc/modprobe.d/nvidia.conf", "options nvidia NVreg_A=0", "modprobe options nvidia"),
    ("/etc/ld.so.conf.d/cuda.conf", "/usr/local/cuda/compat", "library folders (ld.so.conf)"),
    ("/proc/sys/kernel/yama/ptrace_scope", "2", "kernel.yama.ptrace_scope"),
    ("/proc/mounts", "tmpfs /dev/shm tmpfs rw,noexec,nosuid 0 0", "mount of /dev/shm"),
    ("/proc/sys/fs/file-max", "1024", "fs.file-max"),
    ("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1", "net.ipv6.conf.all.disable_ipv6"),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busbw.doctor.host.collect.LOOK_S", 0.0)


def host(root: Path, planted: tuple[str, str | None, str] | None = None) -> Snapshot:
    files: dict[str, str | None] = dict(FILES)
    if planted is not None:
        files[planted[0]] = planted[1]
    for path, text in files.items():
        if text is not None:
            put(root, path, text + "\n")
    return Snapshot(source=root.name, host=host_state(root, {}))


@pytest.mark.parametrize("planted", PLANTED, ids=[f"{path} {text}"[-60:] for path, text, _ in PLANTED])
def test_a_planted_difference_of_devices_is_named(planted: tuple[str, str | None, str], tmp_path: Path) -> None:
    found = compare({"a": gather(host(tmp_path / "a")), "b": gather(host(tmp_path / "b", planted))})
    named = [each.name for each in found.differences if each.name != "busy processors"]
    assert named == ([planted[2]] if planted[2] else []), named


def test_counters_that_moved_a_little_and_other_addresses_are_no_difference(tmp_path: Path) -> None:
    other = {
        f"{PORT}/hw_counters/out_of_sequence": "31",
        f"{PORT}/counters/link_downed": "2",
        f"{NET}/address": "02:00:00:00:00:02",
        f"{PORT}/gids/1": "0000:0000:0000:0000:0000:ffff:0a00:0002",
        f"{NET}/ifindex": "7",
        f"{PORT}/lid": "0x9",
        "/proc/sys/kernel/ns_last_pid": "4711",
    }
    found = {}
    for name in ("a", "b"):
        host(tmp_path / name)
        for path, text in other.items() if name == "b" else ():
            put(tmp_path / name, path, text)
        found[name] = {**host_devices(tmp_path / name), **host_attributes(tmp_path / name)}
    assert found["a"] == found["b"] and len(found["a"]) > 50


def test_nothing_of_a_host_stands_in_its_facts(tmp_path: Path) -> None:
    host(tmp_path)
    put(tmp_path, "/etc/modprobe.d/x.conf", "options nvidia api_key=otter1234567890abcdef\n")
    told = str({**host_devices(tmp_path), **host_attributes(tmp_path)})
    assert "node4" not in told and "10.0.0.4" not in told and "0a00" not in told and "otter" not in told
