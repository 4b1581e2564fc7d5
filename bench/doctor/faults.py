"""The faults: what each changes for the process of the doctor, and which finding must name it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

# Multicast stays off: on a host whose NVSwitch is shared, it can put GPUs out of service for everybody.
ENFORCED = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}

# What would be a fault of its own if the caller's shell had it set.
CLEARED = (
    "NCCL_GRAPH_FILE", "NCCL_CONF_FILE", "NCCL_P2P_DISABLE", "NCCL_MAX_NCHANNELS", "NCCL_PROTO", "NCCL_ALGO",
    "NCCL_BUFFSIZE", "NCCL_NTHREADS", "CUDA_LAUNCH_BLOCKING",
)  # fmt: skip


@dataclass(frozen=True)
class Injected:
    """What the doctor's process gets: variables, and the processors that it may use. `other` shares GPU 0 with it.

    `under` is the command that the doctor is started with.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    under: tuple[str, ...] = ()
    cpus: frozenset[int] = frozenset()
    other: subprocess.Popen[bytes] | None = None


@dataclass(frozen=True)
class Site:
    """Where the faults are injected; `words` go to the engine, `environment` to everything that is started.

    `settle_s` lies between faults: nvidia-smi's load is that of the last second, and the next doctor must not see it.
    """

    gpus: int
    folder: Path
    engine: Path
    graph: Path | None = None
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    settle_s: float = 1.5
    shared: bool = False
    """Whether the ranks, `gpus` of them, share one GPU, each a host of its own for NCCL."""


Inject = Callable[[Site], AbstractContextManager[Injected]]


@dataclass(frozen=True)
class Fault:
    """`finding` is the name that the doctor must say; `by_setting` whether `doctor --prove` can measure it."""

    name: str
    finding: str
    inject: Inject
    by_setting: bool = True
    between_gpus: bool = False
    """Whether it acts only where ranks have GPUs of their own on one host."""
    also: tuple[str, ...] = ()
    """What the doctor may say beside it, as it is injected too."""


def base_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Our own environment without other faults, multicast off."""
    return {**{name: value for name, value in environ.items() if name not in CLEARED}, **ENFORCED}


def variable(name: str, value: str) -> Inject:
    @contextmanager
    def inject(site: Site) -> Iterator[Injected]:
        yield Injected({name: value})

    return inject


def conf_line(name: str, value: str) -> Inject:
    """The same where nobody looks: in an nccl.conf."""

    @contextmanager
    def inject(site: Site) -> Iterator[Injected]:
        conf = site.folder / f"nccl-{name}.conf"
        conf.write_text(f"{name}={value}\n")
        yield Injected({"NCCL_CONF_FILE": str(conf)})

    return inject


@contextmanager
def tiny_shm(site: Site) -> Iterator[Injected]:
    """What a container gets whose --shm-size nobody set, and less: /dev/shm of 1 MiB, seen by the doctor alone."""
    if os.geteuid() != 0:
        raise RuntimeError("a /dev/shm of its own needs root")
    mount = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
    yield Injected({"NCCL_P2P_DISABLE": "1"}, under=("unshare", "--mount", "sh", "-c", mount, "sh"))


@contextmanager
def graph_file(site: Site) -> Iterator[Injected]:
    """A graph file of slow channels, set where nobody looks: in an nccl.conf."""
    graph = site.graph
    if graph is None:
        graph = site.folder / "graph.xml"
        graph.write_text(slow_graph(site.gpus))
    conf = site.folder / "nccl.conf"
    conf.write_text(f"NCCL_GRAPH_FILE={graph}\n")
    yield Injected({"NCCL_CONF_FILE": str(conf)})


def slow_graph(gpus: int) -> str:
    """Two ring channels of 12 GB/s, type SYS, and as many trees: what a virtual machine's image once shipped."""
    places = "".join(f'<gpu dev="{gpu}"/>' for gpu in range(gpus))
    channels = f"<channel>{places}</channel>" * 2
    # Patterns as NCCL numbers them: 4 is a ring, 1 a balanced tree, 3 a tree (src/include/graph.h).
    graphs = "".join(
        f'<graph id="{number}" pattern="{pattern}" crossnic="0" nchannels="2" speedintra="12" speedinter="12" '
        f'latencyinter="0" typeintra="SYS" typeinter="PIX" samechannels="0">{channels}</graph>\n'
        for number, pattern in ((0, 4), (1, 1), (2, 3))
    )
    return f'<graphs version="1">\n{graphs}</graphs>\n'


@contextmanager
def busy_core(site: Site) -> Iterator[Injected]:
    """Two processors for everything, one of them never idle; a small machine keeps one."""
    allowed = sorted(os.sched_getaffinity(0))
    chosen = frozenset(allowed[-2:] if len(allowed) > 4 and not site.shared else allowed[-1:])
    busy = max(chosen)
    with running([sys.executable, "-S", "-c", "while True: pass"], cpus=frozenset({busy})):
        yield Injected(cpus=chosen)


@contextmanager
def shared_gpu(site: Site) -> Iterator[Injected]:
    with hog(site) as other:
        yield Injected(other=other)


@contextmanager
def hog(site: Site) -> Iterator[subprocess.Popen[bytes]]:
    """Another job on GPU 0 of which the doctor knows nothing: all-reduce of one rank, again and again."""
    argv = [str(site.engine), "all_reduce", "-g", "1", "-b", "1G", "-e", "1G", "-n", "100", "-w", "1", "-c", "0"]
    argv += ["-N", "0", *site.words]
    environment = {**base_environment(os.environ), "CUDA_VISIBLE_DEVICES": "0"}
    log = site.folder / "hog.txt"
    with log.open("wb") as stream, running(argv, environment=environment, stdout=stream) as process:
        wait_for_row(process, log, patience_s=30.0)
        yield process


def wait_for_row(process: subprocess.Popen[bytes], log: Path, *, patience_s: float) -> None:
    """Until the first measured row is there: then its kernels run."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if any(line.split()[:1] and line.split()[0].isdigit() for line in log.read_text(errors="replace").splitlines()):
            return
        if process.poll() is not None:
            raise RuntimeError(f"the other process on GPU 0 ended with {process.returncode}; {log} holds its words")
        time.sleep(0.1)
    raise RuntimeError(f"the other process on GPU 0 measured nothing within {patience_s:g} s; {log} holds its words")


@contextmanager
def running(
    argv: list[str],
    *,
    cpus: frozenset[int] = frozenset(),
    environment: Mapping[str, str] | None = None,
    stdout: object = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends when the block does."""
    process = subprocess.Popen(
        argv, env=dict(environment) if environment is not None else None, stdin=subprocess.DEVNULL,
        stdout=stdout if stdout is not None else subprocess.DEVNULL, stderr=subprocess.STDOUT,
        preexec_fn=(lambda: os.sched_setaffinity(0, cpus)) if cpus else None,  # noqa: PLW1509
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


FAULTS: tuple[Fault, ...] = (
    Fault("graph-file", "graph-file", graph_file, between_gpus=True),
    Fault("p2p-disabled", "p2p-disabled", variable("NCCL_P2P_DISABLE", "1"), between_gpus=True),
    Fault("few-channels", "few-channels", variable("NCCL_MAX_NCHANNELS", "4"), between_gpus=True),
    Fault("slow-protocol", "forced-protocol", variable("NCCL_PROTO", "LL")),
    Fault("shared-gpu", "gpu-busy", shared_gpu, by_setting=False),
    Fault("busy-core", "cpu-binding", busy_core),
    Fault("small-buffers", "forced-sizes", conf_line("NCCL_BUFFSIZE", "65536")),
    Fault("few-threads", "forced-sizes", conf_line("NCCL_NTHREADS", "64")),
    Fault("one-tree", "forced-algorithm", conf_line("NCCL_ALGO", "Tree"), between_gpus=True),
    Fault("blocking-launches", "slow-settings", variable("CUDA_LAUNCH_BLOCKING", "1")),
    Fault("no-interface", "network-interface", variable("NCCL_SOCKET_IFNAME", "nosuch")),
    Fault("tiny-shm", "shared-memory", tiny_shm, by_setting=False, between_gpus=True, also=("p2p-disabled",)),
)
