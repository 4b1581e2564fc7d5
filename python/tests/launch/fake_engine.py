"""Stands in for the engine in tests of launching: does what its arguments say and tells what it was given."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

RANK = int(os.environ.get("BUSBW_RANK", "0"))


def option(name: str, default: str = "") -> str:
    """Value of an option of this process: `--name VALUE`."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def tell() -> None:
    """Write what this process was given to the folder named by --tell."""
    if folder := option("--tell"):
        given = {name: value for name, value in os.environ.items() if name.startswith("BUSBW_")}
        told = {"argv": sys.argv, "environment": given, "cpus": sorted(os.sched_getaffinity(0)), "pid": os.getpid()}
        target = Path(folder) / f"{RANK}.json"
        target.with_suffix(".part").write_text(json.dumps(told))
        target.with_suffix(".part").rename(target)


def wait_for_the_others() -> None:
    """Until every rank has told what it was given: on a busy machine one may not have begun when another ends."""
    folder, ranks = option("--tell"), int(os.environ.get("BUSBW_WORLD_SIZE", "1"))
    end = time.monotonic() + 60
    while folder and not all((Path(folder) / f"{rank}.json").exists() for rank in range(ranks)):
        assert time.monotonic() < end, "not all ranks began"
        time.sleep(0.01)


def meet() -> None:
    """Every rank greets rank 0 on the socket that the launcher made."""
    if RANK == 0:
        with socket.socket(fileno=int(os.environ["BUSBW_LISTEN_FD"])) as listener:
            for _ in range(int(os.environ["BUSBW_WORLD_SIZE"]) - 1):
                with listener.accept()[0] as peer:
                    assert peer.recv(64).decode() == os.environ["BUSBW_SECRET"]
        print("all ranks met", flush=True)
    else:
        host, port = os.environ["BUSBW_ADDRESS"].split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(os.environ["BUSBW_SECRET"].encode())


def main() -> int:
    """Do as told."""
    if record := option("--record"):
        Path(record).write_text('{"kind":"run"}\n')
    if "--deaf" in sys.argv:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    if "--polite" in sys.argv:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: sys.exit(100 + number))
    tell()
    if "--meet" in sys.argv:
        meet()
    if "--speak" in sys.argv:
        print(f"out of {RANK}", flush=True)
        print(f"err of {RANK}", file=sys.stderr, flush=True)
    if option("--ill-rank", "-1") == str(RANK):
        wait_for_the_others()
        time.sleep(float(option("--ill-after", "0")))
        if number := option("--ill-signal"):
            os.kill(os.getpid(), int(number))
        return int(option("--ill-code", "1"))
    # In pieces: a signal that comes just before a sleep begins does not cut it short.
    end = time.monotonic() + float(option("--sleep", "0"))
    with contextlib.suppress(KeyboardInterrupt):
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
    return int(option("--code", "0"))


if __name__ == "__main__":
    sys.exit(main())
