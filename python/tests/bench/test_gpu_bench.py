"""bench/gpu: what its page says of results that are given."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "bench" / "gpu"
WHEEL = "/home/someone/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"


def test_the_page_shows_no_folders_of_the_machine_that_measured(tmp_path):
    lines = [
        f"busbw: records are in {tmp_path}",
        f"B  {WHEEL}",
        "  A  /usr/lib/libnccl.so.2.28.3",
        "    B  /home/someone/venv/lib/python3.12/site..ckages/nvidia/nccl/lib/libnccl.so.2",
    ]
    call = {"machine": {"NCCL": WHEEL}, "stages": {"together": [{"tool": "busbw", "lines": lines}]}}
    (tmp_path / "results.json").write_text(json.dumps(call))

    page = subprocess.run(
        [sys.executable, BENCH, "report", "--results", tmp_path / "results.json", "--out", tmp_path],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip

    assert "/home/someone" not in page
    assert str(tmp_path) not in page
    assert page.count("the wheel's libnccl.so.2") == 3
    assert "/usr/lib/libnccl.so.2.28.3" in page
