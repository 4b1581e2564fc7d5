"""A job that others report as failed is never healthy, whatever stands before that."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.finding import Severity
from busbw.doctor.signatures import SIGNATURES

from .corpus.load import cases
from .test_corpus import COMPLETE, loud

STARTED = (
    COMPLETE.format("START") + COMPLETE.format("COMPLETE") + "step 10 loss 3.1 time 0.8\nstep 20 loss 3.0 time 0.8\n"
)
ENDED = (
    "[rank7]:[E1102 11:00:00.1 ProcessGroupNCCL.cpp:685] [Rank 7] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=99, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds "
    "before timing out.\n"
    "n0:4411:4500 [3] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n0<41733>\n"
    "srun: error: n0: task 4: Exited with exit code 1\n"
)
PARTS = 4
CASES = tuple(cases())


@pytest.mark.parametrize("part", range(PARTS))
def test_a_job_that_failed_is_never_healthy(part: int, tmp_path: Path) -> None:
    mine = [each for index, each in enumerate(CASES) if index % (3 * PARTS) == part]
    assert [each.name for each in mine if not loud(STARTED + each.text + ENDED, tmp_path)] == []


@pytest.mark.parametrize("name", [each.name for each in SIGNATURES.values() if each.between_nodes])
def test_what_is_no_fault_on_one_node_is_no_reason_of_an_end_there(name: str, tmp_path: Path) -> None:
    mine = next(each for each in CASES if name in each.expected)
    assert loud(STARTED + mine.text + ENDED, tmp_path)


def test_an_end_that_hosts_beside_the_only_one_report_is_of_a_job_over_several(tmp_path: Path) -> None:
    down = "mlx5_core 0000:9a:00.0: Port module event: module 0, Cable unplugged\n"
    assert loud(STARTED + down + ENDED, tmp_path)[0].name == "watchdog-timeout"
    assert loud(STARTED + down + ENDED.replace("n0:4411", "n9:4411"), tmp_path)[0].name == "ib-port-down"


def test_no_note_explains_what_is_none() -> None:
    notes = [each for each in SIGNATURES.values() if each.severity is Severity.NOTE]
    assert [each.name for each in notes if each.explains or each.later] == []


@pytest.mark.parametrize(
    ("source", "protocol", "names"),
    [
        ("10.0.0.7", "TCP", ["no-route"]),
        ("172.20.0.7", "TCP", ["no-route"]),
        # Whoever looks for open ports from outside, and what is said to all.
        ("203.0.113.9", "TCP", []),
        ("172.40.0.7", "TCP", []),
        ("10.0.0.7", "UDP", []),
    ],
)
def test_a_firewall_is_named_for_connections_within_a_private_network(
    source: str, protocol: str, names: list[str], tmp_path: Path
) -> None:
    line = f"[88110.221] [UFW BLOCK] IN=ens3 OUT= SRC={source} DST=10.0.0.4 LEN=60 TTL=64 PROTO={protocol} DPT=41233\n"
    assert [each.name for each in loud(line, tmp_path)] == names
