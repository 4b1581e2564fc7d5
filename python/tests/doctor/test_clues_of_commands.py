"""What was typed, set and evaluated stands beside what a launcher did, and decides which reading of an error holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from .corpus.load import cases
from .test_clues import first

CASES = {each.name: each.text for each in cases()}


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("f139-number-not-read", "RANK=1 is set, and the launcher still got node rank 0", "NODE_RANK=1"),
        ("f139-machine-rank-alike", "the same node rank (0): gpu-a and gpu-b", "--machine_rank 1"),
        ("f139-program-shows-its-command", "RANK=1 is set, and the launcher still got node rank 0", "NODE_RANK=1"),
        ("f139-variable-alike", "the same node rank (0): head and tail", "its own number"),
        ("f139-ping-comes-back", "that host answers ping, and tries of that port get no answer", "nc -zv 203.0.113.9"),
        ("f139-older-release-works", "(NCCL 2.21.5 works here, and 2.26.2 does not)", "take NCCL 2.21.5 again"),
        ("f139-without-rdma-alike", "did not finish in its time", "RDMA is not the reason"),
        ("f139-limit-of-the-job", "is 8192 KiB where the ranks run", "slurmd's unit"),
        ("f139-number-of-the-batch-script", "evaluates $SLURM_NODEID itself", "single quotes"),
        ("f139-launchers-want-a-port", "srun starts 4 launchers (accelerate launch)", "Another port does not help"),
        ("f139-port-answers-by-hand", "its port answers", "a node rank of its own"),
        ("f139-free-before-the-start", "within this very job", "one launcher per node"),
        ("f139-limit-of-the-shell", "though a shell's limit is unlimited", "grep locked /proc/PID/limits"),
        ("f139-no-firewall", "the interface is wrong, or a security group", "set NCCL_SOCKET_IFNAME"),
        ("f139-setting-that-did-not-help", "wait for one of them", "never ends: --disable-custom-all-reduce"),
        ("f139-lids-and-no-gids", "fabric, routing or a dead peer", "between the two. Raise"),
        ("f139-bound-to-one-gpu", "its own GPU alone (--accel-bind=g)", "leave --accel-bind=g out"),
        ("f139-one-device-each", "local rank 3: CUDA_VISIBLE_DEVICES=3", "take number 0 in each"),
        ("f139-server-and-trainer", "the inference server and the trainer use the same GPU", "vllm_mode=\"colocate\""),
        ("f139-fused-nics", "fused NICs (mlx5_4+mlx5_5)", "NCCL_NET_MERGE_LEVEL=LOC"),
        ("f139-no-sync-of-own-code", "refuses no_sync under ZeRO stage 2", "accumulate by themselves"),
        ("f139-one-nic-fails-its-test", "mlx5_4: a test between the hosts", "NCCL_IB_HCA=^mlx5_4"),
        ("f139-one-nic-of-both-hosts", "ibp54s0: ranks of 2 hosts name no other one", "NCCL_IB_HCA=^ibp54s0"),
        ("f139-no-devices-in-the-pod", "/dev/infiniband is missing here", "RDMA device plugin"),
        ("f139-names-of-another-host", "NCCL_IB_HCA names mlx5_0, mlx5_1, and the host has ibp24s0", "=ibp24s0,ibp"),
        ("f139-no-provider-in-the-image", "the image lacks libibverbs", "ibverbs-providers"),
        ("f139-undefined-of-newer-headers", "nobody set (minCTAs)", "not to be set"),
        ("f139-older-than-the-package", "(2.17.1, the system's package libnccl2) is older", "apt remove libnccl2"),
        ("f139-first-node-came-late", "since 06:00:04 and given up at 06:15:09: it still fetched its image",
         "--rdzv-conf timeout"),
        ("f139-first-node-built-software", "given up at 06:10:09: it still built software", "start together"),
        ("f139-shards-left-over", "10 files of data for 4 ranks; ranks 2, 3 came to", "by sample and not by file"),
        ("f139-said-to-be-uneven", "the program itself calls it uneven", "multiple of the ranks"),
        ("f139-ray-waits-for-a-fifth-gpu", "asks for 1 more, and 4 of 4 GPUs are reserved", "--colocate_all_models"),
    ],
)  # fmt: skip
def test_what_the_log_shows_beside_an_error_decides(name: str, title: str, fix: str, tmp_path: Path) -> None:
    found = first(CASES[name], tmp_path)
    assert title in found.title and fix in found.fix, (found.title, found.fix)


LATE = "torch.distributed.DistStoreError: wait timeout after 900000ms, keys: /none/torchelastic/role_info/0"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        # In quotes each task evaluates it.
        ("#SBATCH --nodes=2\nsrun bash -c 'torchrun --nnodes=2 --node_rank=$SLURM_NODEID train.py'\n" + LATE,
         "evaluates"),
        ("#SBATCH --nodes=2\nsrun torchrun --nnodes=2 --node_rank=$SLURM_NODEID --rdzv_backend=c10d train.py\n" + LATE,
         "evaluates"),
        # Two hosts with different numbers; one host that starts again; a rank that tells of itself.
        ("a@n1:~$ torchrun --nnodes 2 --node_rank 0 t.py\na@n2:~$ torchrun --nnodes 2 --node_rank 1 t.py\n" + LATE,
         "node rank"),
        ("a@n1:~$ torchrun --nnodes 2 --node_rank 0 t.py\na@n1:~$ torchrun --nnodes 2 --node_rank 0 t.py\n" + LATE,
         "node rank"),
        ("running torchrun --nnodes 2 --node_rank 0 t.py\nRANK=0 LOCAL_RANK=0\nRANK=1 LOCAL_RANK=1\n" + LATE,
         "node rank"),
    ],
)  # fmt: skip
def test_what_only_looks_like_it_decides_nothing(text: str, title: str, tmp_path: Path) -> None:
    assert title not in first(text, tmp_path).title


WAITS = (
    "INFO 05-11 10:11:12 shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds. This "
    "typically happens when some processes are hanging.\n"
)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("It hangs unless I start it with NCCL_P2P_DISABLE=1.", True),
        ("Still fine with NCCL_P2P_DISABLE=1.", True),
        ("- NCCL_P2P_DISABLE=1: no difference", False),
        ("With `NCCL_P2P_DISABLE=1` it still hangs", False),
        ("Setting NCCL_P2P_DISABLE=1 doesn't help.", False),
    ],
)
def test_a_setting_that_did_not_help_leaves_the_cure(said: str, kept: bool, tmp_path: Path) -> None:
    assert ("NCCL_P2P_DISABLE" in first(f"{said}\n{WAITS * 2}", tmp_path).fix) is kept


def test_a_port_that_answers_is_one_of_the_finding(tmp_path: Path) -> None:
    other = "Connection to 192.0.2.14 22222 port [tcp/ssh] succeeded!\n"
    late = (
        "[W1 socket.cpp:464] [c10d] The client socket has timed out after 900s while trying to connect to (a, 29500)."
    )
    assert "answers" not in first(other + late, tmp_path).title


NIC = (
    "yew1:7110:7190 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eno1:10.60.0.1<0>\n"
    "yew1:7110:7201 [{0}] transport/net_ib.cc:2068 NCCL WARN NET/IB: Got completion from peer 10.60.0.2<40114> with "
    "status=12 opcode=0 len=0 vendor err 129 (Send) hca mlx5_{0}\n"
)
CONFIG = (
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:219, invalid argument, NCCL version 2.21.5\n"
    "Invalid config maxCTAs attribute value 99\nnvidia-nccl-cu12==2.20.5\n"
)
TIMES = (
    "2026-02-11 {} n1 | torchrun --nnodes=2 --node_rank=0 t.py\n2026-02-11 06:00:04 n2 | torchrun --nnodes=2 "
    "--node_rank=1 t.py\n2026-02-11 06:15:09 n2 | torch.distributed.DistStoreError: Timed out after 901 seconds "
    "waiting for clients. 1/2 clients joined.\n"
)
SHARDS = (
    "num_shards=8\n[rank0] world_size=4\n[rank0] epoch 0 step 60\n[rank1] epoch 0 step 40\n[rank0]:[E ProcessGroupNCCL"
    ".cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=400, OpType=ALLREDUCE, "
    "NumelIn=7168, NumelOut=7168, Timeout(ms)=600000) ran for 600058 milliseconds before timing out.\n"
)
RELEASE = (
    "fir:5:9 [0] NCCL INFO NCCL version 2.26.2+cuda12.8\n{}\n[rank1]: RuntimeError: CUDA error: an illegal memory "
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        # One host's one error, and errors of two NICs, set none apart.
        (NIC.format(1), "alone"),
        (NIC.format(0) + NIC.format(1).replace("yew1", "yew2"), "alone"),
        # A newer library than the package is no fault.
        (CONFIG, "older than"),
        # In time, and in another zone.
        (TIMES.format("06:03:00"), "began at"),
        (TIMES.format("14:00:01"), "began at"),
        # As many files for each rank: one lags by something else.
        (SHARDS, "amounts of data"),
        (RELEASE.format("NCCL 2.21.5 hangs as well, it still fails") + "access was encountered\n", "works here"),
        (RELEASE.format("Works with NCCL 2.26.2 on one node") + "access was encountered\n", "works here"),
    ],
)
def test_what_stands_beside_may_tell_nothing(text: str, words: str, tmp_path: Path) -> None:
    assert words not in first(text, tmp_path).title
