"""An init that an error ended is told as its sequel; one that waits for a rank stays the cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Severity
from busbw.doctor.reading.inputs import Inputs, read_inputs

from .test_corpus import loud

START = "n0:1{0}:2{0} [{0}] NCCL INFO ncclCommInitRank comm 0x{0}1 rank {0} nranks {1} cudaDev {0} nvmlDev {0} busId 1000 commId 0xa - Init START"  # noqa: E501
TWO = [START.format(rank, 2) for rank in range(2)]
DUPLICATE = "n0:11:21 [0] init.cc:871 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 11000"
REFUSED = "n0:10:20 [0] misc/socket.cc:452 NCCL WARN socketStartConnect: Connect to 10.0.0.5<41021> failed : Connection refused"  # noqa: E501
PARENT = "n0:10:20 [0] init.cc:217 NCCL WARN parent 0x7f30 of the split has no init params"
FAILED = "[rank0]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library."
FORBIDDEN = "n0:10:20 [0] proxy.cc:900 NCCL WARN Proxy append out of bounds"
KILLED = "[ 812.11] Out of memory: Killed process 4312 (python3) total-vm:91231232kB, anon-rss:81231232kB"


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ([*TWO, DUPLICATE], ["duplicate-gpu"]),
        ([*TWO, REFUSED], ["connection-refused"]),
        (TWO, ["init-incomplete"]),
        # A call of NCCL's that failed behind it was the init's own: nobody waits.
        ([*TWO, PARENT, FAILED], ["nccl-warnings"]),
        ([*TWO, FORBIDDEN], ["nccl-internal"]),
        ([TWO[0], PARENT, FAILED], ["nccl-warnings"]),
        ([PARENT, *TWO], ["init-incomplete", "nccl-warnings"]),
        ([START.format(rank, 4) for rank in range(3)] + [FORBIDDEN], ["init-incomplete", "nccl-internal"]),
        # Who never came is the cause of what the others say of the network.
        ([START.format(rank, 4) for rank in range(3)] + [REFUSED], ["connection-refused", "init-incomplete"]),
        ([KILLED, REFUSED], ["host-memory"]),
        ([REFUSED, KILLED], ["connection-refused", "host-memory"]),
    ],
    ids=[
        "duplicate",
        "refused",
        "alone",
        "failed",
        "failed on one rank",
        "forbidden",
        "before",
        "failed, and one is missing",
        "a rank is missing",
        "killed before",
        "killed behind",
    ],
)
def test_what_ended_an_init_is_told_alone(lines: list[str], names: list[str], tmp_path: Path) -> None:
    found = loud("\n".join([*lines, ""]), tmp_path)
    assert sorted(each.name for each in found) == names
    assert all(each.severity is not Severity.NOTE for each in found)


def test_memory_that_cannot_be_shared_follows_from_a_missing_channel_of_imex(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        "n1:7:9 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 'invalid resource handle' cuMemImport\n"
        "open of /dev/nvidia-caps-imex-channels/channel0: No such file or directory\n"
    )
    found = examine(gather(*read_inputs(Inputs(files=(str(log),)))))
    assert [each.name for each in found if each.severity is not Severity.NOTE] == ["imex"]
