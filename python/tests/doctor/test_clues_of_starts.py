"""How ranks were started and where they look, told by what stands beside the error; and what only looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .asked import logs_of, loud

LOGS = logs_of("f137-")


@pytest.mark.parametrize(
    ("name", "title", "fix"),
    [
        ("address-in-octal", "ranks connect to 10.20.24.4 and not to 10.20.30.4", "write 10.20.30.4"),
        ("address-that-is-no-octal", "8 and 9 are no digits", "write 172.16.9.2"),
        ("script-without-srun", "starts python -u fit.py without srun", "srun python -u fit.py"),
        ("slurm-starts-no-others", "rank 0 alone tells of itself", "--ntasks-per-node equal to devices"),
        ("tasks-that-spawn", "srun starts 4 tasks, and each spawns a worker per GPU", "--ntasks-per-node=1"),
        ("mpirun-of-conda", "Open MPI 5.0.6 (/opt/miniforge/bin/mpirun)", "Engine, its tensor parallel size"),
        ("srun-without-pmi", "srun does not tell them of each other", "srun --mpi=pmix"),
        ("node-by-name", "gpu-a.corp.example (VLLM_HOST_IP), which none of its nodes has", "an address, and no name"),
        ("offload-fills-the-host", "by what is offloaded to it", "none or nvme"),
        (
            "worker-of-dask-over-its-limit",
            "over 95 % of its limit of host memory of 24GB",
            "dask worker --memory-limit",
        ),
        ("two-strategies-in-one-process", "one after the other (4 GPUs, then 2)", "in a process of its own"),
        ("workers-with-other-gpus", "count different numbers of GPUs in one group: 3 here, 4 before", "TF_CONFIG"),
        ("length-by-tensor-parallel", "the sequence length 4090 is no multiple", "(here 4096)"),
        ("index-on-one-disk", "ranks of 10.1.1.6 do not find", "file system that all nodes share"),
        ("name-of-another-host", "NCCL_SOCKET_IFNAME=ens1f0 names no network interface", "NCCL_SOCKET_IFNAME=bond0"),
        ("variable-in-one-shell", "GLOO_SOCKET_IFNAME=bond0 was set in one shell alone", "before ray start"),
        (
            "heads-without-gradient",
            "on rank 2, 5, so that DDP waits for their gradients: aux.depth.head.*",
            "0 * output",
        ),
        (
            "indices-without-gradient",
            "on rank 0, so that DDP waits for their gradients: number 14 to 16",
            "requires_grad",
        ),
        ("one-node-is-cordoned", "(2 cordoned, so that no pod comes there)", "uncordon these"),
        ("gpu-filled-by-itself", "rank 3 has 37.20 GiB of the 39.39 GiB of GPU 3", "gradient checkpointing"),
        ("fewer-shards", "rank 1 has 70000, rank 0 80000", "the same number of batches"),
    ],
)
def test_what_stands_beside_decides(name: str, title: str, fix: str, tmp_path: Path) -> None:
    first = loud(LOGS[name], tmp_path)[0]
    assert title in first.title
    assert fix in first.fix


@pytest.mark.parametrize(
    ("name", "old", "new", "gone"),
    [
        ("address-in-octal", "10.20.030.4", "10.20.007.4", "octal"),
        ("script-without-srun", "python -u fit.py", "srun python -u fit.py", "without srun"),
        ("script-without-srun", "--ntasks-per-node=8", "--ntasks-per-node=1", "the batch script starts"),
        ("slurm-starts-no-others", "MEMBER: 1/4", "MEMBER: 1/4\nInitializing distributed: GLOBAL_RANK: 1, MEMBER: 2/4",
         "rank 0 alone"),
        ("tasks-that-spawn", "--ntasks=4", "--ntasks=1", "twice over"),
        ("mpirun-of-conda", "mpirun -np 4", "mpirun -np 1", "world of its own"),
        ("offload-fills-the-host", "90.1%", "50.1%", "% of about"),
        ("length-by-tensor-parallel", "--seq-length 4090", "--seq-length 4096", "the sequence length 4096"),
        ("index-on-one-disk", "(Trainer rank=0, pid=70, ip=10.1.1.5)", "(Trainer rank=7, pid=70, ip=10.1.1.6)",
         "misses it"),
        ("name-of-another-host", "\nens1f0", "\nbond", "names no network interface"),
        ("variable-in-one-shell", "GLOO_SOCKET_IFNAME=bond0 python", "python", "one shell alone"),
    ],
)  # fmt: skip
def test_what_only_looks_like_it(name: str, old: str, new: str, gone: str, tmp_path: Path) -> None:
    assert old in LOGS[name]
    assert not any(gone in each.title for each in loud(LOGS[name].replace(old, new), tmp_path))


def test_the_exit_code_of_a_command_is_no_fault_of_ssh(tmp_path: Path) -> None:
    names = [each.name for each in loud(LOGS["too-many-files-under-pdsh"], tmp_path)]
    assert names[0] == "too-many-files"
    assert "ssh-launch" not in names


def test_a_kernel_on_a_gpu_that_is_lost_is_no_bug_of_the_program(tmp_path: Path) -> None:
    assert [each.name for each in loud(LOGS["kernel-on-a-lost-gpu"], tmp_path)] == ["gpu-off-bus"]
