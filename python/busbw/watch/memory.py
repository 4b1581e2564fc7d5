"""Whether the kernel has ended processes for memory: the counter of the control group that this process lies in."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

PROC = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")


def kills() -> int:
    """Processes of this control group, and of those below it, that were ended for memory; 0 where nobody counts."""
    with suppress(OSError, ValueError):
        for line in PROC.read_text(encoding="utf-8", errors="replace").splitlines()[:64]:
            number, controllers, path = line.split(":", 2)
            if number == "0" or "memory" in controllers.split(","):
                name = "memory.events" if number == "0" else "memory.oom_control"
                folder = ROOT if number == "0" else ROOT / "memory"
                with suppress(OSError):
                    found = _count(folder / path.lstrip("/") / name)
                    if found is not None:
                        return found
    return 0


def _count(path: Path) -> int | None:
    with path.open("rb") as file:
        for line in file.read(1 << 16).splitlines():
            words = line.split()
            if len(words) == 2 and words[0] == b"oom_kill":
                return int(words[1])
    return None
