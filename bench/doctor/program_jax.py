"""One task of a small JAX program on one GPU, which meets the fault --fault: for programs.py."""

from __future__ import annotations

import argparse
import os
import time

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PARSER = argparse.ArgumentParser(description=__doc__)
PARSER.add_argument("--fault", default="none", choices=["none", "absent", "gone", "raises", "memory"])
FAULT = PARSER.parse_args().fault
os.environ.setdefault("NCCL_HOSTID", f"node{RANK}")
os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", ".02")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

COUNT = 1024


def meet_fault() -> None:
    """The last task's fault, in the middle of the program."""
    if RANK < RANKS - 1:
        return
    if FAULT == "gone":
        os._exit(5)
    if FAULT == "raises":
        raise KeyError("input_ids")
    if FAULT == "memory":
        jnp.ones((1 << 37,), jnp.float32).block_until_ready()


def main() -> None:
    """Sums over all tasks."""
    if FAULT == "absent" and RANK == RANKS - 1:
        time.sleep(30)
    address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    jax.distributed.initialize(
        address, RANKS, RANK, local_device_ids=[0], initialization_timeout=10, heartbeat_timeout_seconds=10
    )
    mesh = Mesh(np.array(jax.devices()), ("x",))
    whole, parts = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("x"))
    data = jax.make_array_from_callback((RANKS * COUNT,), parts, lambda _: np.ones(COUNT, np.float32))
    total = jax.jit(jnp.sum, out_shardings=whole)
    for step in range(10):
        if step == 5:
            meet_fault()
        print(f"task {RANK} step {step} total {float(total(data)):.1f}", flush=True)


if __name__ == "__main__":
    main()
