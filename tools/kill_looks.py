"""What kill_trials sees of processes and of the files that a measurement might leave."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path


def os_group(pid: int) -> int:
    """The process group of a process, 0 where it has ended."""
    with contextlib.suppress(OSError):
        return os.getpgid(pid)
    return 0


def os_session(pid: int) -> int:
    """The session of a process, 0 where it has ended."""
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return 0


def everybody() -> list[int]:
    """The numbers of all processes."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def alive(pid: int) -> bool:
    """Whether a child of ours has not ended; it is not collected."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def look_at(pid: int) -> tuple[int, str]:
    """When a process began (clock ticks after boot) and its command line; 0 and nothing where it has ended."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        start = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        return start, Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return 0, ""


def is_same(pid: int, start: int) -> bool:
    """Whether the process that began then under this number still lives."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0] not in "ZX" and int(fields[19]) == start
    return False


def is_rank(words: str) -> bool:
    """Whether a command line is an engine's."""
    program = words.partition(" ")[0].rpartition("/")[2]
    return program.endswith("_perf") or program == "busbw-engine" or "busbw.torch_bench.rank" in words


def is_ours(words: str) -> bool:
    """Whether a command line is busbw's, or a rank's."""
    return is_rank(words) or "-m busbw" in words


def is_child(pid: int, parent: int) -> bool:
    """Whether a process is a child of that one."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) == parent
    return False


def files() -> set[str]:
    """What a run might leave in places that all share."""
    found = {str(path) for path in Path("/dev/shm").glob("*busbw*")}
    return found | {str(path) for path in Path(f"/tmp/busbw-{os.getuid()}").glob("*")}


def held() -> set[str]:
    """Files that a living process has open or mapped: of a trial or measurement beside this one."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            found |= {line.split(maxsplit=5)[-1] for line in (entry / "maps").read_text().splitlines()}
            found |= {str(path.readlink()) for path in (entry / "fd").iterdir()}
    return found


def abandoned(paths: set[str]) -> set[str]:
    """Those that are still there a second later, with nobody who holds them."""
    if not paths:
        return paths
    time.sleep(1.0)
    return {path for path in paths - held() if Path(path).exists()}
