#!/usr/bin/env python3
"""As ring_over_mpi.py, but one node's rank stops for ever and another's is killed, half a second after their start."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent)]

from ring_over_mpi import Ring, main  # noqa: E402

SENT = {"FLEET_HANGS": signal.SIGSTOP, "FLEET_DIES": signal.SIGKILL}

if __name__ == "__main__":
    for name, sent in SENT.items():
        if os.environ.get(name) == socket.gethostname():
            threading.Timer(0.5, os.kill, (os.getpid(), sent)).start()
    main(Ring())
