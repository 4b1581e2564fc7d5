"""CuPy's own NCCL bindings over all GPUs in one process, compared with NumPy."""

from __future__ import annotations

import sys
from typing import Any

try:
    import cupy
    import numpy as np
    from cupy.cuda import nccl
except ImportError as error:
    print(f"no CuPy with NCCL: {error}")
    sys.exit(77)


def on_all(gpus: int, call: Any) -> None:
    nccl.groupStart()
    for gpu in range(gpus):
        with cupy.cuda.Device(gpu):
            call(gpu)
    nccl.groupEnd()


def main() -> int:
    gpus = cupy.cuda.runtime.getDeviceCount()
    if gpus < 2 or not getattr(nccl, "available", True):
        print(f"CuPy sees {gpus} GPUs, NCCL available: {getattr(nccl, 'available', True)}")
        return 77
    comms = nccl.NcclCommunicator.initAll(list(range(gpus)))
    for count in (8, 4096, 262144):
        if wrong := wrong_of(comms, count):
            print(f"WRONG: {wrong}")
            return 1
    print(f"right: CuPy {cupy.__version__}, NCCL {nccl.get_version()}, {gpus} GPUs")
    return 0


def wrong_of(comms: list[Any], count: int) -> str:
    """The first collective whose result is not right, or nothing."""
    gpus = len(comms)
    given = np.random.default_rng(count).integers(-8, 8, (gpus, gpus * count)).astype(np.float32)
    null = cupy.cuda.Stream.null.ptr
    sends, outs = [], []
    for gpu in range(gpus):
        with cupy.cuda.Device(gpu):
            sends.append(cupy.asarray(given[gpu]))
            outs.append(cupy.zeros(gpus * gpus * count, cupy.float32))
    f32, add, n = nccl.NCCL_FLOAT32, nccl.NCCL_SUM, gpus * count

    def send(gpu: int) -> int:
        return int(sends[gpu].data.ptr)

    def out(gpu: int) -> int:
        return int(outs[gpu].data.ptr)

    cases: dict[str, tuple[Any, Any]] = {
        "all_reduce": (lambda g: comms[g].allReduce(send(g), out(g), n, f32, add, null), [given.sum(0)] * gpus),
        "all_gather": (lambda g: comms[g].allGather(send(g), out(g), n, f32, null), [given.ravel()] * gpus),
        "reduce_scatter": (
            lambda g: comms[g].reduceScatter(send(g), out(g), count, f32, add, null),
            list(given.sum(0).reshape(gpus, count)),
        ),
        "broadcast": (lambda g: comms[g].broadcast(send(g), out(g), n, f32, 1, null), [given[1]] * gpus),
    }
    for name, (call, wanted) in cases.items():
        on_all(gpus, call)
        for gpu in range(gpus):
            with cupy.cuda.Device(gpu):
                cupy.cuda.Stream.null.synchronize()
                if not np.array_equal(outs[gpu][: wanted[gpu].size].get(), wanted[gpu]):
                    return f"{name} of {count} float32 on GPU {gpu} of {gpus}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
