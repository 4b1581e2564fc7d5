"""What this host's hardware says of a job that stands still: ports of RDMA devices, the kernel's messages, the GPUs.

Counters are those of /sys/class/infiniband, by how they grew since the job last moved. The kernel's messages are read
from /dev/kmsg from the watcher's start on, where the user may. All is bounded, and what is not there is not said.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from busbw.base.programs import ask
from busbw.base.secrets import shortened
from busbw.base.sentences import visible

MAX_DEVICES = 64
MAX_PORTS = 8
MAX_LINES = 16
MAX_MESSAGES = 8192
RENEWED_NS = 10_000_000_000
"""So often the counters of a job that moves are read anew."""
_LIMIT_S = 5.0
_STUCK = frozenset({"stuck", "link", "message"})
"""Causes of a verdict for which it tells how much moves at all."""
_WORD = 4
"""Bytes that port_xmit_data and port_rcv_data count by."""
_MOVED = ("port_xmit_data", "port_rcv_data")
_ERRORS = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors",
    "port_xmit_discards", "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped",
    "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "implied_nak_seq_err",
    "out_of_buffer", "rx_icrc_encapsulated", "req_transport_retries_exceeded", "req_cqe_error", "resp_cqe_error",
    "retrans_pkts", "retrans_timeout_events", "rdma_read_resp_bytes_err", "unresponsive_remote_events",
)  # fmt: skip
"""Of `counters` and `hw_counters`: what grows where packets are lost, sent again or refused (mlx5, bnxt_re, EFA)."""
_MESSAGE = re.compile(
    r"NVRM: Xid|Out of memory: Killed process|oom-kill:|fallen off the bus|Link down|link is not ready|AER: .*error|"
    r"mlx5_core.*(?:error|timeout|health)|PCIe Bus Error|amdgpu.*(?:GPU reset|ring .* timeout)|hung_task|"
    r"blocked for more than \d+ seconds",
    re.IGNORECASE,
)  # fmt: skip
_GPU_FIELDS = (
    "index", "pci.bus_id", "utilization.gpu", "clocks.sm", "clocks.max.sm", "temperature.gpu",
    "ecc.errors.uncorrected.volatile.total",
)  # fmt: skip


@dataclass(frozen=True)
class Port:
    """One port of an RDMA device."""

    state: str
    counters: Mapping[str, int]


def ports(root: Path) -> dict[str, Port]:
    """By a name such as "mlx5_0 port 1"."""
    found: dict[str, Port] = {}
    for device in _inside(root / "sys/class/infiniband", MAX_DEVICES):
        for port in _inside(device / "ports", MAX_PORTS):
            counters = {}
            for name in (*_MOVED, *_ERRORS):
                for folder in ("counters", "hw_counters"):
                    with suppress(OSError, ValueError):
                        counters[name] = int(_short(port / folder / name))
            with suppress(OSError):
                found[f"{device.name} port {port.name}"] = Port(_short(port / "state"), counters)
    return found


def _inside(folder: Path, most: int) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(entry.path) for entry in islice(entries, most))
    except OSError:
        return []


def _short(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(64).decode("ascii", errors="replace").strip()


@dataclass
class Kernel:
    """The kernel's messages since this was made; none where they may not be read."""

    path: Path = Path("/dev/kmsg")
    _file: int = -1
    _rest: bytes = b""
    _found: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        with suppress(OSError):
            self._file = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)

    def close(self) -> None:
        """Give the file back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def telling(self) -> list[str]:
        """Those of a GPU, a link, the bus or the memory, the newest last."""
        for _ in range(MAX_MESSAGES if self._file >= 0 else 0):
            try:
                data = os.read(self._file, 8192)
            except BrokenPipeError:
                continue  # Messages were written over: the next read goes on behind them.
            except OSError:
                break
            if not data:
                break
            *lines, rest = (self._rest + data).split(b"\n")
            self._rest = rest[-8192:]
            for line in lines:
                # "6,1234,5678,-;text"; a line that begins with a space belongs to the one before.
                text = shortened(visible(line.partition(b";")[2].decode("utf-8", "replace")), 300)
                if not line.startswith(b" ") and _MESSAGE.search(text):
                    self._found = [*self._found, text][-MAX_LINES:]
        return self._found


class Hardware:
    """The state when the job last moved, and what has changed since."""

    def __init__(self, root: Path = Path("/"), kernel: Path = Path("/dev/kmsg")) -> None:
        self._root = root
        self._before = ports(root)
        self._read_ns = 0
        self._still: tuple[int, dict[str, Port]] | None = None
        self._kernel = Kernel(kernel)

    def close(self) -> None:
        """Give the kernel's messages back."""
        self._kernel.close()

    def moved(self, now_ns: int) -> None:
        """The job does: what is counted so far is no part of a stall."""
        self._still = None
        if now_ns - self._read_ns >= RENEWED_NS and self._before:
            self._before, self._read_ns = ports(self._root), now_ns

    def still(self, now_ns: int) -> None:
        """Nothing moves for a while: what ports send from here on is none of the job's last calls."""
        if self._still is None and self._before:
            self._still = (now_ns, ports(self._root))

    def lines(self, cause: str, now_ns: int, devices: Sequence[int] = ()) -> list[str]:
        """What may be the reason; with GPUs of accused ranks what nvidia-smi says of them."""
        found = [f"the kernel said: {text}" for text in self._kernel.telling()]
        found += self._ports(now_ns if cause in _STUCK else None)
        return [*found[:MAX_LINES], *(gpus(devices) if devices else [])]

    def _ports(self, stuck_ns: int | None) -> list[str]:
        """What changed, and where all ranks are stuck what the ports move meanwhile."""
        found, there = [], ports(self._root)
        for name, now in there.items():
            before = self._before.get(name, now)
            words = [
                f"{counter} grew by {value - before.counters[counter]:,}"
                for counter, value in now.counters.items()
                if counter not in _MOVED and value > before.counters.get(counter, value)
            ]
            if now.state != before.state:
                words.insert(0, f"its state is {visible(now.state)}, and was {visible(before.state)}")
            if words:
                found.append(f"{visible(name)} since the job last moved: {', '.join(words)}")
            if stuck_ns is not None and self._still is not None and name in self._still[1]:
                then = self._still[1][name].counters
                moved = [_WORD * max(0, now.counters.get(each, 0) - then.get(each, 0)) for each in _MOVED]
                seconds = (stuck_ns - self._still[0]) / 1e9
                found.append(f"{visible(name)} sent {moved[0]:,} and received {moved[1]:,} bytes in {seconds:.1f} s")
        return [*found, *(f"{visible(name)} is gone" for name in self._before if name not in there)]


def gpus(devices: Sequence[int]) -> list[str]:
    """Utilisation, clocks, temperature and errors by nvidia-smi; empty where it is not there."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    done = ask([program, f"--query-gpu={','.join(_GPU_FIELDS)}", "--format=csv,noheader,nounits"], _LIMIT_S)
    if done.returncode != 0:
        return [f"nvidia-smi: {shortened(visible((done.stderr or done.stdout).strip()), 200)}"]
    found = []
    for line in done.stdout.splitlines()[:MAX_DEVICES]:
        words = [visible(word.strip())[:40] for word in line.split(",")]
        if len(words) == len(_GPU_FIELDS) and words[0].isdecimal() and int(words[0]) in devices:
            number, bus, used, clock, most, degrees, errors = words
            broken = (
                f", {errors} memory errors that were not corrected" if errors.strip("0") and errors.isdigit() else ""
            )
            found.append(
                f"GPU {number} ({bus}) is {used} % busy, its clock {clock} of {most} MHz, {degrees} degrees{broken}"
            )
    return found[:MAX_LINES]
