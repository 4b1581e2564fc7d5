"""What stands in a traceback of Python: its source is no event, what follows a frame without source is."""

from __future__ import annotations

from pathlib import Path

import pytest

from busbw.doctor.lines.moments import came_first, moment_of

from .test_corpus import loud


def test_the_source_below_a_frame_of_python_is_no_event(tmp_path: Path) -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/x/ddp.py", line 9, in sync\n'
        "    raise_if('Detected mismatch between collectives')\n"
        "ValueError: seven\n"
    )
    assert [each.name for each in loud(text, tmp_path)] == ["python-exception"]


def test_an_error_behind_a_frame_without_source_is_still_seen(tmp_path: Path) -> None:
    text = (
        '  File "x.pyx", line 9, in nccl.check\n[core.py:5] nccl.NcclError: NCCL_ERROR_SYSTEM_ERROR: unhandled system\n'
    )
    assert "nccl-error" in [each.name for each in loud(text, tmp_path)]


def test_a_traceback_begins_where_its_first_line_stands(tmp_path: Path) -> None:
    """Lines of ranks mix: what others tell of a rank that is gone may stand before its exception."""
    text = (
        "12: Traceback (most recent call last):\n"
        '12:   File "/u/pretrain.py", line 210, in build\n'
        " 4: NET/IB: Got completion from peer 10.1.0.13<47122> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n"
        "12:     idx = open(path)\n"
        "12: FileNotFoundError: [Errno 2] No such file or directory: '/scratch/c4.idx'\n"
    )
    assert [each.name for each in loud(text, tmp_path)] == ["python-exception"]


def test_an_exception_that_begins_behind_what_others_tell_is_not_its_cause(tmp_path: Path) -> None:
    text = (
        " 4: NET/IB: Got completion from peer 10.1.0.13<47122> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n"
        "12: Traceback (most recent call last):\n"
        '12:   File "/u/pretrain.py", line 210, in build\n'
        "12:     idx = open(path)\n"
        "12: FileNotFoundError: [Errno 2] No such file or directory: '/scratch/c4.idx'\n"
    )
    assert next(each.name for each in loud(text, tmp_path)) == "ib-retry"


PARTS = """\
==> worker 0 <==
2026-10-04 10:22:{peer}.6: E a.cc:9] /job:worker/task:2 down: ipv4:10.0.0.2:2222: Failed to connect: Connection refused
==> worker 2 <==
2026-10-04 10:22:29.5: E cuda_dnn.cc:434] Loaded runtime CuDNN library: 8.3.2 but source was compiled with: 8.6.0.
"""


@pytest.mark.parametrize(("peer", "first"), [("31", "cuda-call-failed"), ("11", "connection-refused")])
def test_of_parts_of_several_hosts_the_times_of_lines_tell_what_came_first(
    peer: str, first: str, tmp_path: Path
) -> None:
    assert [each.name for each in loud(PARTS.replace("{peer}", peer), tmp_path)] == [first]


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("2026-10-04 10:22:31.5: E x", 31.5),
        ("[2026-10-04T10:22:31.500Z] x", 31.5),
        ("[rank3]:[E1004 10:22:31.500000 ProcessGroupNCCL.cpp:1] x", 31.5),
        ("Oct  4 10:22:31 n3 kernel: x", 31.0),
        ("INFO 10-04 10:22:31 x.py:3] x", 31.0),
        ("[10/04/2026-10:22:31] [TRT-LLM] x", 31.0),
        ("2026/10/04 10:22:31 INF x", 31.0),
        ("10:22:31 x", None),
        ("[  811.3] NVRM: x", None),
        ("peer 10.0.0.4 10-04", None),
    ],
)
def test_the_time_in_front_of_a_line(line: str, seconds: float | None) -> None:
    expected = None if seconds is None else ((31 * 10 + 4) * 24 + 10) * 3600 + 22 * 60 + seconds
    assert moment_of(line) == expected


def test_times_that_lie_hours_apart_are_not_compared() -> None:
    assert came_first(10.0, 20.0) is True and came_first(20.0, 10.0) is False
    assert came_first(10.0, 7300.0) is None and came_first(None, 3.0) is None


def test_horovods_stalls_follow_from_the_exception_of_the_rank_that_is_missing(tmp_path: Path) -> None:
    text = (
        "[1,3]<stderr>:Traceback (most recent call last):\n"
        "[1,3]<stderr>:tensorflow.python.framework.errors_impl.DataLossError: corrupted record at 117440512\n"
        "[1,0]<stderr>:[2026-11-15 20:14:31.5: W stall_inspector.cc:107] One or more tensors were submitted to be "
        "reduced, gathered or broadcasted by subset of ranks and are waiting for the remainder for more than 60 s.\n"
    )
    assert [each.name for each in loud(text, tmp_path)] == ["python-exception"]


def test_pytorchs_own_log_writes_the_month_without_a_nought() -> None:
    assert moment_of("[rank1]:[E421 10:12:02.310225810 ProcessGroupNCCL.cpp:552] x") == moment_of(
        "E0421 10:12:02.310225810 x"
    )
    assert moment_of("[E1130 10:12:02 x") == moment_of("2026-11-30 10:12:02 x")


def test_an_exception_of_a_loader_is_told_in_its_own_words(tmp_path: Path) -> None:
    text = (
        "[rank3]: ValueError: Caught ValueError in DataLoader worker process 1.\n"
        "[rank3]: Original Traceback (most recent call last):\n"
        "[rank3]: ValueError: seven samples are missing\n"
    )
    (finding,) = loud(text, tmp_path)
    assert "ValueError (seven samples are missing)" in finding.title


def test_the_own_rank_behind_a_label_of_srun_is_who_failed_first(tmp_path: Path) -> None:
    """srun's label counts the launchers; node 0's launcher tells of its rank 4 six seconds later."""
    text = (
        "0: [rank4]:[E912 03:41:55.602714310 ProcessGroupNCCL.cpp:577] [Rank 4] Some NCCL operations have failed\n"
        "0: node1:88120:91233 [3] transport/net_ib.cc:1698 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<5> with "
        "status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_3\n"
        "1: [rank11]: Traceback (most recent call last):\n"
        '1: [rank11]:   File "/w/train.py", line 70, in <module>\n'
        "1: [rank11]: KeyError: 'answer'\n"
        "1: Root Cause (first observed failure):\n1: [0]:\n1:   time      : 2024-09-12_03:41:49\n"
        "1:   host      : node2\n1:   rank      : 11 (local_rank: 3)\n"
        "0: Root Cause (first observed failure):\n0: [0]:\n0:   time      : 2024-09-12_03:41:55\n"
        "0:   host      : node1\n0:   rank      : 4 (local_rank: 4)\n"
    )
    assert [each.name for each in loud(text, tmp_path)][:1] == ["python-exception"]
