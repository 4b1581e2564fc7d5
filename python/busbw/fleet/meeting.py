"""How the ranks of a fleet find rank 0: by what their launcher tells them, or by PMI; and what each does then."""

from __future__ import annotations

import os
import re
import resource
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from busbw.base.errors import UsageError, UserError
from busbw.base.scratch import scratch_folder
from busbw.fleet.crew import Crew
from busbw.fleet.fabric import is_name
from busbw.fleet.hand import serve
from busbw.fleet.wire import Line, LostError, call
from busbw.fleet.words import Launching
from busbw.launch.place import Place, hosts_of_rank_0, job_secret, ports_of, without_rank
from busbw.launch.pmi import handed_around

NODE = "BUSBW_NODE"
"""Names this node where its host name is another than the one that operators use."""
JOIN_S = 60.0
CONNECT_S = 2.0
AGAIN_S = 0.2
MOST_RANKS = 20_000
OWN = ("BUSBW_ADDRESS", "BUSBW_SECRET", "BUSBW_PORT")
"""Where this job meets; groups that are measured meet elsewhere."""


@contextmanager
def crew(place: Place, named: Sequence[str]) -> Iterator[Crew]:
    """Rank 0: the door is open at once, so that the others never wait for nobody. They end with the block."""
    environ = dict(os.environ)
    if place.launcher == "mpiexec" and environ.get("PMI_FD") and not environ.get("BUSBW_ADDRESS"):
        secret = os.urandom(16).hex()
        listener = _listen((0,))
        port = listener.getsockname()[1]
        handed_around(place, f"{secret},{port},{','.join(_own_addresses())}", environ, join_limit(environ))
    else:
        secret = job_secret(environ, place.launcher)
        _where(place, environ, named)  # says what is missing before anybody waits
        listener = _listen(_ports(environ, secret))
    _leave()
    with (
        scratch_folder("busbw-fleet-") as folder,
        Crew(listener, secret, place.size, node_name(environ), folder) as one,
    ):
        yield one


def take_part(place: Place, named: Sequence[str], launching: Callable[[], Launching]) -> int:
    """Another rank: do what rank 0 asks until it ends. It says nothing and its exit code is 0, since rank 0 speaks."""
    environ = dict(os.environ)
    how, trouble = None, ""
    try:
        how = launching()
    except UserError as problem:
        trouble = str(problem)
    try:
        line = _find(place, environ, named, {"rank": place.rank, "host": node_name(environ), "trouble": trouble})
    except (UserError, LostError):
        return 0
    _leave()
    with scratch_folder("busbw-fleet-") as folder:
        if how is not None:
            serve(line, how, folder)
        else:
            _wait(line)
    line.close()
    return 0


def _wait(line: Line) -> None:
    with suppress(LostError):
        while (message := line.first(0.5)) is None or message.get("do") != "end":
            pass


def join_limit(environ: Mapping[str, str]) -> float:
    """Seconds for all ranks to come."""
    text = environ.get("BUSBW_JOIN_TIMEOUT", "")
    return float(text) if text.isdecimal() and 0 < int(text) <= 86400 else JOIN_S


def node_name(environ: Mapping[str, str]) -> str:
    """As operators call this node; Slurm knows nodes by names that need not be host names."""
    name = environ.get(NODE) or environ.get("SLURMD_NODENAME") or socket.gethostname()
    if not is_name(name):
        raise UsageError(f"this node is called {name[:80]!r}, which is no name of a node; {NODE} gives it another")
    return name


def _leave() -> None:
    """What is started from here on is no rank of this job."""
    kept = without_rank(os.environ)
    for name in list(os.environ):
        if name not in kept or name in OWN:
            del os.environ[name]


def _where(place: Place, environ: Mapping[str, str], named: Sequence[str]) -> tuple[str, ...]:
    hosts = hosts_of_rank_0(environ, named)
    if not hosts:
        raise UsageError(
            f"{place.size} ranks were started and nothing says where rank 0 is; set BUSBW_ADDRESS to its host for all "
            "of them (mpirun: -x BUSBW_ADDRESS=HOST)"
        )
    return hosts


def _ports(environ: Mapping[str, str], secret: str) -> tuple[int, ...]:
    fixed = _endpoint(environ.get("BUSBW_ADDRESS", ""))[1]
    return (fixed,) if fixed else ports_of(environ, secret)


def _endpoint(text: str) -> tuple[str, int]:
    """host, host:port, [v6]:port; without a port 0."""
    found = re.fullmatch(r"(\[[^\]]+\]|[^:]+):(\d{1,5})", text)
    host, port = (found[1], int(found[2])) if found else (text, 0)
    return host.strip("[]"), port


def _listen(ports: Sequence[int]) -> socket.socket:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, soft + MOST_RANKS), hard))  # one for each rank
    why = ""
    for port in ports:
        try:
            both = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if both else socket.AF_INET
            listener = socket.create_server(("", port), family=family, dualstack_ipv6=both, backlog=1024)
        except OSError as problem:
            why = problem.strerror or str(problem)
            continue
        listener.setblocking(False)
        return listener
    raise UserError(f"rank 0 cannot listen on port {ports[0]} or {len(ports) - 1} more ({why}); set BUSBW_PORT_RANGE")


def _own_addresses() -> list[str]:
    """This host's name and its addresses, for ranks elsewhere."""
    name = socket.gethostname()
    found = [name]
    with suppress(OSError):
        found += [str(info[4][0]) for info in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    return list(dict.fromkeys(found))[:8]


def _find(place: Place, environ: Mapping[str, str], named: Sequence[str], said: dict[str, Any]) -> Line:
    """The line to rank 0; UserError where it refuses us or is not found in time."""
    limit = join_limit(environ)
    given = None if environ.get("BUSBW_ADDRESS") else handed_around(place, "", environ, limit)
    if given is not None:
        secret, number, *hosts = given.split(",")
        ports: tuple[int, ...] = (int(number),)
    else:
        secret = job_secret(environ, place.launcher)
        hosts, ports = [_endpoint(host)[0] for host in _where(place, environ, named)], _ports(environ, secret)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        for host in hosts:
            for port in ports:
                if (line := _call(host, port, secret, said)) is not None:
                    return line
        time.sleep(AGAIN_S)
    raise UserError(f"rank {place.rank} found no rank 0 on {', '.join(hosts)} within {limit:g} s")


def _call(host: str, port: int, secret: str, said: dict[str, Any]) -> Line | None:
    """None where nobody of this job is there."""
    try:
        peer = socket.create_connection((host, port), CONNECT_S)
    except OSError:
        return None
    try:
        return call(peer, secret, said)
    except LostError:
        peer.close()
        return None
