"""What listings beside an error decide: GIDs, interfaces, ports, rules of firewalls, modules and releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.finding import Severity

from .asked import logs_of, loud

LOGS = logs_of("f140-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("nvshmem-link-local", "NVSHMEM takes a GID", "set NVSHMEM_IB_GID_INDEX=3"),
        ("ucx-index-of-one", "index 1: link-local, RoCE v2", "set UCX_IB_GID_INDEX=5"),
        ("mooncake-link-local", "Mooncake takes a GID", "set MC_GID_INDEX=N"),
        ("address-of-the-host", "on no interface of bench-0, which has eth0 10.244.3.18", "hostNetwork: true"),
        ("device-without-interface", "interface of mlx5_0 is in another network namespace", "Multus"),
        ("pair-without-ping", "while 10.82.2.7 reaches 10.82.2.30", "Until ping -I passes"),
        ("way-lost-while-running", "was lost while the job ran (step 4430)", "the rails are right"),
        (
            "rules-of-nft",
            "lets only ports 22, 29500-29600 through, and refuses NCCL's port 38211",
            "ip_local_port_range",
        ),
        ("policy-drops", "lets only ports 22, 29400-29600 through, and drops", "-s NETWORK -j ACCEPT"),
        ("port-that-listens", "port 51077 of 192.168.4.11 listens", "nft list ruleset"),
        (
            "one-value-for-two",
            "the launcher gave ranks 1, 2 the same GPU: CUDA_VISIBLE_DEVICES=1",
            "OMPI_COMM_WORLD_LOCAL_RANK",
        ),
        ("half-a-gpu-each", "Ray gave ranks 0, 1 the same GPU", "num_gpus=1 (here num_gpus is 0.5)"),
        ("older-by-its-words", "2.24 or newer on grebe1, an older one than 2.24 on grebe2", "install the same NCCL"),
        ("sizes-of-two-releases", "hosts or ranks run different releases", "install the same NCCL"),
        ("versions-of-two-hosts", "ranks of one job load NCCL 2.26.2", ""),
        ("no-port-at-one-host", "no RDMA port of shrike2 is active (mlx5_0 DOWN, mlx5_1 DOWN)", "cable, transceiver"),
        (
            "waits-for-manager",
            "hoopoe3 is active (mlx5_0 Initializing; its link is up, and no subnet manager sets it up)",
            "start a subnet manager",
        ),
        (
            "run-without-devices",
            "without the RDMA devices (/dev/infiniband; docker run gives it none)",
            "--device=/dev",
        ),
        ("no-folder-inside", "not given the devices, though the host has mlx5_0", "--device=/dev/infiniband"),
        ("order-relaxed-by-firmware", "forces relaxed ordering", "set PCI_WR_ORDERING=0"),
        ("module-for-nothing", "loaded but not registered with the RDMA core (ib_core", "install OFED (DOCA) first"),
        ("no-client-of-peer-memory", "memory_peers is without nv_mem", "open kernel modules"),
    ],
)
def test_what_stands_beside_names_the_cause(name: str, title: str, fix: str, tmp_path: Path) -> None:
    first = loud(LOGS[name], tmp_path)[0]
    assert title in first.title and fix in first.fix and first.severity is not Severity.NOTE


@pytest.mark.parametrize(
    ("name", "old", "new", "title"),
    [
        ("nvshmem-link-local", "GID_INDEX=0", "GID_INDEX=3", "takes a GID"),
        ("ucx-index-of-one", "UCX_IB_GID_INDEX", "NCCL_IB_GID_INDEX", "UCX takes a GID"),
        ("mooncake-link-local", "LID: 0", "LID: 7", "takes a GID"),
        ("address-of-the-host", "10.244.3.18", "192.168.70.4", "on no interface"),
        ("address-of-the-host", "127.0.0.1", "10.9.9.9", "on no interface"),
        ("device-without-interface", "LINK_UP\n", "LINK_UP netdev net1\n", "namespace"),
        ("pair-without-ping", "3 packets transmitted, 0 received", "3 packets transmitted, 3 received", "loses"),
        ("way-lost-while-running", "iteration", "sample", "was lost while"),
        ("rules-of-nft", "tcp dport { 22,", "ip saddr 10.31.4.0/24 accept\n\t\ttcp dport { 22,", "a firewall on"),
        ("rules-of-nft", "22, 29500", "22, 38000-39000, 29500", "a firewall on"),
        ("policy-drops", "Chain INPUT (policy DROP)", "Chain INPUT (policy ACCEPT)", "a firewall on"),
        ("port-that-listens", ":51077    0", ":51078    0", "listens"),
        ("horovod-waits-for-it", "", "", "Horovod"),
        ("one-value-for-two", "teal: CUDA_VISIBLE_DEVICES=1\nteal", "teal: CUDA_VISIBLE_DEVICES=2\nteal", "gave ranks"),
        ("half-a-gpu-each", "'3'", "'0,1,2,3'", "gave ranks"),
        ("older-by-its-words", "", "", "helpers"),
        ("versions-of-two-hosts", "", "", "different sizes"),
        ("sizes-of-two-releases", "init.cc:866", "transport.cc:160", "different releases"),
        ("sizes-of-two-releases", "received 128", "received 1024", "different releases"),
        ("no-port-at-one-host", "mlx5_1/1 state DOWN", "mlx5_1/1 state ACTIVE", "no RDMA port"),
        ("no-port-at-one-host", "", "", "wrong GID index"),
        ("waits-for-manager", "Initializing", "Active", "no RDMA port"),
        ("run-without-devices", "docker run -d", "docker run -d --device=/dev/infiniband", "without the RDMA devices"),
        ("run-without-devices", "(Up)", "(Down)", "without the RDMA devices"),
        ("order-relaxed-by-firmware", "force_relax(1)      force", "per_mkey(0)      force", "relaxed ordering"),
        ("module-for-nothing", "mlx5_ib,ib_cm", "mlx5_ib,nvidia_peermem,ib_cm", "not registered"),
        ("no-client-of-peer-memory", "nvidia_peermem         20480", "nvidia_uvm         20480", "not registered"),
    ],
)
def test_without_these_words_nothing_of_it_is_said(name: str, old: str, new: str, title: str, tmp_path: Path) -> None:
    assert all(title not in each.title for each in loud(LOGS[name].replace(old, new), tmp_path))
