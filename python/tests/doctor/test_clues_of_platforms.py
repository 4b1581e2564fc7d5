"""What machine a job runs on, and what ended it last, decides between readings of an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.finding import Severity

from .asked import logs_of, loud

LOGS = logs_of("f134-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("shm-without-peers", "host memory (cuMem)", "NCCL_CUMEM_HOST_ENABLE=0"),
        ("cards-without-peers", "no direct access to each other at all", "Nothing is to be mended at IOMMU"),
        ("link-then-limit", "lost its link (on heron3)", "cable"),
        ("shared-memory-of-kernels", "82240 bytes of shared memory", "NCCL 2.26.2 or newer"),
        ("wsl-too-old", "WSL2, whose GPUs have no PCI path in /sys: NCCL 2.7.8 is too old", "NCCL 2.11.4 or newer"),
        ("efa-plugin-at-home", "no instance of AWS (GeForce RTX 3090)", "NCCL_NET_PLUGIN=none"),
        ("efa-closed-modules", "the closed kernel modules", "open kernel modules"),
        ("sharp-port-of-manager", "mlx5_2 port 1 of swan7: the subnet manager runs", "leave swan7 out"),
        ("sharp-no-reservation", "to reservations alone", "reservation_mode"),
        ("sharp-unknown-port", "does not know a port of this job", "NCCL_IB_HCA=^mlx5_N"),
        ("direct-rdma-by-acs", "GPU Direct RDMA between GPU and NIC fails by it", "NCCL_NET_GDR_LEVEL=LOC"),
        ("interface-with-address", "bond1 has an address for that (10.20.4.7/16", "NCCL_SOCKET_IFNAME=bond1"),
        ("full-gpu-named", "GPU 5 on plover", "NCCL_BUFFSIZE"),
        ("slower-by-binding", "bound to one core, all of them on socket 0", "--bind-to none"),
    ],
)
def test_what_stands_beside_names_the_cause(name: str, title: str, fix: str, tmp_path: Path) -> None:
    first = loud(LOGS[name], tmp_path)[0]
    assert title in first.title and fix in first.fix


@pytest.mark.parametrize(
    ("name", "old", "new", "title"),
    [
        ("wsl-too-old", "5.15.90.1-microsoft-standard-WSL2", "5.15.0-91-generic", "WSL2"),
        ("efa-plugin-at-home", " 0  NVIDIA GeForce RTX 3090\n", "", "no instance of AWS"),
        ("efa-plugin-at-home", "egret", "ip-10-3-4-5", "no instance of AWS"),
        ("efa-closed-modules", "NVIDIA UNIX x86_64 Kernel", "NVIDIA UNIX Open Kernel", "closed kernel modules"),
        ("direct-rdma-by-acs", "/GDRDMA", "", "GPU Direct RDMA"),
        ("interface-with-address", "export MASTER_ADDR=10.20.4.1", "", "has an address for that"),
    ],
)
def test_without_these_words_nothing_of_it_is_said(name: str, old: str, new: str, title: str, tmp_path: Path) -> None:
    assert all(title not in each.title for each in loud(LOGS[name].replace(old, new), tmp_path))


def test_a_job_that_fails_by_a_warning_fails(tmp_path: Path) -> None:
    assert loud(LOGS["wsl-too-old"], tmp_path)[0].severity is Severity.ERROR
    assert loud(LOGS["shm-without-peers"], tmp_path)[0].severity is Severity.ERROR


LIMIT = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-05-02T18:00:09 DUE TO TIME LIMIT ***\n"
CLOSED = "n2:51:52 [4] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n1<51159>\n"
STEPS = "step 100 loss 2.31 time 0.52 s\nstep 110 loss 2.30 time 0.52 s\n"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (STEPS + LIMIT + CLOSED, "job-cancelled"),
        (CLOSED + STEPS + LIMIT, "job-cancelled"),
        (STEPS + CLOSED + LIMIT, "remote-error"),
        (STEPS + CLOSED + "=>> PBS: job killed: walltime 7231 exceeded limit 7200\n", "job-cancelled"),
        (STEPS + "ERROR: Job failed: execution took longer than 1h0m0s seconds\n", "job-cancelled"),
        (STEPS + "[rank1]: RuntimeError: CUDA out of memory.\n" + "timeout: sending signal TERM to command 'python'\n",
         "gpu-memory-full"),
    ],
)  # fmt: skip
def test_a_limit_is_the_cause_where_nothing_failed_before(text: str, name: str, tmp_path: Path) -> None:
    assert loud(text, tmp_path)[0].name == name
