"""One part among many that is at fault: what stands beside an error names the card, NIC, cable or frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import logs_of, loud

LOGS = logs_of("f152-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("card-that-stops-all", "GPU 2 (0000:89:00) seems faulty: all 3 Xids", "dcgmi diag"),
        ("card-at-one-place", "of it alone (always GPC5 GPCCLIENT_T1_11)", "CUDA_VISIBLE_DEVICES without 2"),
        ("nic-of-few-lanes", "(mlx5_5) of elm2 lies behind a PCIe link of 12 GB/s, the others behind 48", "LnkSta"),
        ("frames-of-a-sweep", "messages of 2048 bytes fail, those of 1024 pass", "MTU of every switch port"),
        ("frames-of-two-mtus", "packets of MTU 4096 fail, those of 1024 pass", "MTU of every switch port"),
        ("cable-under-a-job", "the link of yew5/mlx5_1 has bit errors", "replace the cable"),
        ("peermem-without-its-clients", "loaded but not registered with the RDMA core", "build the module again"),
        ("switches-hidden-in-a-guest", "the virtual machine (KVM) hides the PCIe switches: 4 GPUs", "NCCL_TOPO_FILE"),
        ("two-nodes-of-one-machine", "2 nodes of Ray run on one machine (172.20.4.8)", "ray stop on 172.20.4.8"),
        ("driver-of-one-host", "pine-04 (525.105.17) is too old", "bring the driver of pine-04 to that of pine-03"),
        ("cache-of-an-engine", "which took 61.40 GiB for the paged KV cache", "from 0.97 to 0.89"),
        ("plugin-not-in-the-image", "EFA's software is not installed in this image", "efa_installer.sh"),
        ("rail-without-layer-two", "the rail of ens2 (mlx5_2) alone has no way on layer 2 to 172.16.2.6", "VLAN"),
        ("addresses-taken-by-netplan", "of mlx5_4 of oak9 changed while the job ran (by netplan apply)", "netplan"),
        ("port-of-a-listing", "mlx5_3 of fir12: the port finds nothing", "seat or replace cable"),
        ("version-of-one-imex", "node #2 (10.5.0.3) of the IMEX domain has another version of IMEX", "same driver"),
        ("loader-of-the-rank-that-lags", "rank 2 waits for its data loader", "what that worker reads"),
    ],
)
def test_what_stands_beside_names_the_part(name: str, title: str, fix: str, tmp_path: Path) -> None:
    (first, *_) = loud(LOGS[name], tmp_path)
    assert title in first.title and fix in first.fix


@pytest.mark.parametrize(
    ("name", "old", "new", "title"),
    [
        # Of one program alone, or on several cards, it may be the program.
        ("card-that-stops-all", "name=gmx", "name=python3", "seems faulty"),
        ("card-that-stops-all", "89:00): 43", "3d:00): 43", "seems faulty"),
        ("card-at-one-place", "pid=1207", "pid=9333", "seems faulty"),
        ("nic-of-few-lanes", "NET[50.0] - NET/0-2", "NET[25.0] - NET/0-2", "lies behind"),
        ("frames-of-a-sweep", "Link type       : Ethernet", "Link type       : IB", "large packets"),
        ("frames-of-two-mtus", "-m 4096", "-m 1024", "large packets"),
        ("switches-hidden-in-a-guest", "+ PCI[12.0] - GPU/3000", "+ PCI[12.0] - PCI/2000", "hides the PCIe switches"),
        ("two-nodes-of-one-machine", "172.20.4.8', 'NodeManagerHostname': 'hx1'},", "172.20.4.9'},", "one machine"),
        ("driver-of-one-host", "525.105.17 ", "570.86.15  ", "is too old for the CUDA of this program;"),
        ("rail-without-layer-two", "172.16.2.6 dev", "172.16.2.7 dev", "layer 2"),
        ("port-of-a-listing", "State: Down", "State: Active", "mlx5_3"),
        ("version-of-one-imex", "0        C   C  !V!", "0        C  !V! !V!", "node #2"),
        ("loader-of-the-rank-that-lags", "# rank 2", "# rank 1", "data loader"),
    ],
)
def test_without_these_words_nothing_of_it_is_said(name: str, old: str, new: str, title: str, tmp_path: Path) -> None:
    changed = LOGS[name].replace(old, new).replace("name=namd3", "name=python3" if "gmx" in old else "name=namd3")
    assert all(title not in each.title for each in loud(changed, tmp_path))


def test_packets_without_answer_follow_from_the_bad_link_of_one_end(tmp_path: Path) -> None:
    assert [each.name for each in loud(LOGS["cable-under-a-job"], tmp_path)] == ["roce-loss"]
    nobodys = LOGS["cable-under-a-job"].replace("root@yew5:~#", "#")
    assert [each.name for each in loud(nobodys, tmp_path)] == ["roce-loss"]
    other = LOGS["cable-under-a-job"].replace("-d mlx5_1", "-d mlx5_6")
    assert loud(other, tmp_path)[0].name == "ib-retry"
