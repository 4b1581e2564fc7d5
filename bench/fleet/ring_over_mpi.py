#!/usr/bin/env python3
"""Measures a ring of nodes over MPI for `busbw fleet run --program`: each rank sends to the next and receives at once.

Open MPI's library is used as it is, through ctypes, so that nothing must be compiled. A sample is the bytes that each
rank sent, divided by the time until the last had all: the slowest link of the ring decides it. The message goes in
pieces below Open MPI's eager limit (64 KiB): the answers of its rendezvous would wait behind data in a shaped queue.
Waiting ranks sleep, since many ranks share few processors here: through most of what earlier samples took they do not
even look, since a whole message lies in the kernel's buffers and moves without them.
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Protocol

PIECE = 50_000
TICK_S = 0.002  # a hundredth of the shortest sample; shorter ones cost processors that ranks share
ASLEEP = 0.7  # of the shortest sample so far: a rank that looks all the time costs what moves the data
MESSAGES = 8
P = ctypes.c_void_p


class Ring:
    """The ranks of MPI_COMM_WORLD."""

    def __init__(self) -> None:
        self._mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
        self._mpi.MPI_Init(None, None)
        self._world, self._byte = self._handle("ompi_mpi_comm_world"), self._handle("ompi_mpi_byte")
        rank, size = ctypes.c_int(), ctypes.c_int()
        self._mpi.MPI_Comm_rank(self._world, ctypes.byref(rank))
        self._mpi.MPI_Comm_size(self._world, ctypes.byref(size))
        self.rank, self.size = rank.value, size.value

    def _handle(self, name: str) -> P:
        return P(ctypes.addressof(ctypes.c_char.in_dll(self._mpi, name)))

    def _wait(self, requests: ctypes.Array[P], asleep: float = 0.0) -> None:
        done = ctypes.c_int()
        if asleep:
            self._mpi.MPI_Testall(len(requests), requests, ctypes.byref(done), None)
            time.sleep(asleep)
        while not done.value:
            self._mpi.MPI_Testall(len(requests), requests, ctypes.byref(done), None)
            if not done.value:
                time.sleep(TICK_S)

    def barrier(self) -> None:
        """All ranks are here."""
        request = (P * 1)()
        self._mpi.MPI_Ibarrier(self._world, ctypes.byref(request))
        self._wait(request)

    def shift(self, out: ctypes.Array[ctypes.c_char], into: ctypes.Array[ctypes.c_char], asleep: float = 0.0) -> None:
        """Send all of `out` to the next rank while the previous one's arrives, which takes longer than `asleep`."""
        pieces = [(at, min(PIECE, len(out) - at)) for at in range(0, len(out), PIECE)]
        requests = (P * (2 * len(pieces)))()
        to, of, width = (self.rank + 1) % self.size, (self.rank - 1) % self.size, ctypes.sizeof(P)
        for number, (at, length) in enumerate(pieces):
            self._mpi.MPI_Irecv(ctypes.byref(into, at), length, self._byte, of, 0, self._world,
                                ctypes.byref(requests, 2 * number * width))  # fmt: skip
        for number, (at, length) in enumerate(pieces):
            self._mpi.MPI_Isend(ctypes.byref(out, at), length, self._byte, to, 0, self._world,
                                ctypes.byref(requests, (2 * number + 1) * width))  # fmt: skip
        self._wait(requests, asleep)

    def close(self) -> None:
        """Leave MPI."""
        self._mpi.MPI_Finalize()


class AnyRing(Protocol):
    """What is measured, whatever moves the data."""

    rank: int

    def barrier(self) -> None:
        """All ranks are here."""

    def shift(self, out: ctypes.Array[ctypes.c_char], into: ctypes.Array[ctypes.c_char], asleep: float = 0.0) -> None:
        """Send to the next rank and receive from the previous one."""

    def close(self) -> None:
        """Leave."""


def quickest_message(ring: AnyRing) -> float:
    """Messages a second: of 8 bytes to the next rank, the quickest of some. Others wait for a processor."""
    out, into = ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
    took = []
    for _ in range(MESSAGES):
        ring.barrier()
        begun = time.perf_counter()
        ring.shift(out, into)
        ring.barrier()
        took.append(time.perf_counter() - begun)
    return 1 / min(took)


def main(ring: AnyRing) -> None:
    """As many samples as asked for, written by rank 0."""
    size = int(os.environ.get("BUSBW_FLEET_SIZE", "400000"))
    out, into = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    samples: list[float] = []
    quickest = 0.0
    late = os.environ.get("BUSBW_FLEET_CHANNEL", "").startswith("latency")
    for turn in range(1 + int(os.environ["BUSBW_FLEET_REPEATS"])):
        if late:
            samples += [quickest_message(ring)] if turn else []
            continue
        ring.barrier()
        begun = time.perf_counter()
        ring.shift(out, into, ASLEEP * quickest)
        ring.barrier()
        took = time.perf_counter() - begun
        if turn:  # the first opens connections
            samples.append(size / took / 1e9)
            quickest = min(quickest or took, took)
    if ring.rank == 0:
        Path(os.environ["BUSBW_FLEET_SAMPLES"]).write_text("".join(f"{sample:.9f}\n" for sample in samples))
    ring.close()


if __name__ == "__main__":
    main(Ring())
