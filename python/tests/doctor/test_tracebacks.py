"""What stands in a traceback of Python: its source is no event, what follows a frame without source is."""

from __future__ import annotations

from pathlib import Path

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
