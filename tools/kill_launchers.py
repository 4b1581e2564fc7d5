"""The ways to start ranks that kill_trials tries: launchers of this machine, and verbs with ranks of their own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kill_record import RECORD

REPOSITORY = Path(__file__).resolve().parents[1]
RECORDED = f"--record $TMPDIR/{RECORD}"
REMOTE = REPOSITORY / "tools" / "remote_shell"
# No rank of another host sees the shell of the launcher, which the launcher outlives, nor, before all have met, who is
# stopped there.
ON_HOSTS = frozenset({"KILL", "TERM", "INT", "HUP", "GROUP-INT", "GROUP-HUP", "LAUNCHER-TERM", "ALL-KILL"})
RANKS = 2
SIZES, PROBE_SIZES, PROBE_S = "-b 1K -e 4M -f 2 -n 20 -N 1000", "-b 1K -e 1K -n 1", 300.0
WORDS = f"all_reduce {SIZES}"


@dataclass(frozen=True)
class Launcher:
    """One way to start ranks: the shell line, and the names of the processes that may be hit."""

    name: str
    line: str
    launchers: tuple[str, ...] = ()  # names of the launcher's processes
    goes_on: bool = False  # after the loss of a rank
    by_default: bool = True
    hits: frozenset[str] | None = None  # that it can be hit by; None: all
    spared: tuple[str, ...] = ()  # programs above it that it outlives by design

    @property
    def kind(self) -> str:
        """Its name without the shape that it has got."""
        return self.name.partition("/")[0]

    def starts_with(self, words: str) -> bool:
        """Whether a command line is of one of the launcher's own processes."""
        programs = [word.rpartition("/")[2] for word in words.split()[:2]]  # the second one's: torchrun is Python's
        return any(each.startswith(name) for each in programs for name in self.launchers)


def installed(engine: Path, slurm_configuration: str | None) -> Iterator[Launcher]:
    """The launchers of this machine."""
    python = sys.executable
    yield Launcher("threads", f"{python} -m busbw {WORDS} -t 2 {RECORDED}")
    yield Launcher("run", f"{python} -m busbw run --ranks 2 {WORDS} {RECORDED}")
    run = f"{python} -m busbw run {WORDS} --ranks 2 {RECORDED} --launcher"
    direct = f"{engine.parent / 'all_reduce_perf'} {WORDS.partition(' ')[2]} {RECORDED}"
    mpirun = shutil.which("mpirun.openmpi")
    if mpirun:
        line = f"{mpirun} -n 2 --oversubscribe {direct}"
        yield Launcher("mpirun", line, ("mpirun",))
        yield Launcher("mpirun-hosts", f"{mpirun} --mca plm_rsh_agent {REMOTE} --mca oob_tcp_if_include lo -H na,nb "
                       f"-n 2 --map-by node -x BUSBW_ADDRESS=127.0.0.1 {direct}",
                       ("mpirun", "orted", "remote_shell"), by_default=False, hits=ON_HOSTS,
                       spared=("shell",))  # fmt: skip
        yield Launcher("run-mpirun", f"{run} mpirun --launcher-program {mpirun}", ("mpirun",), by_default=False)
        # What it watches is a measurement, which ends with the watcher; a program of others would go on.
        yield Launcher("watch", f"{python} -m busbw watch --output $TMPDIR/kept -- {line}", by_default=False)
    hydra = shutil.which("mpiexec.hydra") or shutil.which("mpiexec.mpich")
    if hydra:
        yield Launcher("hydra", f"{hydra} -n 2 {direct}", ("mpiexec", "hydra"))
        line = f"{hydra} -launcher ssh -launcher-exec {REMOTE} -hosts na,nb -n 2 {direct}"
        # Hydra needs its remote shells no more once its proxies have called it.
        names = ("mpiexec", "hydra", "remote_shell")
        yield Launcher("hydra-hosts", line, names, by_default=False, hits=ON_HOSTS, spared=("shell", "sh"))
        line = f"{run} hydra --launcher-program {hydra}"
        yield Launcher("run-hydra", line, ("mpiexec", "hydra"), by_default=False)
    python_with_torch = Path(os.environ.get("BUSBW_TORCH_PYTHON", REPOSITORY / "build" / "torch" / "bin" / "python"))
    torchrun = python_with_torch.parent / "torchrun"
    if torchrun.exists():
        line = f"{python} -m busbw run --launcher torchrun --launcher-program {torchrun} --ranks 2 {WORDS} {RECORDED}"
        yield Launcher("run-torchrun", line, ("torchrun",))
        yield Launcher("torchrun", f"{torchrun} --standalone --nproc-per-node 2 --no-python {direct}", ("torchrun",))
    yield from verbs(python)
    if slurm_configuration:
        yield Launcher("slurm", f"srun -n 2 -N 1 {direct}", ("srun",))
        yield Launcher("run-slurm", f"{run} slurm", ("srun",), by_default=False)
    for name, found in (("mpirun", mpirun), ("hydra", hydra), ("torchrun", torchrun.exists()),
                        ("slurm", slurm_configuration)):  # fmt: skip
        if not found:
            print(f"kill_trials: {name} is not installed: left out", file=sys.stderr)


def verbs(python: str) -> Iterator[Launcher]:
    """Verbs that start measurements of their own."""
    measured = "--ranks 2 -- all_reduce -b 1K -e 1M -f 4"
    for name, line in (
        ("experiment", f"experiment --vary NCCL_ALGO=Ring,Tree --budget 60s {measured}"),
        ("overlap", f"overlap {measured}"),
        ("tune", "tune nccl --ranks 2 all_reduce -b 1K -e 1M --budget 60s --library cpu"),
        ("fleet", "fleet run $TMPDIR/fleet --launcher local --hosts n[1-4] --gpus-per-node 1 --rails 1 --size 64M "
                  "--inside none"),
        ("bisect", "bisect --setting NCCL_BUFFSIZE=64K..1M --ranks 2 --budget 60s -- all_reduce -b 1K -e 1M -f 4"),
    ):  # fmt: skip
        yield Launcher(name, f"{python} -m busbw {line}", goes_on=True, by_default=False)
    if os.environ.get("BUSBW_TORCH_PYTHON"):
        line = f"{python} -m busbw torch-bench --ranks 2 -b 1M -e 64M -n 50 --no-record"
        yield Launcher("torch-bench", line, by_default=False)


@contextlib.contextmanager
def slurm(wanted: bool) -> Iterator[str | None]:
    """A cluster of two nodes on this machine, where Slurm and root are there."""
    if (
        not (wanted and shutil.which("srun") and shutil.which("munged", path=f"{os.environ['PATH']}:/usr/sbin"))
        or os.getuid()
    ):
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        tool = str(REPOSITORY / "tools" / "slurm_cluster")
        done = subprocess.run([tool, "start", folder], capture_output=True, text=True, check=False)
        try:
            yield done.stdout.split()[-1] if done.returncode == 0 and done.stdout.split() else None
        finally:
            subprocess.run([tool, "stop", folder], capture_output=True, check=False)
