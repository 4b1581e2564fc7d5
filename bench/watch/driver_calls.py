"""What the functions of the CUDA driver cost that the recorder may call beside a call of NCCL, on an idle GPU.

    python3 bench/watch/driver_calls.py [--calls 20000]

Each figure is the least of nine rounds, less what Python takes to call a function of the driver that does next to
nothing (cuDriverGetVersion). `the first event` is one call, in a process that had none.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

from busbw.watch.gpu_memory import Gpu  # noqa: E402

ROUNDS = 9
PAIRS = 6
BUSY_BYTES, BUSY_CALLS = 256 << 20, 40
"""About four milliseconds of work in a GPU's memory."""


def main() -> int:
    """Options as in the text above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000, help="of a round")
    args = parser.parse_args()
    gpu = Gpu(0)
    stream, driver = gpu.stream(), ctypes.CDLL("libcuda.so.1")
    number, event, kept = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    mode = ctypes.c_int(2)
    begun = time.perf_counter_ns()
    driver.cuEventCreate(ctypes.byref(kept), 0)
    driver.cuEventRecord(kept, stream)
    print(f"the first event, created and recorded: {(time.perf_counter_ns() - begun) / 1e3:.1f} us")
    begun = time.perf_counter_ns()
    driver.cuEventCreate(ctypes.byref(event), 0)
    print(f"the second one created: {(time.perf_counter_ns() - begun) / 1e3:.1f} us")
    gpu.wait(stream)
    print_timed_pairs(driver, gpu, stream)
    empty = each_ns(args.calls, lambda: driver.cuDriverGetVersion(ctypes.byref(number)))
    functions: dict[str, Callable[[], object]] = {
        "cuStreamIsCapturing": lambda: driver.cuStreamIsCapturing(stream, ctypes.byref(number)),
        "cuThreadExchangeStreamCaptureMode": lambda: driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode)),
        "cuCtxGetCurrent": lambda: driver.cuCtxGetCurrent(ctypes.byref(event)),
        "cuEventQuery": lambda: driver.cuEventQuery(kept),
    }
    for name, call in functions.items():
        print(f"{name}: {each_ns(args.calls, call) - empty:.0f} ns")
    # Few, so that none waits for room in the stream.
    print(f"cuEventRecord: {each_ns(200, lambda: driver.cuEventRecord(kept, stream), gpu, stream) - empty:.0f} ns")
    print(f"the clock: {each_ns(args.calls, time.monotonic_ns) - each_ns(args.calls, int):.0f} ns")
    return 0


def print_timed_pairs(driver: ctypes.CDLL, gpu: Gpu, stream: ctypes.c_void_p) -> None:
    """What each step of a timed call takes the first times, while the stream has work."""
    memory = gpu.allocate(BUSY_BYTES)
    for number in range(PAIRS):
        for _ in range(BUSY_CALLS):
            gpu.clear(memory, BUSY_BYTES, stream)
        pair, took, between = [ctypes.c_void_p(), ctypes.c_void_p()], [], ctypes.c_float()
        for event in pair:
            begun = time.perf_counter_ns()
            driver.cuEventCreate(ctypes.byref(event), 0)
            made = time.perf_counter_ns()
            driver.cuEventRecord(event, stream)
            took += [made - begun, time.perf_counter_ns() - made]
        begun = time.perf_counter_ns()
        driver.cuEventQuery(pair[1])
        took.append(time.perf_counter_ns() - begun)
        gpu.wait(stream)
        begun = time.perf_counter_ns()
        driver.cuEventElapsedTime(ctypes.byref(between), *pair)
        took.append(time.perf_counter_ns() - begun)
        words = ", ".join(f"{each / 1e3:.1f}" for each in took)
        print(f"pair {number + 1}, us: begin made, noted, end made, noted, asked, elapsed: {words}")


def each_ns(calls: int, call: Callable[[], object], gpu: Gpu | None = None, stream: object = None) -> float:
    """The least of the rounds; between them the stream runs empty."""
    rounds = []
    for _ in range(ROUNDS):
        begun = time.perf_counter_ns()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter_ns() - begun) / calls)
        if gpu:
            gpu.wait(stream)  # type: ignore[arg-type] # a handle of the driver
    return min(rounds)


if __name__ == "__main__":
    sys.exit(main())
