"""A job for tests: RANKS processes of which the first half goes on without the others, or rests for a while.

    halves.py NCCL RANKS FAULT SECONDS FOLDER

Each step is an all-reduce of all ranks and one of each half. After 100 steps the first half calls on in its own
communicator (`subset`), sleeps in its loop (`leaves`), or rank 0 alone sleeps for SECONDS and goes on (`pause`).
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "watch"))

from communicators import communicator

FLOAT32, SUM = 7, 0
STEPS = 100


def rank(path: str, me: int, ranks: int, fault: str, seconds: float, folder: Path) -> None:
    nccl = ctypes.CDLL(path)
    values = (ctypes.c_float * 64)()
    half = ranks // 2
    world = communicator(nccl, ranks, me, folder / "world")
    mine = communicator(nccl, half, me % half, folder / f"half{me // half}")

    def all_reduce(comm: ctypes.c_void_p, count: int = 64) -> None:
        assert nccl.ncclAllReduce(values, values, ctypes.c_size_t(count), FLOAT32, SUM, comm, None) == 0

    for step in range(2 * STEPS):
        if step == STEPS and me < half and fault in {"subset", "leaves"}:
            if me == 0:
                (folder / "fault").write_text(str(time.monotonic()), encoding="ascii")
            end = time.monotonic() + seconds
            # As long on all of its ranks, whose clocks differ.
            while fault == "subset" and (me or time.monotonic() < end) and not (folder / "end").exists():
                all_reduce(mine, 32)
                time.sleep(0.01)
            if fault == "subset":
                (folder / "end").touch()
                os._exit(0)
            time.sleep(seconds)
            os._exit(0)
        if step % 40 == 39 and me == 0 and fault == "pause":
            time.sleep(seconds)
        time.sleep(0.01)
        all_reduce(world)
        all_reduce(mine)


def main() -> int:
    path, ranks, fault, seconds, folder = sys.argv[1:]
    children = []
    for number in range(int(ranks)):
        made = os.fork()
        if made == 0:
            os.environ["RANK"] = str(number)
            ctypes.CDLL(None).prctl(1, 9)
            rank(path, number, int(ranks), fault, float(seconds), Path(folder))
            os._exit(0)
        children.append(made)
    return max(abs(os.waitstatus_to_exitcode(os.waitpid(each, 0)[1])) for each in children)


if __name__ == "__main__":
    sys.exit(main())
