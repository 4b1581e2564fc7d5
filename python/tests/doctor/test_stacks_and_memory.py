"""Full GPUs tell who fills them; crashes and captures where in the program they arose; peers that both receive, so."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Finding, Severity
from busbw.doctor.reading.inputs import Inputs, read_inputs

from .corpus.load import cases

CASES = {each.name: each.text for each in cases() if each.name.startswith("f124-")}
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB. GPU 0 has a total capacity of 79.11 GiB of "
)
OOM += "which 1.00 GiB is free. {}"


def loud(text: str, folder: Path) -> list[Finding]:
    path = folder / "job.log"
    path.write_text(text)
    found = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    return [each for each in found if each.severity is not Severity.NOTE]


@pytest.mark.parametrize(
    ("case", "title", "fix"),
    [
        ("neighbour-holds-gpu", "another process (pid 918220) holds 61.88 GiB", "nvidia-smi"),
        ("holder-unseen", "other processes hold 38.38 GiB", "left behind"),
        ("scores-in-full", "128.25 GiB, where a GPU has room for 60.00 GiB", "flash attention"),
        ("branch-in-capture", 'waits for the GPU, which a CUDA graph', "captured region"),
        ("isnan-of-library-in-capture", "in captured (fit.py:33)", "captured region"),
        ("rdma-alone-none-there", "no RDMA device", "unset NCCL_NET"),
        ("crash-in-own-extension", "in fbank (features.py:61)", "not NCCL"),
        ("crash-in-package", "called from ids (text.py:9)", "native code of sentencepiece"),
        ("both-receive-first", "rank 0, 1 wait in RECV, and none of them sends", "opposite order"),
        ("both-send-first", "rank 4, 5 wait in SEND, and none of them receives", "batch_isend_irecv"),
        ("one-core-for-the-job", "rank 0, 1 share one core (number 12 of 64)", "taskset"),
        ("addresses-limited", "ulimit -v, 64 GiB", "ulimit -v unlimited"),
        ("address-space-of-proc", "ulimit -v, 64 GiB", "ulimit -v unlimited"),
        ("one-loader-holds-all", "rank 2 waits 784 ms for its data in each step, and rank 0, 1", "input of rank 2"),
        ("watchdog-in-capture", "watchdog thread", "thread_local"),
        ("old-network-ib", "RDMA alone", "unset NCCL_NET"),
        ("means-of-two-ranks", "rank 1 waits 308 ms", "input of rank 1"),
        ("ids-of-each-rank", "different unique ids", "ncclGetUniqueId on rank 0 alone"),
    ],
)  # fmt: skip
def test_the_particular_cause_is_told(case: str, title: str, fix: str, tmp_path: Path) -> None:
    found = loud(CASES[f"f124-{case}"], tmp_path)[0]
    assert title in found.title and fix in found.fix


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        # The job fills the GPU itself.
        ("2.00", "Including non-PyTorch memory, this process has 78.00 GiB memory in use."),
        # In a container the process sees itself under the number that the host gives it.
        ("2.00", "Process 4113 has 78.09 GiB memory in use. Of the allocated memory 75.20 GiB is allocated by PyTorch, "
         "and 1.10 GiB is reserved by PyTorch but unallocated."),
        # A number without sense, and nothing beside it.
        ("2.00", "Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use."),
    ],
)  # fmt: skip
def test_a_job_that_fills_its_gpu_is_not_told_of_others(asked: str, held: str, tmp_path: Path) -> None:
    found = loud(OOM.format(asked, held) + "\n", tmp_path)[0]
    assert found.name == "gpu-memory-full" and "other process" not in found.title and "batches" in found.fix


def test_a_tensor_larger_than_the_gpu_is_cured_by_another_computation(tmp_path: Path) -> None:
    found = loud(OOM.format("512.00", "this process has 4.00 GiB memory in use.") + "\n", tmp_path)[0]
    assert "larger than all of its memory" in found.title and "flash attention" in found.fix


def test_a_collective_in_a_capture_keeps_the_cure_of_communicators(tmp_path: Path) -> None:
    text = CASES["f124-isnan-of-library-in-capture"].replace("torch/nn/utils/clip_grad", "torch/distributed/c10d")
    assert "warm the communicator up" in loud(text, tmp_path)[0].fix


def test_groups_of_other_ranks_have_no_common_id(tmp_path: Path) -> None:
    """Rank 0 of two groups waits: a log of one node shows that of any job over several."""
    text = CASES["f124-ids-of-each-rank"].replace("rank 1 nranks", "rank 0 nranks")
    assert all("unique id" not in each.title for each in loud(text, tmp_path))


def test_a_crash_inside_of_torch_does_not_rule_out_nccl(tmp_path: Path) -> None:
    text = CASES["f124-crash-in-package"].replace("sentencepiece/__init__", "torch/autograd/graph")
    found = loud(text, tmp_path)[0]
    assert "graph.py:225" in found.title and "not NCCL" not in found.fix
