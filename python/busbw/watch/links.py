"""TCP connections of a process that do not get on: data without an acknowledgement, or data that it waits for."""

from __future__ import annotations

import os
import platform
import re
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MAX_FILES = 4096
MAX_TASKS = 256
MAX_LINKS = 8
_MAX_TABLE = 4 << 20
_SOCKET = re.compile(r"socket:\[(\d+)\]")
# Numbers of read, recvfrom and recvmsg; the first argument is the descriptor.
_READS = {"x86_64": (0, 45, 47), "aarch64": (63, 207, 212)}.get(platform.machine(), ())
_ESTABLISHED, _LISTENS = "01", "0A"


@dataclass(frozen=True)
class Link:
    """One connection; `queued` bytes were sent and not acknowledged, and were sent again `again` times."""

    local: str
    remote: str
    queued: int = 0
    again: int = 0
    is_waited_for: bool = False
    """A thread waits for data from it, and none are there."""

    def __str__(self) -> str:
        if self.queued or self.again:
            times = f", sent again {self.again} times" if self.again else ""
            return f"{self.local} to {self.remote} holds {self.queued:,} bytes that were not acknowledged{times}"
        return f"no data come from {self.remote} to {self.local}"


def links_of(pid: int) -> tuple[Link, ...]:
    """Those that do not get on, the worst first; empty where /proc does not tell."""
    inodes = _sockets(pid)
    waited = {inodes[number] for number in _waited_for(pid) if number in inodes}
    wanted = set(inodes.values())
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for words in _rows(Path(f"/proc/{pid}/net/{table}")):
            with suppress(ValueError, IndexError, OSError):
                if words[9] in wanted and words[3] == _ESTABLISHED:
                    queued, received = (int(part, 16) for part in words[4].split(":"))
                    is_waited_for = words[9] in waited and not received
                    link = Link(
                        _address(words[1], family), _address(words[2], family), queued, int(words[6], 16), is_waited_for
                    )
                    if queued or link.again or is_waited_for:
                        found.append(link)
    return tuple(sorted(found, key=lambda link: (-link.again, -link.queued, link.remote))[:MAX_LINKS])


def connection_of(pid: int, inode: str) -> str:
    """Both ends of one socket for TCP in words; "" where it is another, or /proc does not tell."""
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for words in _rows(Path(f"/proc/{pid}/net/{table}")):
            with suppress(ValueError, IndexError, OSError, struct.error):
                if words[9] == inode:
                    local, remote = (_address(word, family) for word in words[1:3])
                    listens = words[3] == _LISTENS
                    return f"a socket that listens at {local}" if listens else f"the connection {local} to {remote}"
    return ""


def _sockets(pid: int) -> Mapping[int, str]:
    """Inodes of the process's sockets by descriptor."""
    found: dict[int, str] = {}
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for _, entry in zip(range(MAX_FILES), entries, strict=False):
            with suppress(OSError, ValueError):
                if match := _SOCKET.fullmatch(str(Path(entry.path).readlink())):
                    found[int(entry.name)] = match[1]
    return found


def _waited_for(pid: int) -> set[int]:
    """Descriptors that threads of the process read from at the moment."""
    found = set()
    with suppress(OSError), os.scandir(f"/proc/{pid}/task") as entries:
        for _, entry in zip(range(MAX_TASKS), entries, strict=False):
            with suppress(OSError, ValueError, IndexError), Path(entry.path, "syscall").open(encoding="ascii") as file:
                words = file.read(400).split()
                if int(words[0]) in _READS:
                    found.add(int(words[1], 16))
    return found


def _rows(path: Path) -> list[list[str]]:
    try:
        with path.open("rb") as file:
            lines = file.read(_MAX_TABLE).decode("ascii", errors="replace").splitlines()
    except OSError:
        return []
    return [words for line in lines[1:] if len(words := line.split()) >= 10]


def _address(text: str, family: socket.AddressFamily) -> str:
    """As the kernel writes it: words of 32 bits in the order of the machine."""
    host, _, port = text.partition(":")
    raw = b"".join(struct.pack("=I", int(host[at : at + 8], 16)) for at in range(0, len(host), 8))
    name = socket.inet_ntop(family, raw)
    return f"{f'[{name}]' if ':' in name else name}:{int(port, 16)}"
