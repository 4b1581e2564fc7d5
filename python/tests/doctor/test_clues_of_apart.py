"""What ranks, hosts and devices do apart from the others is told by the lines that show it, with its own cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import is_claimed, is_told_first, logs_of

LOGS = logs_of("f172-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("segments-of-containers", "UCC, by which MPI does collectives", "coll_ucc_enable 0"),
        ("gpus-for-each-rank", "asks for 16 GPUs of one host", "-g 1"),
        ("two-hosts-of-one-name", "ranks 4 to 7 should be on another host and call themselves worker", "machine-id"),
        ("agents-on-one-node", "meant for 3 nodes (--nnodes 3) ran on one, elm4", "--ntasks-per-node=1"),
        ("copies-without-a-head", "3 copies of the benchmark ran side by side", "--mpi=pmix"),
        ("module-unseen-by-old-nccl", "NCCL 2.20.5 does not see it", "2.23.4 or newer"),
        ("two-programs-of-one-step", "a second MPI program in one task of srun", "an srun of its own"),
        ("peers-of-tcpx-are-late", "waits for a control message of a peer", "rxdm"),
        ("cards-without-peers", "GeForce cards (RTX 4090) have no P2P over PCIe", "no setting, BIOS"),
        ("one-efa-of-four", "over one device, NET/AWS Libfabric/0, on 2 channels", "FI_EFA_USE_DEVICE_RDMA=1"),
        ("wrong-between-two-hosts", "over the network between hosts", "NCCL_NET_GDR_LEVEL=LOC"),
        ("ucx-over-the-bond", "UCX_NET_DEVICES=mlx_0 names no device", "mlx5_0:1"),
        ("a-batch-left-out", "rank 1 left a batch out that the others computed", "all-reduce a flag"),
        ("activations-of-two-sizes", "(5, 128, 256) was sent and (16, 128, 256) is received", "drop_last"),
        ("sent-more-than-received", "rank 0 sends 4096 elements, and rank 1 receives 1024", "one size on both sides"),
        ("two-ports-of-one-coordinator", "process 0 is at port 12355, and process 1 asks port 12345", "same coord"),
        ("grows-on-one-rank", "by rank 0 alone (others stay at 2.1 GiB)", "what rank 0 alone does"),
        ("one-rank-falls-back", "Rank 2 alone changed its type", "for the whole run"),
        ("a-file-that-never-comes", "worker 1 of rank 2's data loader hangs in /mnt/set/part-013.tar", "dd under"),
        ("addresses-not-told", "cannot tell each other their addresses (PMI)", "hello world"),
        ("no-torchrun", "torchrun", "python3 -m torch.distributed.run"),
    ],
)
def test_what_stands_apart_is_told_first(name: str, title: str, fix: str, tmp_path: Path) -> None:
    assert is_told_first(LOGS[name], tmp_path, title, fix)


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        # Both ranks skip it.
        ("a-batch-left-out", "[rank1] step 43", "[rank0] step 43: loss is inf, skipping the batch\n[rank1] step 43",
         "left a batch out"),
        # The second host calls itself so, as the command does.
        ("two-hosts-of-one-name", "worker:", "10.8.0.6:", "two hosts have one name"),
        ("agents-on-one-node", "elm4:882", "elm5:882", "ran on one"),
        ("module-unseen-by-old-nccl", "2.20.5", "2.26.2", "does not see it"),
        ("one-efa-of-four", "[send] via NET/AWS Libfabric/0\n#", "[send] via NET/AWS Libfabric/1\n#", "one device"),
        ("two-ports-of-one-coordinator", "10.5.0.1:12345", "10.5.0.1:12355", "different ports"),
        ("sent-more-than-received", "1024", "4096", "must have one size"),
        ("a-file-that-never-comes", "[rank2]: Traceback", "[rank 2 worker 1] part-013.tar: 9\n[rank2]: Traceback",
         "hangs in"),
        ("cards-without-peers", "Device=1 CANNOT", "Device=1 CAN Access Peer Device=2\nDevice=1 CANNOT", "product"),
        ("wrong-between-two-hosts", "-g 1", "-g 8", "over the network between"),
    ],
)  # fmt: skip
def test_without_its_sign_it_is_not_told(name: str, old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in LOGS[name]
    assert not is_claimed(words, LOGS[name].replace(old, new), tmp_path)
