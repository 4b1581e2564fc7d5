"""Drivers, runtimes and devices of nodes, launchers and networks: what stands beside an error tells which it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import logs_of, loud

LOGS = logs_of("f136-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("rails-not-joined", "only NICs of the same rail", "NCCL_CROSS_NIC=0"),
        ("subnets-without-route", "NICs of two subnets", "one subnet and VLAN"),
        ("one-gpu-for-each-task", "(--tres-bind=gres/gpu:single:1)", "--gpu-bind=none"),
        ("launcher-for-each-task", "srun starts 2 launchers (torchrun) on each node", "--ntasks-per-node=1"),
        ("two-tasks-on-one-node", "srun starts 2 launchers (accelerate launch) on each node, and", "--num_machines"),
        ("worker-without-its-pod", "pod bench-worker-1 has not started yet", "WaitForWorkersReady"),
        ("plugin-without-its-runtime", "though the host has one", "runtimeClassName: nvidia"),
        ("plugin-that-stops", "or the host has no driver", "nvidia-smi on the host first"),
        ("driver-older-than-kernel", "525.60.13 cannot be built for kernel 5.14.0-503", "newer release"),
        ("driver-of-other-functions", "470.82.01 cannot be built for kernel 6.8.0-41", "newer release"),
        ("efa-left-outside", "the container lacks the EFA devices", "--device=/dev/infiniband"),
        ("scan-of-the-network", "10.99.0.4, which is no host of this job", "keep 10.99.0.4 off"),
        ("plugin-drops-devices", "ib_umad is not loaded", "modprobe ib_umad"),
        ("plugin-without-another-module", "lacks the device rdma_cm", "rdma_ucm"),
        ("driver-held-by-a-pod", "ml/sweep-4 does, and cannot be evicted", "DRAIN_USE_FORCE=true"),
        ("driver-held-by-a-program", "programs on that node still use the GPUs", "fuser -v"),
        ("driver-held-on-a-host", "programs of this host still use the GPUs", "modprobe -r nvidia_uvm"),
        ("rights-lost-after-reload", "lost its rights to the GPUs while it ran", "create-dev-char-symlinks"),
        ("rights-lost-by-the-list", "no more than mknod", "restart the container"),
        ("rights-lost-and-devices-there", "the devices are there and cannot be opened", "restart the container"),
        ("updated-without-reboot", "on ash2 the driver's libraries are 550.90.07", "reboot that host"),
        ("updated-without-reboot-here", "libraries are 560.35.03", "reboot that host"),
        ("direct-on-one-host", "on on bay2 and off on bay1", "modprobe nvidia-peermem"),
        ("interface-of-the-host", "GID index 5 of mlx5_2", "hostNetwork: true"),
        ("image-larger-than-run", "/run/pyxis/2014/91.0.squashfs", "runtime_path="),
    ],
)
def test_what_stands_beside_names_the_cause(name: str, title: str, fix: str, tmp_path: Path) -> None:
    (first, *_) = loud(LOGS[name], tmp_path)
    assert title in first.title and fix in first.fix


@pytest.mark.parametrize(
    ("name", "old", "new", "title"),
    [
        ("rails-not-joined", "172.20.1.2", "172.20.3.2", "rail"),
        ("launcher-for-each-task", "per-node=2", "per-node=1", "launchers"),
        ("worker-without-its-pod", "0/1   Init:0/1 ", "1/1   Running  ", "has not started"),
        ("efa-left-outside", "--gpus all", "--gpus all --device=/dev/infiniband", "the container lacks the EFA"),
        ("scan-of-the-network", "10.99.0.4<", "10.60.2.2<", "no host of this job"),
        ("rights-lost-by-the-list", "195:* m", "195:* rwm", "mknod"),
        ("direct-on-one-host", "/GDRDMA", "", "off on bay1"),
        ("interface-of-the-host", "Invalid argument", "No such file or directory", "another network namespace"),
    ],
)
def test_without_these_words_nothing_of_it_is_said(name: str, old: str, new: str, title: str, tmp_path: Path) -> None:
    assert all(title not in each.title for each in loud(LOGS[name].replace(old, new), tmp_path))


ALONE = """$ mpirun -np 4 --mca pml ob1 --mca btl self,sm osu_bcast
[1700000000.10] [box:71:0] ib_log.c:246  UCX  ERROR mlx5_1: ibv_create_cq() failed: Cannot allocate memory. Please set \
max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)
16384                   3.41
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self,sm", "self,sm,tcp"),
        ("pml ob1", "pml ucx"),
        ("16384  ", "none   "),
        ("16384 ", "MPI_ABORT was invoked\n1 "),
    ],
)
def test_what_a_job_in_shared_memory_did_not_need_is_a_note(old: str, new: str, tmp_path: Path) -> None:
    assert loud(ALONE, tmp_path) == []
    assert "memlock" in {each.name for each in loud(ALONE.replace(old, new), tmp_path)}


OLD = """[Sat Mar  8 14:20:09 2025] NVRM: Xid (PCI:0000:3b:00): 13, pid=4411, name=python3, Graphics SM Warp Exception
[Thu Mar 20 09:12:41 2025] usb 1-1: new high-speed USB device number 4 using xhci_hcd
| GPU Memory                | Pass - All                                     |
"""


@pytest.mark.parametrize(
    ("old", "new"), [("Mar 20", "Mar  8"), ("Pass - All", "Fail      "), ("| GPU", "ncclSystemError GPU")]
)
def test_an_old_exception_on_a_sound_gpu_is_a_note(old: str, new: str, tmp_path: Path) -> None:
    assert loud(OLD, tmp_path) == []
    assert "gpu-exception" in {each.name for each in loud(OLD.replace(old, new), tmp_path)}
