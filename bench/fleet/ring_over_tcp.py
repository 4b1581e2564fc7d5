#!/usr/bin/env python3
"""As ring_over_mpi.py over plain TCP, for `busbw fleet run` inside one job: nothing starts MPI there.

Each rank sends to the next of BUSBW_FLEET_NODES and receives from the one before. A barrier is a token that goes
round twice.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import select
import socket
import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent)]

from ring_over_mpi import TICK_S, main  # noqa: E402

FIRST_PORT, PORTS = 30000, 20000
MEET_S = 30.0


class TcpRing:
    """The nodes of one group, each its own rank."""

    def __init__(self) -> None:
        nodes = os.environ["BUSBW_FLEET_NODES"].split(",")
        self.rank, self.size = int(os.environ["BUSBW_RANK"]), len(nodes)
        secret = os.environ["BUSBW_SECRET"].encode()
        port = FIRST_PORT + int.from_bytes(hashlib.sha256(secret).digest()[:4], "little") % PORTS
        with socket.create_server(("", port)) as listener:
            listener.settimeout(MEET_S)
            self._next = _connected(nodes[(self.rank + 1) % self.size], port)
            self._before, _ = listener.accept()
        for each in (self._next, self._before):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def barrier(self) -> None:
        """All ranks are here."""
        for _ in range(2):
            if self.rank == 0:
                self._send(b"t")
            self._receive(1)
            if self.rank:
                self._send(b"t")

    def shift(self, out: ctypes.Array[ctypes.c_char], into: ctypes.Array[ctypes.c_char], asleep: float = 0.0) -> None:
        """Send all of `out` to the next rank while the previous one's arrives, which takes longer than `asleep`."""
        left, missing = memoryview(out).cast("B"), len(into)
        begun = time.monotonic()
        while left or missing:
            writers = [self._next] if left else []
            readable, writable, _ = select.select([self._before] if missing else [], writers, [], MEET_S)
            if not readable and not writable:
                raise TimeoutError("the ring stands still")
            if writable:
                left = left[self._next.send(left[: 1 << 20]) :]
            if readable:
                data = self._before.recv(min(missing, 1 << 20))
                if not data:
                    raise ConnectionError("the rank before has gone")
                missing -= len(data)
            # Many ranks share few processors: what has come meanwhile is taken at once.
            time.sleep(TICK_S if not left and time.monotonic() - begun > asleep else 0.0)

    def close(self) -> None:
        """Leave the ring."""
        self._next.close()
        self._before.close()

    def _send(self, data: bytes) -> None:
        select.select([], [self._next], [], MEET_S)
        self._next.send(data)

    def _receive(self, count: int) -> None:
        if not select.select([self._before], [], [], MEET_S)[0] or len(self._before.recv(count)) < count:
            raise ConnectionError("the rank before has gone")


def _connected(node: str, port: int) -> socket.socket:
    end = time.monotonic() + MEET_S
    while True:
        try:
            return socket.create_connection((node, port), 5.0)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    main(TcpRing())
