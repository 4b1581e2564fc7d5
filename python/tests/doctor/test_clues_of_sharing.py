"""What shares a port, a GPU, a pod, a link or a disk with the job decides what its error means; so do earlier runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import logs_of, loud

LOGS = logs_of("f144-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("two-standalone-jobs", "two torchrun --standalone jobs share one store", "--rdzv_endpoint=localhost:0"),
        ("agent-in-the-store-of-another", "held port 29600 already", "a store of its own"),
        ("sidecar-between-pods", "a service mesh stands between the pods", 'sidecar.istio.io/inject: "false"'),
        ("jax-takes-all", "XLA_PYTHON_CLIENT_MEM_FRACTION=0.98", "it is a fraction"),
        ("server-wakes-beside-trainer", "it wants 0.8 of the GPU", "param_offload=True"),
        ("own-name-in-hosts", "/etc/hosts gives mill01 the address of its own host", "--local-addr"),
        ("container-at-its-limit", "its own limit of memory (200 GiB", "resources.limits.memory"),
        ("container-with-two-gpus", "the container sees 2 GPUs", "--gpus all"),
        ("connection-has-the-port", "a connection of that node to 10.3.0.9:2049", "ip_local_port_range"),
        ("roce-without-addresses", "(bnxt_0) have no IP address", "NCCL_SOCKET_IFNAME=ens3"),
        ("gradient-before-the-restart", "parameters had no part in the loss", "find_unused_parameters"),
        ("killed-some-days-ago", "an earlier build was ended in the middle", "rm -rf"),
        ("best-by-rank", "ranks 0, 2, 3 took a decision", "all_reduce the metric"),
        ("index-on-the-first-node", "rank 0 built the index", "all nodes share"),
        ("one-gigabit-between-hosts", "came up at 1 Gb/s, and that link is full", "gradient accumulation"),
        ("answers-of-one-sign", "gives wrong data over P2P of a patched driver", "--disable-custom-all-reduce"),
    ],
)
def test_what_is_shared_decides(name: str, title: str, fix: str, tmp_path: Path) -> None:
    first = loud(LOGS[name], tmp_path)[0]
    assert title in first.title
    assert fix in first.fix


@pytest.mark.parametrize(
    ("name", "old", "new", "gone"),
    [
        ("container-with-two-gpus", "--nproc_per_node=4", "--nproc_per_node=2", "the container sees"),
        ("container-at-its-limit", "memory.peak: 214748364800", "memory.peak: 14748364800", "its own limit"),
        ("connection-has-the-port", "10.3.1.4:41007", "10.3.1.4:41008", "a connection of that node"),
        ("own-name-in-hosts", "127.0.0.1 localhost mill01 mill01.example.net", "127.0.0.1 localhost", "/etc/hosts"),
        ("best-by-rank", "best=0.944", "best=0.964 saving", "took a decision"),
        ("index-on-the-first-node", "\n5: FileNot", "\n1: FileNot", "rank 0 built"),
        ("jax-takes-all", "0.98", "0.70", "MEM_FRACTION"),
        ("sidecar-between-pods", "istio-injection=enabled", "istio-injection=disabled", "service mesh"),
        ("one-gigabit-between-hosts", "1000Mb/s", "25000Mb/s", "came up at"),
    ],
)
def test_without_it_nothing_of_it_is_said(name: str, old: str, new: str, gone: str, tmp_path: Path) -> None:
    assert old in LOGS[name]
    assert all(gone not in each.title for each in loud(LOGS[name].replace(old, new), tmp_path))
