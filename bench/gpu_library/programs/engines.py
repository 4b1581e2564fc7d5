"""What copy engines do, of all GPUs of one process at once: push, fetch and copy locally, alone and beside products.

    python3 bench/gpu_library/programs/engines.py [--budget 60]
    python3 bench/gpu_library/programs/engines.py --splits      one copy cut up among streams, issued by one thread

Prints a table. The rates are of what leaves a GPU or enters it, in GB/s (10^9 bytes); the slowest GPU's time counts.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

MIB = 1 << 20
ROUNDS = 8
PRODUCTS = 8
HOST_AHEAD_CYCLES = 8_000_000  # 4 ms, in which the host puts all copies into the streams


class Engines:
    """Buffers and streams on every GPU, and a thread for each of them."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.gpus = torch.cuda.device_count()
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._driver.cuMemcpyDtoDAsync_v2.argtypes = [
            ctypes.c_uint64,
            ctypes.c_uint64,
            ctypes.c_size_t,
            ctypes.c_void_p,
        ]
        self._driver.cuStreamBatchMemOp_v2.argtypes = [
            ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p, ctypes.c_uint
        ]  # fmt: skip
        each = range(self.gpus)
        self.buffers = [torch.zeros(2 * 256 * MIB, dtype=torch.uint8, device=gpu) for gpu in each]
        self.words = [torch.zeros(64, dtype=torch.int32, device=gpu) for gpu in each]
        self.streams = [[torch.cuda.Stream(gpu) for _ in range(4)] for gpu in each]
        left = [torch.randn(8192, 8192, device=gpu, dtype=torch.bfloat16) for gpu in each]
        right = [torch.randn(8192, 4096, device=gpu, dtype=torch.bfloat16) for gpu in each]
        self._operands = list(zip(left, right, [torch.mm(a, b) for a, b in zip(left, right, strict=True)], strict=True))
        for gpu in each:  # opens the ways between them
            for other in each:
                self.buffers[gpu][:16].copy_(self.buffers[other][:16])
        self._sync()

    def _sync(self) -> None:
        for gpu in range(self.gpus):
            self.torch.cuda.synchronize(gpu)

    def product(self, gpu: int) -> None:
        left, right, out = self._operands[gpu]
        with self.torch.cuda.stream(self.streams[gpu][3]):
            self.torch.mm(left, right, out=out)

    def copy(self, to: int, from_: int, size: int, stream: Any, half: int = 0) -> None:
        """From the first half of a buffer to a place in the second half of another one."""
        begin = self.buffers[to].data_ptr() + 256 * MIB + half * size
        code = self._driver.cuMemcpyDtoDAsync_v2(begin, self.buffers[from_].data_ptr(), size, stream.cuda_stream)
        if code:
            raise RuntimeError(f"cuMemcpyDtoDAsync says {code}")

    def copy_word(self, to: int, from_: int, stream: Any) -> None:
        """The last word of one GPU into the first of another."""
        mine = self.words[from_].data_ptr() + 63 * 4
        code = self._driver.cuMemcpyDtoDAsync_v2(self.words[to].data_ptr(), mine, 4, stream.cuda_stream)
        if code:
            raise RuntimeError(f"cuMemcpyDtoDAsync says {code}")

    def words_step(self, stream: Any, steps: list[tuple[int, int, int]]) -> None:
        """(operation, address, value): 1 waits until equal, 2 writes."""
        packed = (ctypes.c_uint64 * (6 * len(steps)))()
        for i, (operation, address, value) in enumerate(steps):
            flags = 1 if operation == 1 else 0
            packed[6 * i : 6 * i + 6] = [operation, address, value, flags, 0, 0]
        code = self._driver.cuStreamBatchMemOp_v2(stream.cuda_stream, len(steps), packed, 0)
        if code:
            raise RuntimeError(f"cuStreamBatchMemOp says {code}")

    def run(self, work: Callable[[int, int], None], rounds: int, products: int) -> tuple[float, float]:
        """Milliseconds of `rounds` of work and of the products beside, each on the slowest GPU."""
        torch = self.torch
        self._sync()
        barrier = threading.Barrier(self.gpus)
        found: list[tuple[float, float]] = [(0.0, 0.0)] * self.gpus
        failures: list[BaseException] = []

        def one(gpu: int) -> None:
            torch.cuda.set_device(gpu)
            begin = torch.cuda.Event(enable_timing=True)
            ends = [torch.cuda.Event(enable_timing=True) for _ in self.streams[gpu]]
            barrier.wait()
            begin.record(self.streams[gpu][0])
            for stream in self.streams[gpu][1:]:
                stream.wait_event(begin)
            for turn in range(max(rounds, products)):
                if turn < rounds:
                    work(gpu, turn)
                if turn < products:
                    self.product(gpu)
            for stream, end in zip(self.streams[gpu], ends, strict=True):
                end.record(stream)
            torch.cuda.synchronize(gpu)
            times = [begin.elapsed_time(end) for end in ends]
            found[gpu] = (max(times[:3]), times[3])

        def guarded(gpu: int) -> None:
            try:
                one(gpu)
            except BaseException as error:  # noqa: BLE001 - told by the caller
                failures.append(error)

        threads = [threading.Thread(target=guarded, args=(gpu,)) for gpu in range(self.gpus)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return max(each[0] for each in found), max(each[1] for each in found)


def cases(engines: Engines, size: int) -> dict[str, tuple[Callable[[int, int], None], float]]:
    """By name: the work of a round, and the bytes that leave or enter a GPU in it."""
    gpus = engines.gpus

    def push(streams: int) -> Callable[[int, int], None]:
        def work(gpu: int, _turn: int) -> None:
            for i in range(1, gpus):
                engines.copy((gpu + i) % gpus, gpu, size, engines.streams[gpu][(i - 1) % streams], half=gpu)

        return work

    def fetch(streams: int) -> Callable[[int, int], None]:
        def work(gpu: int, _turn: int) -> None:
            for i in range(1, gpus):
                engines.copy(gpu, (gpu + i) % gpus, size, engines.streams[gpu][(i - 1) % streams], half=i)

        return work

    def push_and_fetch(gpu: int, turn: int) -> None:
        push(1)(gpu, turn)
        for i in range(1, gpus):
            engines.copy(gpu, (gpu + i) % gpus, size, engines.streams[gpu][1], half=gpus + i)

    def local(gpu: int, _turn: int) -> None:
        engines.copy(gpu, gpu, size, engines.streams[gpu][0])

    def told(gpu: int, _turn: int) -> None:
        """Push with a word behind each copy, and wait for the words of the others."""
        stream = engines.streams[gpu][0]
        mine = engines.words[gpu].data_ptr()
        for i in range(1, gpus):
            to = (gpu + i) % gpus
            engines.copy(to, gpu, size, stream, half=gpu)
            engines.words_step(stream, [(2, engines.words[to].data_ptr() + 4 * gpu, 1)])
        others = [each for each in range(gpus) if each != gpu]
        engines.words_step(stream, [(1, mine + 4 * each, 1) for each in others])
        engines.words_step(stream, [(2, mine + 4 * each, 0) for each in others])
        # Nobody may tell again before all have seen it.
        engines.words_step(stream, [(2, engines.words[each].data_ptr() + 4 * (8 + gpu), 1) for each in others])
        engines.words_step(stream, [(1, mine + 4 * (8 + each), 1) for each in others])
        engines.words_step(stream, [(2, mine + 4 * (8 + each), 0) for each in others])

    whole = float(size * (gpus - 1))
    return {
        "push, 1 stream": (push(1), whole), "push, 2 streams": (push(2), whole), "fetch, 1 stream": (fetch(1), whole),
        "fetch, 2 streams": (fetch(2), whole), "push and fetch": (push_and_fetch, 2 * whole),
        "local": (local, float(size)), "push with words": (told, whole),
    }  # fmt: skip


def hops(engines: Engines) -> None:
    """A word from GPU to GPU and back, told by streams that wait for it: written, behind a copy, and itself copied."""
    torch = engines.torch
    rounds = 40
    streams = [torch.cuda.Stream(gpu) for gpu in range(2)]
    for word in (0, 1):  # what is copied where a word goes by a copy: 1 lies in the last word of each GPU
        engines.words[word][63] = 1
    for copied, by_copy in ((0, False), (64 << 10, False), (0, True), (64 << 10, True)):
        engines._sync()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.set_device(0)
        with torch.cuda.stream(streams[0]):
            torch.cuda._sleep(HOST_AHEAD_CYCLES)
        begin.record(streams[0])
        for _ in range(rounds):
            for gpu in (0, 1):
                torch.cuda.set_device(gpu)
                mine, other = (engines.words[each].data_ptr() for each in (gpu, 1 - gpu))
                if gpu == 1:
                    engines.words_step(streams[1], [(1, mine, 1), (2, mine, 0)])
                if copied:
                    engines.copy(1 - gpu, gpu, copied, streams[gpu])
                if by_copy:
                    engines.copy_word(1 - gpu, gpu, streams[gpu])
                else:
                    engines.words_step(streams[gpu], [(2, other, 1)])
            torch.cuda.set_device(0)
            mine = engines.words[0].data_ptr()
            engines.words_step(streams[0], [(1, mine, 1), (2, mine, 0)])
        end.record(streams[0])
        engines._sync()
        us = begin.elapsed_time(end) * 1e3 / (2 * rounds)
        how = "copied" if by_copy else "written"
        print(f"a word to the other GPU, {how}, {copied >> 10} KiB copied before it: {us:.1f} us")


def splits(engines: Engines, until: float) -> int:
    """Copies to the next GPU, each in equal parts on several streams at once; alone and beside products."""
    torch, gpus = engines.torch, engines.gpus
    streams = [[torch.cuda.Stream(gpu) for _ in range(8)] for gpu in range(gpus)]
    lone = split_time(engines, streams, Split(), PRODUCTS)[1]
    print(f"{gpus} GPUs, one product {lone / PRODUCTS * 1e3:.0f} us")
    print("| MiB | streams | directions | us | GB/s each way | products slower by |\n|---:|---:|---|---:|---:|---:|")
    for mib in (2, 4, 6, 12, 16, 32, 64):
        for parts in (1, 2, 3, 4):
            for name, ways in {"push": (1,), "fetch": (-1,), "both": (1, -1)}.items():
                if time.monotonic() > until:
                    print("no time left")
                    return 0
                size = mib * MIB // parts // 16 * 16
                split = Split(ways, size, parts)
                alone = median(split_time(engines, streams, split, 0)[0] for _ in range(4)) / ROUNDS
                beside = median(split_time(engines, streams, split, PRODUCTS)[1] for _ in range(3))
                print(f"| {mib} | {parts} | {name} | {alone * 1e3:.1f} | {size * parts / alone / 1e6:.0f} "
                      f"| {beside / lone - 1:+.1%} |", flush=True)  # fmt: skip
    return 0


@dataclass(frozen=True)
class Split:
    """Copies of `size` bytes in each way (1: push to the next GPU, -1: fetch from it), `parts` of them side by side."""

    ways: tuple[int, ...] = ()
    size: int = 0
    parts: int = 0


def split_time(engines: Engines, streams: list[list[Any]], split: Split, products: int) -> tuple[float, float]:
    """Milliseconds of the copies of all rounds and of the products, on the slowest GPU; a round begins behind the last.

    Beside products the copies go on for as long as the products take.
    """
    torch, gpus = engines.torch, engines.gpus
    rounds = (
        (ROUNDS if not products else max(1, 5 * MIB * 256 // max(split.size * split.parts, 1))) if split.ways else 0
    )
    engines._sync()
    begins = [torch.cuda.Event(enable_timing=True) for _ in range(gpus)]
    ends = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(gpus)]
    events = [[torch.cuda.Event() for _ in range(8)] for _ in range(gpus)]
    for gpu in range(gpus):
        torch.cuda.set_device(gpu)
        with torch.cuda.stream(streams[gpu][0]):
            torch.cuda._sleep(HOST_AHEAD_CYCLES)
        begins[gpu].record(streams[gpu][0])
        engines.streams[gpu][3].wait_event(begins[gpu])
    for turn in range(max(rounds, products)):
        for gpu in range(gpus):
            torch.cuda.set_device(gpu)
            first = streams[gpu][0]
            if turn < rounds:
                events[gpu][0].record(first)
                for way_number, way in enumerate(split.ways):
                    other = (gpu + 1) % gpus
                    for part in range(split.parts):
                        number = way_number * split.parts + part
                        stream = streams[gpu][number]
                        if number:
                            stream.wait_event(events[gpu][0])
                        to, from_ = (other, gpu) if way == 1 else (gpu, other)
                        engines.copy(to, from_, split.size, stream, half=part + (split.parts if way == 1 else 0))
                        if number:
                            events[gpu][number].record(stream)
                            first.wait_event(events[gpu][number])
            if turn < products:
                engines.product(gpu)
    for gpu in range(gpus):
        ends[gpu][0].record(streams[gpu][0])
        ends[gpu][1].record(engines.streams[gpu][3])
    engines._sync()
    times = [[begins[gpu].elapsed_time(end) for end in ends[gpu]] for gpu in range(gpus)]
    return max(each[0] for each in times), max(each[1] for each in times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=60, metavar="S")
    parser.add_argument("--splits", action="store_true", help="one copy cut up among streams")
    args = parser.parse_args()
    import torch

    until = time.monotonic() + args.budget
    engines = Engines(torch)
    if args.splits:
        if engines.gpus > 1:
            hops(engines)
        return splits(engines, until)
    products = median(engines.run(lambda _gpu, _turn: None, 0, PRODUCTS)[1] for _ in range(3))
    print(f"{engines.gpus} GPUs, one product {products / PRODUCTS * 1e3:.0f} us")
    print(
        "| MiB to each | what | us | GB/s | beside products us | products slower by |\n|---:|---|---:|---:|---:|---:|"
    )
    for mib in (1, 4, 8, 16, 32):
        for name, (work, size) in cases(engines, mib * MIB).items():
            if time.monotonic() > until:
                print("no time left")
                return 0
            try:
                engines.run(work, 2, 0)
                alone = median(engines.run(work, ROUNDS, 0)[0] for _ in range(3)) / ROUNDS
                rounds = max(ROUNDS, min(200, round(products / alone)))
                beside = [engines.run(work, rounds, PRODUCTS) for _ in range(3)]
            except RuntimeError as error:
                print(f"| {mib} | {name} | {error} |")
                continue
            slower = median(each[1] for each in beside) / products - 1
            us = median(each[0] for each in beside) / rounds * 1e3
            print(f"| {mib} | {name} | {alone * 1e3:.1f} | {size / alone / 1e6:.0f} | {us:.1f} | {slower:+.1%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
