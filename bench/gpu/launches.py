"""How each program under comparison is started: pure functions from what is wanted to argv and environment."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# Multicast stays off: on a host whose NVSwitch is shared, it can put GPUs out of service for everybody.
ENFORCED = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv")
# The two whose eager sweeps are also taken with --precision.
PRECISE = ("all_reduce", "all_gather")
EVERY_COLLECTIVE = (*COLLECTIVES, "reduce", "gather", "scatter", "alltoallv", "hypercube")
MODES = ("processes", "threads", "processes-graph", "threads-graph")


@dataclass(frozen=True)
class Setup:
    """What lies where on this machine."""

    busbw: Path
    nccl_tests: Path | None
    library: str
    gpus: int
    mpirun: tuple[str, ...]


@dataclass(frozen=True)
class Sweep:
    smallest: str = "8"
    largest: str = "4G"
    factor: int = 2
    iterations: int = 20
    warmup: int = 5
    graph_launches: int = 20
    extra: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launch:
    argv: tuple[str, ...]
    environment: dict[str, str]


def environment(base: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    return {**base, **changes, **ENFORCED}


def flags(sweep: Sweep, mode: str, gpus: int) -> tuple[str, ...]:
    ranks = ("-t", "1", "-g", "1") if mode.startswith("processes") else ("-t", str(gpus), "-g", "1")
    graph = ("-G", str(sweep.graph_launches)) if mode.endswith("-graph") else ()
    return (
        *("-b", sweep.smallest, "-e", sweep.largest, "-f", str(sweep.factor)),
        *("-n", str(sweep.iterations), "-w", str(sweep.warmup)),
        *ranks,
        *graph,
        *sweep.extra,
    )


def _in_mode(setup: Setup, mode: str, program: tuple[str, ...]) -> tuple[str, ...]:
    return (*setup.mpirun, "-np", str(setup.gpus), *program) if mode.startswith("processes") else program


def nccl_tests(setup: Setup, collective: str, mode: str, sweep: Sweep, base: Mapping[str, str]) -> Launch:
    if setup.nccl_tests is None:
        raise SystemExit("bench/gpu: set NCCL_TESTS_BIN to the folder with nccl-tests' all_reduce_perf")
    folders = (str(Path(setup.library).parent), str(setup.nccl_tests), base.get("LD_LIBRARY_PATH", ""))
    argv = (str(setup.nccl_tests / f"{collective}_perf"), *flags(sweep, mode, setup.gpus))
    changes = {"LD_LIBRARY_PATH": ":".join(f for f in folders if f)}
    return Launch(_in_mode(setup, mode, argv), environment(base, changes))


def busbw(  # noqa: PLR0913, PLR0917 - one place for every way in which the engine is started
    setup: Setup,
    collective: str,
    mode: str,
    sweep: Sweep,
    base: Mapping[str, str],
    library: str | None = None,
) -> Launch:
    argv = (str(setup.busbw / f"{collective}_perf"), *flags(sweep, mode, setup.gpus))
    argv += ("--library", library or setup.library)
    return Launch(_in_mode(setup, mode, argv), environment(base, {}))


def busbw_command(setup: Setup, words: tuple[str, ...], base: Mapping[str, str], runs: str) -> Launch:
    """The command line `busbw`, with the engine under test; `runs` is where it keeps what it likes."""
    package = str(Path(__file__).resolve().parents[2] / "python")
    changes = {
        "PYTHONPATH": ":".join(p for p in (package, base.get("PYTHONPATH", "")) if p),
        "BUSBW_ENGINE": str(setup.busbw / "busbw-engine"),
        "BUSBW_RUNS": runs,
        # Where this Python's torchrun is.
        "PATH": ":".join((str(Path(sys.executable).parent), base.get("PATH", ""))),
    }
    return Launch((sys.executable, "-m", "busbw", *words), environment(base, changes))


def started_by(  # noqa: PLR0913, PLR0917 - as above
    setup: Setup, launcher: str, collective: str, sweep: Sweep, base: Mapping[str, str], runs: str
) -> Launch:
    """One process per GPU, started by `busbw run` through a launcher."""
    own = tuple(f"--launcher-arg={each}" for each in setup.mpirun[1:]) if launcher == "mpirun" else ()
    words = ("run", "--ranks", str(setup.gpus), "--launcher", launcher, *own, collective, *flags(sweep, "processes", 1))
    return busbw_command(setup, (*words, "--library", setup.library, "--no-record"), base, runs)
