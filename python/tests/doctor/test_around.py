"""What stands around a fault does not hide it: names of hosts, steps before it, what ranks and launchers say later."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from busbw.base.effort import EFFORT
from busbw.doctor.examine import examine
from busbw.doctor.facts import gather
from busbw.doctor.finding import Severity
from busbw.doctor.reading.inputs import Inputs, read_inputs

from .corpus.load import Case, cases

PREFIX = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]*):(\d+):(\d+) \[(\d+)\] ")
NAMES = ("node2", "bad-0", "ib-fe80", "deadbeef", "error-node", "timeout01", "oom-7", "dgx-xid79", "efa2", "cafe")
STEPS = {
    # Of equal width: a terminal that broke lines leaves such, too.
    "bars": "".join(
        f"step {i:5d} | loss {8 - i / 100:.3f} | grad norm 1.1 | lr 3.0e-04 | {412 + i % 7} TFLOP/s\n"
        for i in range(120)
    ),
    "words": "".join(f"epoch 0, iteration {i}: loss={8 - i / 100:.4f}, 131072 tokens/s\n" for i in range(120)),
}
AFTER = """
[rank1]:[E1120 14:02:11.1 ProcessGroupNCCL.cpp:685] [Rank 1] Watchdog caught collective operation timeout: \
WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600014 milliseconds \
before timing out.
[rank1]:[E1120 14:02:11.3 ProcessGroupNCCL.cpp:753] [Rank 1] To avoid data inconsistency, we are taking the entire \
process down.
terminate called after throwing an instance of 'c10::DistBackendError'
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
train.py FAILED
srun: error: node7: task 0: Exited with exit code 1
"""


def drawn(part: int) -> list[Case]:
    """A few of the corpus that tell of a job: tables and files of counters are no place for steps."""
    few = [each for each in cases() if hashlib.sha256(each.name.encode()).digest()[0] % 24 == part]
    return [each for each in few if len(each.text) < 8000 and "out-of-place" not in each.text]


def findings(text: str, folder: Path) -> list[tuple[Severity, str]]:
    EFFORT.lift()  # each of them is a call
    path = folder / "job.log"
    path.write_text(text)
    found = examine(gather(*read_inputs(Inputs(files=(str(path),)))))
    return [(each.severity, each.name) for each in found if each.severity is not Severity.NOTE]


def test_no_name_of_a_host_is_the_fault(tmp_path: Path) -> None:
    tried = 0
    for case in drawn(0) + drawn(1):
        hosts = {found[1] for found in PREFIX.finditer(case.text)}
        if not hosts or len(hosts) > len(NAMES):
            continue
        tried += 1
        text = case.text
        for host, name in zip(sorted(hosts), NAMES, strict=False):
            text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w.-])", name, text)
        assert findings(text, tmp_path)[:1] == findings(case.text, tmp_path)[:1], case.name
    assert tried > 20


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_steps_before_a_fault_do_not_hide_it(steps: str, tmp_path: Path) -> None:
    tried = 0
    for case in drawn(2):
        alone = findings(case.text, tmp_path)
        # A job that made steps is not stuck at its start, and lived on after words of which nobody knows anything.
        if not alone or alone[0][1] in {"stuck-at-start", "rendezvous-timeout", "unknown-error"}:
            continue
        tried += 1
        assert findings(steps + case.text, tmp_path)[:1] == alone[:1], case.name
    assert tried > 20


def test_sequels_of_each_other_do_not_all_become_notes(tmp_path: Path) -> None:
    """A proxy that gave up, NCCL's error and PyTorch's words follow from each other: the first one stays."""
    proxy = (
        "n1:31:90 [1] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x7f0c84227ac0\n"
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1331, unhandled cuda error (run with "
        "NCCL_DEBUG=INFO for details)\n"
    )
    assert findings(proxy + AFTER, tmp_path)[0] == (Severity.ERROR, "proxy-failure")


def test_what_mpi_said_stands_before_what_followed(tmp_path: Path) -> None:
    box = (
        f"{'-' * 74}\nIt appears as if there is not enough space for /dev/shm/vader_segment.g4.1 (the shared-memory "
        "backing\nfile). It is likely that your MPI job will now either abort or experience\nperformance degradation."
        "\n"
        f"{'-' * 74}\n"
    )
    assert findings(box + AFTER, tmp_path)[0] == (Severity.ERROR, "shm-full")
