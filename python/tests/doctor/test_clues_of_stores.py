"""Stores that nobody serves, addresses that are none, and parts that fail together: what the first finding says."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import is_claimed, is_told_first, logs_of, loud

LOGS = logs_of("f171-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("pairs-below-a-switch", "(P2P) never arrive: ACS, the IOMMU or the driver", "iommu=pt"),
        ("multinode-on-cards", "no NVLink joins these hosts (L40S)", "leave the multinode tests out"),
        ("library-of-no-driver", "NVIDIA's driver is not installed there", "install the driver"),
        ("docker-in-a-box", "though the host has the driver (nvidia-smi works)", "ldconfig"),
        ("horovod-takes-both-for-first", "the script takes its GPU by hvd.local_rank()", "OMPI_COMM_WORLD_LOCAL_RANK"),
        ("lost-with-its-switches", "(SXid 20034, links 12, 33)", "power-cycle it"),
        ("kernel-on-every-card", "first on 0000:19:00, then on 4 GPUs in all", "reboot the node"),
        ("card-too-old-to-check", "(Quadro K620) unhealthy, as it is too old", "DP_DISABLE_HEALTHCHECKS=all"),
        ("card-marked-by-the-plugin", "has marked a GPU unhealthy (GPU-5d1c0c9a", "restart the plugin's pod"),
        ("file-of-the-dead", "nobody listens at 10.61.9.77", "delete /nfs/runs/moss/sync before each start"),
        ("containers-of-two-hosts", "each container has a network of its own", "--network=host"),
        ("store-of-nobody", "nobody serves the rendezvous store at 10.70.1.5:29400", "is_host=true"),
        ("netmask-as-address", "255.255.255.0, which is a netmask and no host's address", "MASTER_ADDR"),
        ("another-address-than-set", "at 10.99.7.3, and not at MASTER_ADDR=10.44.0.10", "Give 10.44.0.10 to all ranks"),
        ("side-channel-without-address", "(`OOB :` is empty)", "NCCL_SOCKET_IFNAME=ens8"),
        ("no-network-number", "(VNI) for this job on cxi2", "--network=job_vni"),
        ("plugin-and-libfabric-apart", "does not start with the libfabric 1.20", "/opt/amazon/efa"),
        ("store-on-this-host", "on this very host (127.0.0.1:51789)", "Take a free port"),
        ("queue-pair-without-errno", "mostly the limit on locked memory", "--cap-add=IPC_LOCK"),
        ("row-that-waits", "waits to be replaced by a spare one (Pending: Yes)", "reset the GPU"),
    ],
)
def test_what_stands_beside_it_decides(name: str, title: str, fix: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, title, fix)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        # Over several hosts the loopback address is itself what is wrong.
        ("store-on-this-host", "return TCPStore(", "return TCPStore(  # --nnodes=2", "nobody serves"),
        # One node's log alone may be that of the node which cannot reach the first one.
        ("store-of-nobody", "Every node prints the same error, also the one with 10.70.1.5:", "node 1:", "nobody ser"),
        ("another-address-than-set", "MASTER_ADDR=10.44.0.10", "MASTER_ADDR=10.99.7.3", "which the script sets"),
        ("netmask-as-address", "255.255.255.0", "10.44.0.10", "netmask"),
        ("multinode-on-cards", "NVIDIA L40S", "NVIDIA GB200", "no NVLink joins"),
        ("file-of-the-dead", "bond0:10.61.3.12<0>", "bond0:10.61.9.77<0>", "earlier run"),
        ("containers-of-two-hosts", "a docker container", "docker run --network=host, one container", "of its own"),
        ("plugin-and-libfabric-apart", "shows 16 devices", "shows no devices", "though the EFA devices are there"),
        ("side-channel-without-address", "OOB :", "OOB ens8:10.5.5.1<0>", "side channel"),
        ("queue-pair-without-errno", "ibv_create_qp failed", "ibv_create_qp failed with error Cannot allocate memory",
         "mostly"),
    ],
)  # fmt: skip
def test_what_decides_is_needed(name: str, old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in LOGS[name]
    assert not is_claimed(words, LOGS[name].replace(old, new), tmp_path)


def test_what_follows_is_no_error_of_its_own(tmp_path: Path) -> None:
    for name in ("hook-over-mismatch", "lost-with-its-switches", "no-interface-and-no-verbs", "no-network-number"):
        assert len(loud(LOGS[name], tmp_path)) == 1, name
