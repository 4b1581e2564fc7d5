"""What was set up beside the job decides: bridges, addresses of rdma_cm, firmware, gres.conf, lists of packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import is_claimed, is_told_first, logs_of

LOGS = logs_of("f186-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("mpi-over-virbr", "connect over virbr0 (192.168.122.1)", "btl_tcp_if_include ens3f0"),
        ("mpi-over-docker", "connect over docker0 (172.17.0.1)", "btl_tcp_if_exclude lo,docker0"),
        ("rdma-cm-bare", "(fir4 is 10.30.2.4): ibs5 has no IPv4 address", "give ibs5 an address (IPoIB)"),
        ("rping-ethernet", "no address of an RDMA interface leads there", "not by its Ethernet name"),
        ("amd-firmware-apt", "linux-firmware 20240318.git3b128b60-0ubuntu2.9 ->", "build the initramfs anew"),
        ("amd-mes-83", "(MES) has firmware 0x83", "take another linux-firmware"),
        ("gres-twice", "the same record for gpu more than once", "leave one line Name=gpu"),
        ("gres-mixed", "some have File= and others do not", "leave the bare Name=gpu out"),
        ("gres-no-device", "gres.conf of Slurm names /dev/nvidia3", "nvidia-persistenced before it"),
        ("nvml-mig", "built without NVML", "MultipleFiles="),
        ("slingshot-head", "that mpirun starts itself", "PRTE_MCA_ras_base_launch_orted_on_hn=1"),
        (
            "peermem-other-kernel",
            "OFED's tree is of 5.15.0-105-generic, and 5.15.0-118-generic runs",
            "for the running",
        ),
        ("tcpxo-counts", "7 GPUs in /sys/bus/pci and 8 by CUDA", "hostNetwork: true"),
        ("toolkit-no-list", "no list of packages for this distribution", "stable/deb/nvidia-container-toolkit.list"),
        ("toolkit-key-added", "knows no package of that name", "stable/deb/nvidia-container-toolkit.list"),
        ("toolkit-web-page", "holds a web page", "stable/deb/nvidia-container-toolkit.list"),
        ("toolkit-two-keys", "two lists of apt", "remove the older one"),
        ("toolkit-no-command", "container toolkit is not installed", "restart docker"),
    ],
)
def test_what_was_set_up_decides(name: str, title: str, fix: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, title, fix)


@pytest.mark.parametrize(
    ("name", "old", "new", "gone"),
    [
        ("mpi-over-docker", "172.17.0.1", "10.44.7.1", "a bridge with that address"),
        ("rdma-cm-bare", "ibs5             UP", "ibs5             UP             10.1.0.3/24", "has no IPv4"),
        ("amd-firmware-apt", "0ubuntu2.21)", "0ubuntu2.9)", "just updated"),
        ("peermem-other-kernel", "5.15.0-105-generic", "5.15.0-118-generic", "OFED's tree is of"),
        ("tcpxo-counts", "PCI tree (7)", "PCI tree (9)", "hostNetwork: true"),
        ("nvml-mig", "3g.40gb:8", "a100:8", "MultipleFiles="),
        ("slingshot-head", "Function not implemented (38)", "Cannot allocate memory (12)", "orted_on_hn"),
    ],
)
def test_without_it_another_reading_stays(name: str, old: str, new: str, gone: str, tmp_path: Path) -> None:
    assert old in LOGS[name]
    assert not is_claimed(gone, LOGS[name].replace(old, new), tmp_path)
