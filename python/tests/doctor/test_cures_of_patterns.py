"""A finding of many patterns says what each means; what only stands around a sentence decides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.finding import Severity
from busbw.doctor.meanings.advice import own_advice
from busbw.doctor.meanings.cluster_rows import CLUSTER_ROWS
from busbw.doctor.meanings.job_rows import JOB_ROWS
from busbw.doctor.meanings.launch_rows import LAUNCH_ROWS
from busbw.doctor.meanings.machine_errors import MACHINE
from busbw.doctor.meanings.machine_rows import MACHINE_ROWS
from busbw.doctor.meanings.particular_rows import ROWS
from busbw.doctor.meanings.particulars import PARTICULARS
from busbw.doctor.meanings.program_errors import FAMILIES
from busbw.doctor.meanings.scheduler_rows import SCHEDULER_ROWS
from busbw.doctor.meanings.topics import is_dull
from busbw.doctor.signatures import SIGNATURES

from .test_corpus import loud


@pytest.mark.parametrize(
    "around",
    [
        "[default0]:[rank0]: ",
        "[default0]:n0:4002:4102 [2] NCCL INFO Setting affinity for GPU 2 to ffffffff,00000000,ffffffff",
        "[default0]:n0:4007:4107 [7] sharp_plugin.c:320 NCCL WARN NET/IB : SHARP coll init error",
        "[n1:401:0] (401) ",
        "[1760170000.118401] [n1:4410 :0]     tl_nccl_team.c:118 ",
        "[1760170000.404429] [n1:4410 :0]     tl_nccl_team.c:429 ",
        "E1128 10:00:00.119223    4100 preemption_sync_manager.cc:168] ",
        "run it again with `--num_processes=1` (None)",
        "I0401 10:00:00.2       1 factory.go:107] ",
    ],
)
def test_what_stands_around_a_sentence_picks_no_family(around: str) -> None:
    assert [each.meaning for each in (*FAMILIES, *MACHINE) if each.words.search(around)] == []


@pytest.mark.parametrize(
    "said",
    ["401 Client Error: Unauthorized", "unexpected status code: 401", "HTTP/1.1 401 x", "response: 429", "error 404 "],
)
def test_an_answer_of_a_server_is_known_by_its_number(said: str) -> None:
    assert any(each.words.search(said) for each in FAMILIES)


E = "2026-10-11 10:02:01.118331: E tensorflow/core/common_runtime/ring_alg.cc:291] "


def test_the_level_of_tensorflow_and_xla_is_an_error_whatever_the_words(tmp_path: Path) -> None:
    assert [each.name for each in loud(f"{E}The moon is in another phase\n", tmp_path)] == ["unknown-error"]
    assert loud(f"{E.replace(': E ', ': I ')}The moon is in another phase\n", tmp_path) == []


def test_a_line_that_ends_with_a_device_is_no_counter_of_nothing(tmp_path: Path) -> None:
    assert not is_dull("error: aborted by /job:worker/replica:0/task:1/device:GPU:0")
    assert not is_dull("failed on remote target /job:worker/task:0:")
    assert all(map(is_dull, ["errors: 0", "rnr_nak_retry_err:0", "errors:0", "failed=0", "error: none"]))


COMM = (
    "n0:4{0}:5{0} [{0}] NCCL INFO ncclCommInitRank comm 0x5{0} rank {0} nranks 2 cudaDev {0} nvmlDev {0} "
    "busId {0}b000 commId 0x7a - Init START\n"
)
SHARP = "n0:40:50 [0] sharp_plugin.c:311 NCCL WARN NET/IB : SHARP coll init error: Cannot create SHARP job(-11)\n"
FAILED = "RuntimeError: NCCL error in: x.cpp:2418, internal error - please report this issue, NCCL version 2.26.2\n"


def test_what_nccl_warned_of_stands_before_an_init_that_ended_by_it(tmp_path: Path) -> None:
    begun = "".join(COMM.format(rank) for rank in range(2))
    assert [each.name for each in loud(begun + SHARP + FAILED, tmp_path)][:2] == ["sharp", "init-incomplete"]
    # Without a call that failed the ranks wait, and the warning is no reason.
    waits = loud(begun + SHARP + "step\n" * 9, tmp_path)
    assert waits[0].name == "init-incomplete" and waits[0].severity is Severity.ERROR


def test_a_check_that_an_exception_reports_is_no_crash(tmp_path: Path) -> None:
    said = "Check failed: (ok) is false: beta base address must be 16-byte aligned\n"
    (found,) = loud(f"[rank3]: RuntimeError: {said}", tmp_path)
    assert found.name == "python-exception" and "set beta base address so that it is 16-byte aligned" in found.fix
    assert own_advice(said) == ""
    assert loud(f"F1011 10:01:20.931882 5901 a.cc:1] {said}", tmp_path)[0].name == "process-crashed"


def test_a_list_of_what_may_be_names_no_cause(tmp_path: Path) -> None:
    said = "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error. "
    said += "There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high "
    (found,) = loud(said + "memory usage. (2) ray stop --force is called.\n", tmp_path)
    assert "memory" not in found.title
    (found,) = loud("RuntimeError: MPI worker pool was shut down: worker process exited with signal 9\n", tmp_path)
    assert "oom-kill" in found.fix


def test_what_is_known_of_the_sentence_stands_before_the_place_that_threw_it(tmp_path: Path) -> None:
    frame = '[rank2]:   File "/v/site-packages/torch/_symmetric_memory/__init__.py", line 8, in rendezvous\n'
    text = "[rank2]: Traceback (most recent call last):\n" + frame
    text += "[rank2]: RuntimeError: pidfd_getfd failed: Operation not permitted (errno 1)\n"
    fix = loud(text, tmp_path)[0].fix
    assert 0 <= fix.find("SYS_PTRACE") < fix.find("IMEX")


def test_rows_of_all_tables_count(tmp_path: Path) -> None:
    tables = (SCHEDULER_ROWS, CLUSTER_ROWS, JOB_ROWS, MACHINE_ROWS, LAUNCH_ROWS, ROWS)
    assert {name for table in tables for name in table} == set(PARTICULARS) <= set(SIGNATURES)
    assert "gfx" in loud("RuntimeError: hipErrorNoBinaryForGpu: no code object for gfx1100\n", tmp_path)[0].fix
    assert "TRITON" in loud("ptxas fatal   : Value 'sm_103a' is not defined for option 'gpu-name'\n", tmp_path)[0].fix


SM = "Oct 11 10:00:20 118331 [7F2C1A44] 0x01 -> {}\n"


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ("sm_mad_ctrl_send_err_cb: ERR 3113: MAD completed in error (IB_TIMEOUT): SubnGet(NodeInfo)", "ibnetdiscover"),
        ("osm_vendor_bind: ERR 5426: Unable to register class 129 version 1", "ib_umad"),
        ("validate_requested_mgid: ERR 1B01: Invalid prefix 0x12 in requested MGID, must be 0xFF", "partitions.conf"),
        ("ni_rcv_set_links: ERR 0D01: Found duplicated node GUID", "flint"),
        ("ftree: ERR AB28: Problem parsing I/O guid file", "opensm.conf"),
        ("dfsssp: ERR AD31: corrupted sw_list array in routing", "routing engine"),
    ],
)
def test_a_subnet_manager_is_told_by_what_failed_it(said: str, cure: str, tmp_path: Path) -> None:
    (found,) = loud(SM.format(said), tmp_path)
    assert found.name == "subnet-manager" and cure in found.fix


DONE = COMM.replace("START", "COMPLETE")


def test_a_tool_that_finds_no_rdma_device_is_no_health(tmp_path: Path) -> None:
    job = "".join(COMM.format(rank) for rank in range(2)) + "".join(DONE.format(rank) for rank in range(2))
    (found,) = loud("$ ibv_devinfo\nNo IB devices found\n" + job, tmp_path)
    assert found.name == "ib-devices-missing" and found.severity is Severity.WARNING
    assert loud(job, tmp_path) == []


@pytest.mark.parametrize(
    ("reason", "cure"),
    [
        ("TopologyAffinityError\nMessage:  Pod was rejected: not with Topology locality", "topologyManagerPolicy"),
        ("OutOfnvidia.com/gpu", "Allocatable"),
        ("NodeShutdown", "elsewhere"),
    ],
)
def test_a_kubelet_that_refuses_a_pod_says_why(reason: str, cure: str, tmp_path: Path) -> None:
    found = loud(f"Status:   Failed\nReason:   {reason}\n", tmp_path)[0]
    assert found.name == "kubernetes-event" and cure in found.fix
