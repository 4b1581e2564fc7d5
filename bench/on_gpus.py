"""What programs share that measure several things on GPUs within a time: how a command ends, and where figures go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

MULTICAST_OFF = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}


def write_summary(folder: Path, figures: Mapping[str, object]) -> None:
    """After each part, so that nothing is lost where the time is up."""
    (folder / "summary.json").write_text(json.dumps(dict(figures), indent=1) + "\n")


def spread(values: Sequence[float]) -> str:
    """Median with the least and the most."""
    return f"{median(values):,.1f} ({min(values):,.1f} to {max(values):,.1f})"


def ended(process: subprocess.Popen[bytes], patience_s: float = 5.0) -> None:
    """With its group: first asked, so that it ends what it started, then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None or number == signal.SIGKILL:
            with suppress(OSError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
