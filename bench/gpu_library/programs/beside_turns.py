"""Steps of beside.py in alternating starts, in less time: PyTorch is imported once, and each start forks its ranks.

    LD_PRELOAD=build/lib/libbusbw_gpu.so python3 bench/gpu_library/programs/beside_turns.py --ranks 4 --seconds 200 \\
        --side "staged:BUSBW_TABLE=bench/gpu_library/programs/staged.table" ddp fsdp_large

The sides are NCCL (BUSBW_GPU=0: our library hands everything on), ours, and ours with other settings. `--only
NAME:WHAT,...` gives a side some of the steps. A round has each side once, and every other round goes backwards. One
JSON object is printed for each start and step as it is measured, and a table at the end, whenever that comes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import beside

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from gpu_library.stages.beside import NCCL, Sides, sides

from busbw.analysis.verdict import of_rounds

START_SECONDS = 60.0
Times = dict[str, dict[str, dict[int, float]]]
"""By step, then by side, then by round: milliseconds of a step."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", help="steps of beside.py")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=600.0, help="no start begins that would not end by then (600)")
    parser.add_argument("--side", action="append", default=[], metavar="NAME:VARIABLE=VALUE;...")
    parser.add_argument("--only", action="append", default=[], metavar="NAME:WHAT,...")
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--amount", choices=tuple(beside.AMOUNTS), default="large")
    args = parser.parse_args()
    import torch.distributed.fsdp  # noqa: F401 - once, for all ranks that are forked

    asked = {name: {"BUSBW_GPU": "0"} if name == NCCL else settings for name, settings in sides(args.side).items()}
    only = {name: tuple(what.split(",")) for name, _, what in (each.partition(":") for each in args.only)}
    turns = Turns(asked, {name: only.get(name, tuple(args.what)) for name in asked}, args)
    turns.run()
    print("\n".join(turns.table()), flush=True)
    return 1 if turns.failed else 0


class Turns:
    """The starts, and what they took."""

    def __init__(self, asked: Sides, what: Mapping[str, Sequence[str]], args: argparse.Namespace) -> None:
        self._sides, self._what, self._args = asked, what, args
        self._times: Times = defaultdict(lambda: defaultdict(dict))
        self._longest: dict[str, float] = {}
        self._end = time.monotonic() + args.seconds
        self.failed = 0

    def run(self) -> None:
        names = list(self._sides)
        for number in range(self._args.starts):
            for side in names if number % 2 == 0 else names[::-1]:
                began = time.monotonic()
                if began + self._longest.get(side, 0.0) > self._end:
                    print(f"left out for want of time: {side}, start {number}", flush=True)
                    continue
                self._start(side, number)
                self._longest[side] = max(self._longest.get(side, 0.0), time.monotonic() - began)

    def _start(self, side: str, number: int) -> None:
        reader, writer = os.pipe()
        common = {"WORLD_SIZE": str(self._args.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
        sys.stdout.flush()
        ranks = []
        for rank in range(self._args.ranks):
            process = os.fork()
            if process == 0:
                os.close(reader)
                own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                self._be_rank({**common, **own, **self._sides[side]}, self._what[side], writer)
            ranks.append(process)
        os.close(writer)
        bad = _wait_for(ranks, min(START_SECONDS, max(1.0, self._end - time.monotonic() + 10)))
        with os.fdopen(reader) as said:
            for line in said.read().splitlines():
                found = json.loads(line)
                self._times[found["what"]][side][number] = found["step_ms"]
                print(json.dumps({"side": side, "start": number, **found}), flush=True)
        if bad:
            self.failed += 1
            print(f"{side}, start {number}: {bad}", flush=True)

    def _be_rank(self, environment: Mapping[str, str], what: Sequence[str], writer: int) -> None:
        """Does not return: what the parent would do at its end is not a rank's."""
        code = 1
        try:
            os.environ.update(environment)
            for found in beside.measured(what, self._args.backend, self._args.amount, (), without=False):
                if found["rank"] == 0:  # a short line is written at once
                    os.write(writer, (json.dumps(found) + "\n").encode())
            code = 0
        except Exception as error:  # noqa: BLE001 - a rank's end is the parent's to tell
            print(f"rank {environment['RANK']}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)

    def table(self) -> list[str]:
        lines = ["| step | ranks | side | ms, start by start | median | speed against NCCL, start by start |",
                 "|---|---:|---|---|---:|---|"]  # fmt: skip
        for what, rows in self._times.items():
            for side, times in rows.items():
                before = rows.get(NCCL, {})
                logs = [math.log(before[number] / ms) for number, ms in times.items() if number in before]
                verdict = of_rounds(logs).words(side) if side != NCCL and logs else ""
                every, middle = ", ".join(f"{ms:.2f}" for ms in times.values()), median(times.values())
                lines.append(f"| {what} | {self._args.ranks} | {side} | {every} | {middle:.2f} | {verdict} |")
        return lines


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(processes: Sequence[int], seconds: float) -> str:
    """Ends all of them where one fails or the time is up; what went wrong, or nothing."""
    left, bad, end = set(processes), "", time.monotonic() + seconds
    while left:
        for process in tuple(left):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                left.discard(process)
                code = os.waitstatus_to_exitcode(status)
                if code and not bad:
                    bad = f"rank {processes.index(process)} ended with {code}"
        if left and not bad and time.monotonic() > end:
            bad = f"not done after {seconds:.0f} s"
        if bad:
            for process in left:
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)
    return bad


if __name__ == "__main__":
    sys.exit(main())
