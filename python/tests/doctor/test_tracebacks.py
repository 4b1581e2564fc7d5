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
