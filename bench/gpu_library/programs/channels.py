"""Whose work waits while a stream waits: does a stream that waits for a word, or for a kernel, hold up other streams?

    python3 bench/gpu_library/programs/channels.py [--streams 40]

The driver maps streams to a few hardware channels. What waits in a channel may hold up what other streams put there
behind it. One stream waits (for a word in memory, for a kernel that spins, for that and an event behind it), and each
other one then gets a small kernel. Prints how many of them had run before the wait ended.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from typing import Any

SPIN_CYCLES = 600_000_000  # about 0.3 s at 1.98 GHz
LOOK_AFTER = 0.12  # seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=40)
    args = parser.parse_args()
    import torch

    driver = ctypes.CDLL("libcuda.so.1")
    wait_value = driver.cuStreamWaitValue32_v2
    wait_value.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint]
    torch.cuda.set_device(0)
    streams = [raw_stream(torch, driver) for _ in range(args.streams)]
    cells = [torch.zeros(1, device="cuda") for _ in streams]
    word = torch.zeros(16, dtype=torch.int32).pin_memory()
    spinning = torch.cuda.Event()
    for stream, cell in zip(streams, cells, strict=True):
        with torch.cuda.stream(stream):
            cell.add_(1)
            cell.mul_(1)  # a kernel is loaded at its first use, and loading waits for the GPU
    torch.cuda._sleep(1000)
    torch.cuda.synchronize()

    def by_word(stream: Any) -> None:
        word.zero_()
        code = wait_value(stream.cuda_stream, word.data_ptr(), 1, 1)
        if code:
            raise SystemExit(f"cuStreamWaitValue32 says {code}")

    def by_kernel(stream: Any) -> None:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(SPIN_CYCLES)

    def by_kernel_and_event(stream: Any) -> None:
        by_kernel(stream)
        spinning.record(stream)

    def by_kernel_and_next(stream: Any) -> None:
        by_kernel(stream)
        with torch.cuda.stream(stream):
            cells[streams.index(stream)].add_(1)

    print(
        "| what the stream waits for | waiting streams | others that ran | others that did not | default stream ran |"
    )
    print("|---|---:|---:|---:|---:|")
    for name, begin in {
        "a word": by_word,
        "a kernel": by_kernel,
        "a kernel, an event behind it": by_kernel_and_event,
        "a kernel, a kernel behind it": by_kernel_and_next,
    }.items():
        ran, held, by_default = tries(torch, streams, cells, begin, word)
        print(f"| {name} | {min(12, len(streams))} | {ran} | {held} | {by_default} |", flush=True)
    return 0


def raw_stream(torch: Any, driver: ctypes.CDLL) -> Any:
    """A stream of its own: PyTorch's come from a pool."""
    handle = ctypes.c_void_p()
    if driver.cuStreamCreate(ctypes.byref(handle), 1):
        raise SystemExit("cuStreamCreate failed")
    return torch.cuda.ExternalStream(handle.value)


def tries(torch: Any, streams: list[Any], cells: list[Any], begin: Callable[[Any], None], word: Any) -> tuple[int, ...]:
    """Other streams that ran, others that did not, and how often the default one ran, over a dozen waiting streams."""
    ran = held = by_default = 0
    for waiting in range(min(12, len(streams))):
        begin(streams[waiting])
        done = []
        for number, (stream, cell) in enumerate(zip(streams, cells, strict=True)):
            if number == waiting:
                continue
            with torch.cuda.stream(stream):
                cell.add_(1)
            done.append(stream)
        default = torch.cuda.default_stream()
        cells[-1].mul_(1)
        time.sleep(LOOK_AFTER)
        passed = sum(1 for stream in done if stream.query())
        by_default += int(default.query())
        ran, held = ran + passed, held + len(done) - passed
        word.fill_(1)
        torch.cuda.synchronize()
    return ran, held, by_default


if __name__ == "__main__":
    raise SystemExit(main())
