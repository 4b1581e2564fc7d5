"""Carries frames between two interfaces and holds each for a while: a link with delay, where the kernel has no netem.

    python3 bench/fleet/late_link.py INTERFACE OTHER MILLISECONDS

Frames are read and sent through packet sockets (packet(7)) with the kernel's header of offloads before each: sums that
are not made yet and segments that are not cut yet stay so. What is sent by this program itself is not read again.
"""

from __future__ import annotations

import selectors
import socket
import sys
import time
from collections import deque

ALL = 0x0003  # ETH_P_ALL
PACKET, IGNORE_OUTGOING, VNET_HDR = 263, 23, 15  # SOL_PACKET and two of its options, linux/if_packet.h
MOST = 1 << 17


def opened(interface: str) -> socket.socket:
    """All frames that arrive at an interface."""
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    one.setsockopt(PACKET, VNET_HDR, 1)
    one.setsockopt(PACKET, IGNORE_OUTGOING, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    one.bind((interface, ALL))
    one.setblocking(False)
    return one


def main() -> None:
    """Until it is ended."""
    ends = [opened(sys.argv[1]), opened(sys.argv[2])]
    delay = float(sys.argv[3]) / 1e3
    held: deque[tuple[float, socket.socket, bytes]] = deque()
    with selectors.DefaultSelector() as ready:
        for at, end in enumerate(ends):
            ready.register(end, selectors.EVENT_READ, ends[1 - at])
        while True:
            wait = max(0.0, held[0][0] - time.monotonic()) if held else None
            for key, _ in ready.select(wait):
                frame = ends[ends.index(key.fileobj)].recv(MOST)  # type: ignore[arg-type]
                held.append((time.monotonic() + delay, key.data, frame))
            while held and held[0][0] <= time.monotonic():
                _, end, frame = held.popleft()
                try:
                    end.send(frame)
                except OSError:
                    continue  # a full queue loses a frame, as a switch would


if __name__ == "__main__":
    main()
