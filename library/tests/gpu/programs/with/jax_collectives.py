"""JAX's collectives over all GPUs in one process, compared with NumPy; JAX opens NCCL by its path."""

from __future__ import annotations

import sys

try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError as error:
    print(f"no JAX: {error}")
    sys.exit(77)

ROUNDS = 3


def main() -> int:
    gpus = jax.device_count()
    if jax.default_backend() != "gpu" or gpus < 2:
        print(f"JAX sees {gpus} devices of {jax.default_backend()}; two or more GPUs are needed")
        return 77
    random = np.random.default_rng(1)
    for count in (gpus * 8, gpus * 4096, gpus * 262144):
        given = random.integers(-8, 8, (gpus, count)).astype(np.float32)
        pieces = given.reshape(gpus, gpus, count // gpus)
        wanted = {
            "psum": np.broadcast_to(given.sum(0), given.shape),
            "all_gather": np.broadcast_to(given, (gpus, gpus, count)),
            "psum_scatter": pieces.sum(0),
            "all_to_all": pieces.transpose(1, 0, 2),
        }
        functions = {
            "psum": lambda x: jax.lax.psum(x, "i"),
            "all_gather": lambda x: jax.lax.all_gather(x, "i"),
            "psum_scatter": lambda x: jax.lax.psum_scatter(x.reshape(gpus, -1), "i"),
            "all_to_all": lambda x: jax.lax.all_to_all(x.reshape(gpus, -1), "i", 0, 0),
        }
        for name, function in functions.items():
            program = jax.pmap(function, axis_name="i")
            for _ in range(ROUNDS):
                got = np.asarray(program(jnp.asarray(given)))
                if not np.array_equal(got.reshape(wanted[name].shape), wanted[name]):
                    print(f"WRONG: {name} of {count} float32 on {gpus} GPUs")
                    return 1
    print(f"right: JAX {jax.__version__}, {gpus} GPUs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
