"""A GPU that fell off the bus explains nothing that is told of other hosts, or of another GPU of its host."""

from __future__ import annotations

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Severity
from busbw.doctor.reading.snapshot import Snapshot, TextFile

FELL = "Nov 28 09:11:32 {} kernel: NVRM: Xid (PCI:0000:{}:00): 79, pid=0, name=<unknown>, GPU has fallen off the bus."
ERR = "===== {} =====\n|   3  NVIDIA H100 80GB HBM3          On  |   00000000:4E:00.0 Off |                 ERR! |"
ILLEGAL = "{}:10:20 [{}] NCCL WARN Cuda failure 700 'an illegal memory access was encountered'"
INIT = (
    "{host}:10:20 [{gpu}] NCCL INFO ncclCommInitRank comm 0x1{rank} rank {rank} nranks 4 cudaDev {gpu} nvmlDev {gpu} "
    "busId {bus} commId 0x7 - Init COMPLETE"
)
RANKED = "[rank{}]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
JOB = [
    INIT.format(host=host, gpu=gpu, rank=rank, bus=bus)
    for rank, (host, gpu, bus) in enumerate([("n1", 0, "1b000"), ("n1", 3, "4e000"), ("n2", 0, "1b000"),
                                             ("n2", 3, "4e000")])
]  # fmt: skip


def severity(*lines: str) -> tuple[Severity, str]:
    """Of the illegal accesses, and their title."""
    findings = examine(gather(Snapshot("files", logs=(TextFile("job.log", "\n".join([*lines, ""])),))))
    assert "gpu-off-bus" in {each.name for each in findings}
    (found,) = [each for each in findings if each.name == "illegal-access"]
    return found.severity, found.title


@pytest.mark.parametrize(
    "lines",
    [
        [FELL.format("n1", "4e"), ILLEGAL.format("n2", 3)],
        [FELL.format("n1", "4e"), ILLEGAL.format("n1", 3), ILLEGAL.format("n2", 3)],
        [ERR.format("n1"), "===== n2 =====", ILLEGAL.format("n2", 0)],
        [*JOB, FELL.format("n1", "4e"), RANKED.format(2)],
        [*JOB, FELL.format("n1", "4e"), RANKED.format(0)],
        [*JOB, FELL.format("n1.cluster.local", "4e"), ILLEGAL.format("n1", 0)],
    ],
    ids=["another host", "both hosts", "nvidia-smi", "a rank elsewhere", "another GPU", "another GPU by NCCL"],
)  # fmt: skip
def test_what_is_told_elsewhere_stands_for_itself(lines: list[str]) -> None:
    found, title = severity(*lines)
    assert found is Severity.ERROR and "follows from" not in title


@pytest.mark.parametrize(
    "lines",
    [
        [FELL.format("n1", "4e"), ILLEGAL.format("n1", 3)],
        [*JOB, FELL.format("n1", "4e"), RANKED.format(1)],
        [*JOB, FELL.format("n1.cluster.local", "4e"), ILLEGAL.format("n1", 3)],
        [FELL.format("n1", "4e"), RANKED.format(1)],
        ["NVRM: GPU has fallen off the bus.", ILLEGAL.format("n1", 3)],
    ],
    ids=["its host", "its rank", "its GPU by NCCL", "a rank of which nothing is known", "a GPU of which nothing is"],
)
def test_what_may_be_of_that_gpu_follows_from_it(lines: list[str]) -> None:
    found, title = severity(*lines)
    assert found is Severity.NOTE and "follows from gpu-off-bus" in title
