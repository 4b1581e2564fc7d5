"""Reads the hosts of a job: a list on the command line, or a host file as Open MPI or MPICH has it."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from busbw.base.errors import UsageError, UserError
from busbw.base.files import read_bytes
from busbw.base.secrets import shortened
from busbw.launch.job import Host

_NAME = re.compile(r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]")
_LINE = re.compile(r"(?P<host>[^\s:]+|\[[^\]]*\])(?::(?P<colon>\d{1,7}))?(?P<rest>(?:\s+\S+)*)")
_RANGE = re.compile(
    r"(?P<stem>[A-Za-z0-9_.-]*[A-Za-z_.-])\[(?P<ranges>[0-9]{1,9}[0-9,-]{0,4000})\](?P<rest>[A-Za-z0-9_.-]*(?:[:\s].*)?)"
)
MOST_BYTES = 4 << 20
MOST_HOSTS = 20_000
MOST_LOOKUPS = 64
RESOLVE_SECONDS = 2.0


def parse_hosts(text: str, where: str) -> tuple[Host, ...]:
    """`a:8,b:8` or `a,b`."""
    return tuple(_host(part.strip(), where) for part in text.split(",") if part.strip())


def parse_hostfile(text: str, where: str) -> tuple[Host, ...]:
    """Lines such as `a slots=8`, `a:8`, `a` or `a[01-16]:8`; what follows # is a comment."""
    hosts: list[Host] = []
    for number, raw in enumerate(text.splitlines(), start=1):
        if line := raw.partition("#")[0].strip():
            hosts += (_host(each, f"{where}:{number}") for each in _expanded(line, f"{where}:{number}"))
            if len(hosts) > MOST_HOSTS:
                raise UserError(f"{where}:{number}: more than {MOST_HOSTS} hosts are named; name a part of them")
    if not hosts:
        raise UserError(f"{where} names no host; write one a line, such as `node1 slots=8`")
    return tuple(hosts)


def read_hostfile(path: Path) -> tuple[Host, ...]:
    """The hosts of a file."""
    data = read_bytes(path, MOST_BYTES, what="the host file", hint="it is hardly a list of hosts")
    return parse_hostfile(data.decode(errors="replace").removeprefix("\ufeff"), str(path))


def once(hosts: Sequence[Host]) -> tuple[str, ...]:
    """The names; PBS, LSF and others write a line for each slot, without a number on it."""
    told = any(host.slots is not None for host in hosts)
    names = [host.name for host in hosts]
    return tuple(names) if told else tuple(dict.fromkeys(names))


def check_names(names: Sequence[str], limit_s: float = RESOLVE_SECONDS) -> None:
    """UserError for the first name that this machine cannot resolve: ranks would wait a minute for what never comes.

    A name server that does not answer within the limit says nothing: the launch goes on.
    """
    results: dict[str, bool] = {}

    def look_up(name: str) -> None:
        try:
            socket.getaddrinfo(name.strip("[]"), None)
            results[name] = True
        except OSError:
            results[name] = False

    wanted = list(dict.fromkeys(names))[:MOST_LOOKUPS]
    threads = [threading.Thread(target=look_up, args=(name,), daemon=True) for name in wanted]
    deadline = time.monotonic() + limit_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    unknown = [name for name in wanted if results.get(name) is False]
    if unknown:
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        raise UserError(f"the host {unknown[0]}{more} cannot be resolved here; check its name, or write its address")


def _expanded(line: str, where: str) -> Iterator[str]:
    """The line for each host of a range such as `gpu[001-016,20]:8`."""
    found = _RANGE.fullmatch(line)
    if not found:
        yield line
        return
    for part in found["ranges"].split(","):
        first, _, last = part.partition("-")
        digits = first.isdecimal() and (last or first).isdecimal() and len(part) < 20
        low, high = (int(first), int(last or first)) if digits else (1, 0)
        if not 0 <= low <= high < low + MOST_HOSTS or part.endswith("-"):
            raise UsageError(f"{where}: {part!r} is no range from low to high of at most {MOST_HOSTS} hosts; "
                             f"write gpu[001-016]")  # fmt: skip
        for number in range(low, high + 1):
            yield f"{found['stem']}{number:0{len(first)}d}{found['rest']}"


def _host(text: str, where: str) -> Host:
    found = _LINE.fullmatch(text)
    if not found or not _NAME.fullmatch(found["host"]):
        raise UsageError(f"{where}: {text!r} is no host; write NAME, NAME:RANKS or, in a file, `NAME slots=RANKS`")
    slots, rest = found["colon"], found["rest"].split()
    bare = [word for word in rest if "=" not in word]
    if bare and len(bare[0]) < 8 and bare[0].isascii() and bare[0].isdecimal():
        slots = bare.pop(0)  # Grid Engine: `node1 8 gpu.q@node1 UNDEFINED`
    if (bare and "@" not in bare[0]) or any(re.match(r"\d+=", word) for word in rest):
        raise UsageError(
            f"{where}: {shortened(text, 60)!r} is more than a host; write one a line, such as `node1 slots=8`"
        )
    for word in rest:
        key, _, value = word.partition("=")
        if key == "slots":
            if not (value.isascii() and value.isdecimal() and len(value) < 8):
                raise UsageError(f"{where}: slots={value} is no number of ranks; write `{found['host']} slots=8`")
            slots = value
    if slots is not None and int(slots) < 1:
        raise UsageError(f"{where}: {text!r} leaves no room for a rank")
    return Host(found["host"], int(slots) if slots else None)
