"""Live readings, from a made-up /sys and a made-up NVML: places, links, states."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from busbw.machine.topology.assemble import assemble
from busbw.machine.topology.gpu_state import GpuState
from busbw.machine.topology.live import with_links
from busbw.machine.topology.model import SWITCH, NvLinks, PathType, PcieLink
from busbw.machine.topology.nvml import read_nvml
from busbw.machine.topology.sysfs import read_sysfs

from .test_smi import MATRIX


class Sys:
    """Makes folders as the kernel does: class folders link into the tree of devices."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "sys/bus/pci/devices").mkdir(parents=True)

    def device(self, way: str, pci_class: str, vendor: str = "0x10de", **files: str) -> Path:
        folder = self.root / "sys/devices" / way
        folder.mkdir(parents=True)
        for name, text in {"class": pci_class, "vendor": vendor, **files}.items():
            (folder / name).write_text(text + "\n")
        (self.root / "sys/bus/pci/devices" / folder.name).symlink_to(folder)
        return folder

    def node(self, number: int, cpus: str) -> None:
        folder = self.root / f"sys/devices/system/node/node{number}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(cpus)

    def of_class(self, kind: str, name: str, device: Path, **files: str) -> None:
        folder = self.root / "sys/class" / kind / name
        folder.mkdir(parents=True)
        (folder / "device").symlink_to(device)
        for path, text in files.items():
            file = folder / path.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Two GPUs and a NIC below one switch, a GPU on the other NUMA node."""
    made = Sys(tmp_path)
    made.node(0, "0-3")
    made.node(1, "4-7")
    switch = "pci0000:10/0000:10:01.0/0000:11:00.0"
    link = {"current_link_speed": "16.0 GT/s PCIe", "current_link_width": "8", "max_link_speed": "32.0 GT/s PCIe",
            "max_link_width": "16", "numa_node": "0"}  # fmt: skip
    made.device(f"{switch}/0000:12:00.0/0000:13:00.0", "0x030200", **link)
    made.device(f"{switch}/0000:12:01.0/0000:14:00.0", "0x030200", numa_node="0", current_link_width="0")
    nic = made.device(f"{switch}/0000:12:02.0/0000:15:00.0", "0x020700", "0x15b3", numa_node="0")
    made.device("pci0000:80/0000:80:01.0/0000:81:00.0", "0x030200", numa_node="1")
    made.device("pci0000:80/0000:80:02.0/0000:82:00.0", "0x040300")
    made.of_class("infiniband", "mlx5_0", nic, ports__1__rate="200 Gb/sec (4X HDR)", ports__1__state="4: ACTIVE",
                  ports__1__link_layer="InfiniBand")  # fmt: skip
    made.of_class("net", "ib0", nic, speed="200000", operstate="up")
    made.of_class("net", "eth0", tmp_path / "sys/devices/pci0000:80", speed="-1", operstate="down")
    return tmp_path


def test_the_tree_gives_places_links_and_paths(host: Path) -> None:
    machine = assemble(read_sysfs(host), (), source="here")
    assert [(gpu.bus_id, gpu.numa, len(gpu.bridges)) for gpu in machine.gpus] == [
        ("0000:13:00.0", 0, 2), ("0000:14:00.0", 0, 2), ("0000:81:00.0", 1, 1),
    ]  # fmt: skip
    assert machine.gpus[0].pcie == PcieLink(4, 8, 5, 16) and machine.gpus[1].pcie.width is None
    assert [pair.path for pair in machine.connections[:4]] == [
        PathType.PIX, PathType.SYS, PathType.SYS, PathType.PIX,
    ]  # fmt: skip
    assert [node.cpus for node in machine.numa_nodes] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_ports_above_management_devices_are_no_bridges_of_a_hypervisor(tmp_path: Path) -> None:
    """A service processor's display and an i210 have one slow lane of their own on every server."""
    made = Sys(tmp_path)
    lane = {"max_link_speed": "2.5 GT/s PCIe", "max_link_width": "1"}
    full = {"max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16"}
    for bus, kind, vendor, own in (
        ("01", "0x020000", "0x8086", lane), ("02", "0x030000", "0x1a03", {}), ("03", "0x030200", "0x10de", full)
    ):  # fmt: skip
        port = made.device(f"pci0000:00/0000:00:{bus}.0", "0x060400", "0x8086", **lane)
        made.device(f"{port.relative_to(tmp_path / 'sys/devices')}/0000:{bus}:00.0", kind, vendor, **own)
    machine = assemble(read_sysfs(tmp_path), (), source="here")
    # Above the GPU it is one, as a virtual machine shows it.
    assert [(each.bus_id, each.pcie) for each in machine.bridges] == [("0000:00:03.0", PcieLink(1, 1))]


def test_an_rdma_device_and_its_interface_are_one_nic(host: Path) -> None:
    nics = assemble(read_sysfs(host), (), source="here").nics
    assert [(nic.name, nic.interface, nic.speed_Gbps, nic.rdma, nic.up) for nic in nics] == [
        ("mlx5_0", "ib0", 200.0, True, True), ("eth0", "eth0", None, False, False),
    ]  # fmt: skip


def test_states_and_the_tree_become_one_machine(host: Path) -> None:
    states = [
        GpuState(0, "0000:13:00.0", "NVIDIA H200", 90, nvlinks=(NvLinks(SWITCH, 17),), nvlinks_inactive=1),
        GpuState(1, "0000:81:00.0", "NVIDIA H200", nvlinks=(NvLinks("0000:99:00.0", 18),)),
    ]
    machine = assemble(read_sysfs(host), states, source="here")
    first, second = machine.gpus
    assert (first.cpus, first.nvlinks_down, first.nvlink_GBps) == ((0, 1, 2, 3), 1, 425.0)
    assert second.sm == 90 and second.nvlinks[0].target == SWITCH
    pair = machine.between("GPU0", "GPU1")
    assert pair is not None and pair.text == "NV17"


def test_an_empty_host_is_an_empty_machine(tmp_path: Path) -> None:
    assert assemble(read_sysfs(tmp_path), (), source="here").gpus == ()


def test_nvidia_smi_text_gives_the_links_that_the_query_lacks() -> None:
    states = tuple(GpuState(i, f"000{i + 1}:00:00.0") for i in range(3))
    links = "GPU 0: A100 (UUID: x)\n Link 0: 25 GB/s\n Link 1: <inactive>\n"
    found = with_links(states, MATRIX, links)
    assert (found[0].nvlinks, found[0].nvlinks_inactive) == ((NvLinks("0002:00:00.0", 12),), 1)
    assert found[2].numa == 1 and found[2].nvlinks == ()
    assert with_links(states, "garbage", "garbage") == states


class NVMLError(Exception):
    pass


def fake_nvml(**answers: Any) -> ModuleType:
    """A pynvml whose functions answer with the given values; a callable is called, the rest raises NVMLError."""
    module: Any = ModuleType("pynvml")
    module.NVMLError = NVMLError

    def unsupported(*_: object) -> None:
        raise NVMLError

    names = ["nvmlInit", "nvmlShutdown", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetEccMode", "nvmlDeviceGetMigMode",
             "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetNvLinkState"]  # fmt: skip
    for name in names:
        setattr(module, name, unsupported)
    for name, answer in answers.items():
        setattr(module, name, answer if callable(answer) else lambda *_, answer=answer: answer)
    return module  # type: ignore[no-any-return]


def test_nvml_answers_become_states_and_what_it_does_not_answer_stays_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def state(_: object, link: int) -> int:
        if link >= 3:
            raise NVMLError
        return int(link < 2)

    nvml = fake_nvml(
        nvmlInit=None,
        nvmlShutdown=None,
        nvmlDeviceGetCount=1,
        nvmlDeviceGetHandleByIndex="handle",
        nvmlDeviceGetPciInfo=SimpleNamespace(busId=b"00000000:00:06.0"),
        nvmlDeviceGetName=b"NVIDIA H200",
        nvmlDeviceGetCudaComputeCapability=(9, 0),
        nvmlDeviceGetMemoryInfo=SimpleNamespace(used=3 << 30, total=141 << 30),
        nvmlDeviceGetNvLinkState=state,
        nvmlDeviceGetNvLinkVersion=4,
        nvmlDeviceGetNvLinkErrorCounter=lambda _h, _l, counter: counter,
        nvmlDeviceGetNvLinkRemotePciInfo=SimpleNamespace(busId=b"FFFFFFFF:FF:FF.0"),
        nvmlDeviceGetCurrentClocksEventReasons=0x1 | 0x40,
        nvmlDeviceGetCpuAffinity=(0xF0, 0x1),
        nvmlDeviceGetRemappedRows=(0, 1, 1, 0),
        nvmlDeviceGetCurrPcieLinkWidth=999,
        nvmlDeviceGetComputeRunningProcesses=[SimpleNamespace(pid=42, usedGpuMemory=None)],
        nvmlSystemGetProcessName=b"/usr/bin/python3 train.py --token=a/b",
        nvmlSystemGetDriverVersion="580.159",
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    read = read_nvml()
    assert read is not None
    [gpu], driver = read
    assert driver.version == "580.159" and driver.asked == "NVML"
    assert (gpu.bus_id, gpu.name, gpu.sm, gpu.cpus) == ("0000:00:06.0", "NVIDIA H200", 90, (4, 5, 6, 7, 64))
    assert (gpu.nvlinks, gpu.nvlinks_inactive, gpu.nvlink_errors) == ((NvLinks(SWITCH, 2),), 1, 12)
    assert (gpu.slowdowns, gpu.row_remap_pending, gpu.pcie.width) == (("idle", "hw_thermal"), True, None)
    assert gpu.mig is None and gpu.utilisation_percent is None
    assert gpu.processes[0].name == "python3", "arguments may hold secrets"


def test_without_a_driver_nvml_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    assert read_nvml() is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert read_nvml() is None
