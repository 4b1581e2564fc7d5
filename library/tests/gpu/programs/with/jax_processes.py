"""JAX over several processes: collectives, and a training step whose all-reduces XLA puts in; compared with NumPy.

    python3 jax_processes.py [RANKS]

Starts the ranks itself. Where there are fewer GPUs than ranks they share them, each as a host of its own for NCCL.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from functools import partial

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError as error:
    print(f"no JAX: {error}")
    sys.exit(77)

from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

ROUNDS = 3
TIME_LIMIT_S = 120


def main() -> int:
    if "BUSBW_JAX_RANK" in os.environ:
        return rank(int(os.environ["BUSBW_JAX_RANK"]), int(os.environ["BUSBW_JAX_RANKS"]))
    tool = shutil.which("nvidia-smi")
    gpus = subprocess.run([tool, "-L"], capture_output=True, text=True, check=False).stdout.count("GPU ") if tool else 0
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else max(2, gpus)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    made = {
        **os.environ, "BUSBW_JAX_RANKS": str(ranks), "BUSBW_JAX_AT": f"127.0.0.1:{port}",
        "BUSBW_JAX_GPUS": str(gpus), "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }  # fmt: skip
    started = []
    for each in range(ranks):
        host = {"NCCL_HOSTID": f"jax{each}"} if gpus < ranks else {}
        environ = made | host | {"BUSBW_JAX_RANK": str(each)}
        started.append(subprocess.Popen([sys.executable, __file__], env=environ))
    end = time.monotonic() + TIME_LIMIT_S
    while time.monotonic() < end and not any(each.poll() for each in started):
        if all(each.poll() == 0 for each in started):
            return 0
        time.sleep(0.05)
    for each in started:
        each.kill()
    return max(each.wait() for each in started) or 1


def rank(own: int, ranks: int) -> int:
    gpus = int(os.environ["BUSBW_JAX_GPUS"])
    if not gpus:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    local = [own % gpus] if gpus else None
    jax.distributed.initialize(os.environ["BUSBW_JAX_AT"], ranks, own, local_device_ids=local)
    mesh = Mesh(np.array(jax.devices()), ("i",))
    wrong = collectives(mesh, ranks) or training(mesh, ranks)
    jax.distributed.shutdown()
    if wrong:
        print(f"WRONG: rank {own}: {wrong}")
        return 1
    if own == 0:
        print(f"right: JAX {jax.__version__}, {ranks} processes, {gpus} GPUs")
    return 0


def spread(mesh: Mesh, given: np.ndarray, over: P) -> jax.Array:
    return jax.make_array_from_callback(given.shape, NamedSharding(mesh, over), lambda index: given[index])


def collectives(mesh: Mesh, ranks: int) -> str:
    """What is wrong, or nothing."""
    random = np.random.default_rng(1)
    own = jax.process_index()
    for count in (ranks * 8, ranks * 4096, ranks * 262144):
        given = random.integers(-8, 8, (ranks, count)).astype(np.float32)
        pieces = given.reshape(ranks, ranks, count // ranks)
        wanted = {
            "psum": given.sum(0), "all_gather": given, "psum_scatter": pieces.sum(0)[own],
            "all_to_all": pieces[:, own], "ppermute": given[(own - 1) % ranks],
        }  # fmt: skip
        functions = {
            "psum": lambda x: jax.lax.psum(x, "i"),
            "all_gather": lambda x: jax.lax.all_gather(x[0], "i")[None],
            "psum_scatter": lambda x: jax.lax.psum_scatter(x[0].reshape(ranks, -1), "i")[None],
            "all_to_all": lambda x: jax.lax.all_to_all(x[0].reshape(ranks, -1), "i", 0, 0)[None],
            "ppermute": lambda x: jax.lax.ppermute(x, "i", [(each, (each + 1) % ranks) for each in range(ranks)]),
        }
        for name, function in functions.items():
            program = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
            for _ in range(ROUNDS):
                got = np.asarray(program(spread(mesh, given, P("i"))).addressable_shards[0].data)
                if not np.array_equal(got.reshape(wanted[name].shape), wanted[name]):
                    return f"{name} of {count} float32"
    return ""


def training(mesh: Mesh, ranks: int) -> str:
    """Steps of a small network, its rows over the ranks, against the same without JAX's sharding."""
    random = np.random.default_rng(2)
    weight = random.normal(size=(64, 64)).astype(np.float32)
    rows = random.normal(size=(8 * ranks, 64)).astype(np.float32)

    def loss(matrix: jax.Array, given: jax.Array) -> jax.Array:
        return jnp.square(jnp.tanh(given @ matrix)).mean()

    @partial(jax.jit, out_shardings=(NamedSharding(mesh, P()), NamedSharding(mesh, P())))
    def step(matrix: jax.Array, given: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, slope = jax.value_and_grad(loss)(matrix, given)
        return value, matrix - 0.5 * slope

    spread_over, alone = spread(mesh, weight, P()), jnp.asarray(weight)
    for number in range(8):
        value, spread_over = step(spread_over, spread(mesh, rows, P("i")))
        expected, slope = jax.value_and_grad(loss)(alone, rows)
        alone = alone - 0.5 * slope
        if abs(float(np.asarray(value.addressable_shards[0].data)) - float(expected)) > 1e-3 * float(expected):
            return f"the loss of step {number}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
