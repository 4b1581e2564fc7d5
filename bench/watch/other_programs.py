"""Programs of NCCL's API that the recorder was not built with: see gpus.py beside it.

    other_programs.py NAME [WORD ...]

NAME is one of

jax          one process with all its devices: sums and gathers of shards
jax-ranks    the same by two processes that find each other (WORD: number, how many, port)
cupy         CuPy's own communicators, all in this process
cupy-ranks   CuPy's process group, by its functions that launch workers (WORD: file of CuPy's comm_runner.py)
torch-tests  PyTorch's distributed tests, which its wheel has (WORD: names of tests)

Each prints what it computed, which must not depend on what stands in front of NCCL.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import unittest
from collections.abc import Callable
from typing import Any

COLLECTIVES = ("all_reduce", "broadcast", "reduce_scatter", "all_gather", "send_recv", "all_to_all", "gather")


def jax_sums() -> None:
    """By pmap, which JAX gives its own mesh in newer versions."""
    import jax
    import numpy

    many, mine = jax.device_count(), jax.local_device_count()
    rows = numpy.arange(mine * 1024, dtype="float32").reshape(mine, 1024)
    total = jax.pmap(lambda row: jax.lax.psum(row, "ranks"), axis_name="ranks")(rows)
    gathered = jax.pmap(lambda row: jax.lax.all_gather(row, "ranks"), axis_name="ranks")(rows)
    for _ in range(5):
        total = jax.pmap(lambda row: jax.lax.pmean(row, "ranks"), axis_name="ranks")(total)
    print(many, mine, float(numpy.asarray(total).sum()), float(numpy.asarray(gathered).sum()))


def jax_ranks(number: str, many: str, port: str) -> None:
    import jax

    jax.distributed.initialize(f"127.0.0.1:{port}", int(many), int(number), local_device_ids=[int(number)])
    jax_sums()
    jax.distributed.shutdown()


def cupy_communicators() -> None:
    import cupy
    from cupy.cuda import nccl

    many = cupy.cuda.runtime.getDeviceCount()
    comms = nccl.NcclCommunicator.initAll(many)
    values = []
    for device in range(many):
        with cupy.cuda.Device(device):
            values.append(cupy.arange(4096, dtype="float32") * (device + 1))
    for _ in range(5):
        nccl.groupStart()
        for device, comm in enumerate(comms):
            with cupy.cuda.Device(device):
                at = values[device].data.ptr
                comm.allReduce(at, at, 4096, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, cupy.cuda.Stream.null.ptr)
        nccl.groupEnd()
    for device, each in enumerate(values):
        with cupy.cuda.Device(device):
            print(nccl.get_version(), device, float(each.sum()))


def cupy_ranks(file: str) -> None:
    """Its tests' functions; each starts two workers, and ends with an exception where one is wrong."""
    spec = importlib.util.spec_from_file_location("comm_runner", file)
    assert spec is not None and spec.loader is not None
    runner: Any = importlib.util.module_from_spec(spec)
    sys.modules["comm_runner"] = runner
    spec.loader.exec_module(runner)
    for name in COLLECTIVES:
        getattr(runner, name)("f")
        print(name, "done", flush=True)


if "torch-tests" in sys.argv or os.environ.get("OTHER_PROGRAM") == "torch-tests":
    # Its processes import this file again, and look for the class here.
    os.environ["OTHER_PROGRAM"] = "torch-tests"
    os.environ.setdefault("BACKEND", "nccl")
    os.environ.setdefault("WORLD_SIZE", "2")
    os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="torch-tests-"))
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    class Tests(TestDistBackend, DistributedTest._DistTestBase):  # type: ignore[misc]
        """As PyTorch's own file of tests makes it."""

        def setUp(self) -> None:
            super().setUp()
            self._spawn_processes()


def torch_tests(*names: str) -> None:
    known = [name for name in names if hasattr(Tests, name)]
    print("not in this PyTorch:", *sorted(set(names) - set(known)))
    suite = unittest.TestSuite(Tests(name) for name in known)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    sys.exit(int(not result.wasSuccessful()))


PROGRAMS: dict[str, Callable[..., None]] = {
    "jax": jax_sums,
    "jax-ranks": jax_ranks,
    "cupy": cupy_communicators,
    "cupy-ranks": cupy_ranks,
    "torch-tests": torch_tests,
}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PROGRAMS:
        sys.exit(f"give one of {', '.join(PROGRAMS)}")
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
