"""Runs `busbw fleet run` itself over network namespaces whose links tc shapes, and counts what is named.

    python3 bench/fleet/real.py --seeds 0-49            50 fleets of 8 nodes, one to three links worse by 10 to 50 %
    python3 bench/fleet/real.py --nodes 128 --pod-nodes 16 --mbit 2      one fleet of 128 nodes in pods of 16
    python3 bench/fleet/real.py --launcher srun         steps of an allocation: a slurmd in each namespace
    python3 bench/fleet/real.py --launcher ranks        inside one job: mpirun starts busbw once on each node
    python3 bench/fleet/real.py --delays 1              one more node, whose link holds each frame for 8 to 16 ms
    python3 bench/fleet/real.py --cut 1                 one more node, whose cable is pulled
    python3 bench/fleet/real.py --nodes 4 --mbit 2000 --library libnccl.so.2 --engine build/bin/busbw-engine

Data moves through Open MPI's TCP, or with --library through that library's own network: NCCL's sockets, with a GPU for
all nodes, which CUDA's MPS must share out. It needs root, iproute2, Open MPI (and Slurm for srun), and exits with 77
where these cannot be had.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

from namespaces import MPIRUN, Namespaces, missing  # noqa: E402
from slurm import PROGRAMS, Slurm  # noqa: E402

SKIPPED = 77
FLEET_LIMIT_S = 1500


@dataclass(frozen=True)
class Played:
    """What became of one fleet."""

    seed: int
    faults: dict[str, float]
    found: dict[str, float]
    rounds: int
    seconds: float

    @property
    def missed(self) -> list[str]:
        """Links that were shaped and not named."""
        return sorted(set(self.faults) - set(self.found))

    @property
    def invented(self) -> list[str]:
        """What was named and not shaped."""
        return sorted(set(self.found) - set(self.faults))


def draw(seed: int, nodes: tuple[str, ...], cut: int, least: float) -> dict[str, float]:
    """One to three links, each worse by `least` to 50 %, and some that are cut (1.0)."""
    rng = random.Random(f"links {seed}")
    faults = {
        node: round(rng.uniform(least, 0.50), 3) for node in rng.sample(nodes, rng.randint(1, min(3, len(nodes))))
    }
    return faults | dict.fromkeys(rng.sample([node for node in nodes if node not in faults], cut), 1.0)


def draw_delays(seed: int, args: argparse.Namespace, faults: dict[str, float]) -> dict[str, float]:
    """Links that hold each frame for some milliseconds, none of them worse otherwise."""
    rng = random.Random(f"delays {seed}")
    good = [f"n{number + 1}" for number in range(args.nodes) if f"n{number + 1}" not in faults]
    return {node: args.delay_ms * rng.uniform(1, 2) for node in rng.sample(good, args.delays)}


def play(seed: int, args: argparse.Namespace, folder: Path) -> Played:
    """One fleet from the first namespace to the verdict."""
    with ExitStack() as stack:
        fabric = stack.enter_context(Namespaces(args.nodes, args.pod_nodes, args.mbit))
        words = fleet_words(fabric, folder, args)
        size = round(args.mbit * 1e6 / 8 * args.sample)
        environment = {**os.environ, **fabric.mpi_environment(), "BUSBW_FLEET_SIZE": str(size)}
        environment["PYTHONPATH"] = str(HERE.parents[1] / "python")
        if args.library:
            environment["BUSBW_ENGINE"] = str(args.engine.resolve())
        if args.launcher == "srun":
            slurm = stack.enter_context(Slurm(fabric))
            words = slurm.on_head(["salloc", "--quiet", f"--nodes={args.nodes}", *words])
            environment |= {"SLURM_CONF": slurm.environment["SLURM_CONF"]}
        else:
            words = fabric.on_head([*around(fabric, environment, args), *words])
        faults = draw(seed, fabric.nodes, args.cut, args.least)
        for node, loss in faults.items():
            if loss < 1:
                fabric.shape(node, loss)
            else:
                fabric.cut(node)
        delays = draw_delays(seed, args, faults)
        for node, milliseconds in delays.items():
            fabric.delay(node, milliseconds)
        begun = time.monotonic()
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=FLEET_LIMIT_S, check=False
        )
        seconds = time.monotonic() - begun
    if done.returncode not in {0, 1} or not done.stdout:
        sys.exit(f"seed {seed}: busbw ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    said = json.loads(done.stdout)
    found = {each["place"]: each["loss"] for each in said["faults"] if each["kind"] in {"link", "broken"}}
    late = {each["place"]: each["loss"] for each in said["faults"] if each["kind"] == "latency"}
    if args.delays:
        print(f"seed {seed}: links with delay {sorted(delays)}, late {late}", flush=True)
        faults |= {f"late {node}": 0.0 for node in delays}
        found |= {f"late {node}": 0.0 for node in late}
    others = {each["name"]: each["loss"] for each in said["faults"]
              if each["place"] not in found and each["place"] not in late}  # fmt: skip
    return Played(seed, faults, {**found, **others}, said["rounds"], seconds)


def around(fabric: Namespaces, environment: dict[str, str], args: argparse.Namespace) -> list[str]:
    """What starts busbw once on each node, where it is not to start anything there itself."""
    if args.launcher != "ranks":
        return []
    hosts = ",".join(f"{node}:1" for node in fabric.nodes)
    exported = [word for name in ("BUSBW_FLEET_SIZE", "PYTHONPATH") if name in environment for word in ("-x", name)]
    return [MPIRUN, "-np", str(len(fabric.nodes)), "--host", hosts, "--map-by", "ppr:1:node", "--quiet", *exported]


def fleet_words(fabric: Namespaces, folder: Path, args: argparse.Namespace) -> list[str]:
    """The command line of an operator."""
    topology: list[str] = []
    if fabric.pod_of:
        file = folder / "topology"
        file.write_text("".join(f"{node} {pod}\n" for node, pod in fabric.pod_of.items()))
        topology = ["--topology", str(file)]
    launching = ["--launcher", "mpirun", "--launcher-program", MPIRUN]
    if args.launcher == "srun":
        launching = ["--launcher", "srun", "--launcher-arg=--mpi=pmix"]
    if args.launcher == "ranks":
        launching = []
    results = folder / "results.jsonl"
    results.unlink(missing_ok=True)
    return [sys.executable, "-m", "busbw", "fleet", "run", str(results), "--hosts", f"n[1-{len(fabric.nodes)}]",
            *topology, "--rails", "1", "--inside", "none", *launching,
            *measuring_words(folder, args), "--smallest-loss", str(100 * args.least),
            "--repeats", str(args.repeats),
            "--trial-limit", str(args.trial_limit), "--json",
            *(["--later", "90"] if args.delays else [])]  # fmt: skip


def measuring_words(folder: Path, args: argparse.Namespace) -> list[str]:
    """What measures on the nodes."""
    if not args.library:
        return ["--program", str(rank_program(folder, args))]
    variables = {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
    shared = ("CUDA_MPS_PIPE_DIRECTORY", "LD_LIBRARY_PATH")
    variables |= {name: os.environ[name] for name in shared if name in os.environ}
    return ["--size", args.size, "--library", str(args.library.resolve()),
            *(f"--env={name}={value}" for name, value in variables.items())]  # fmt: skip


def rank_program(folder: Path, args: argparse.Namespace) -> Path:
    """What starts ring_over_mpi.py quickly: hundreds of interpreters share few processors here."""
    program = folder / "rank"
    ring = str(HERE / ("ring_over_tcp.py" if args.launcher == "ranks" else "ring_over_mpi.py"))
    program.write_text(f"#!{sys.executable} -SE\nimport runpy\nrunpy.run_path({ring!r}, run_name='__main__')\n")
    program.chmod(0o755)
    return program


def tell(played: list[Played], nodes: int) -> None:
    """The figures."""
    faults, missed = sum(len(p.faults) for p in played), sum(len(p.missed) for p in played)
    invented = sum(len(p.invented) for p in played)
    good = sum(nodes - len(p.faults) for p in played)
    off = sorted(abs(p.found[node] - loss) for p in played for node, loss in p.faults.items() if p.found.get(node))
    rounds, seconds = sorted(p.rounds for p in played), sorted(p.seconds for p in played)
    print(f"{len(played)} fleets of {nodes} namespaces, {faults} links worse by up to 50 % or cut")
    print(f"  named                {faults - missed} of {faults}")
    print(f"  named without fault  {invented} of {good} good nodes")
    print(f"  rounds               median {rounds[len(rounds) // 2]}, most {rounds[-1]}")
    print(f"  seconds              median {seconds[len(seconds) // 2]:.0f}, most {seconds[-1]:.0f}")
    if off:
        print(f"  loss off by          median {100 * off[len(off) // 2]:.1f} points, most {100 * off[-1]:.1f}")


def main() -> int:
    """Every seed in turn."""
    args = arguments()
    if reason := missing((MPIRUN, *(PROGRAMS if args.launcher == "srun" else ()))):
        print(f"skipped: {reason}")
        return SKIPPED
    # Ended from outside, the namespaces are taken down as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    first, _, last = args.seeds.partition("-")
    played: list[Played] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(int(first), int(last or first) + 1):
            played.append(play(seed, args, Path(folder)))
            one = played[-1]
            print(f"seed {seed}: {one.faults}, found {one.found}, {one.rounds} rounds, {one.seconds:.0f} s", flush=True)
    tell(played, args.nodes)
    return 1 if any(p.missed or p.invented for p in played) else 0


def arguments() -> argparse.Namespace:
    """The words."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0", help="FIRST-LAST")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--pod-nodes", type=int, default=0, help="nodes of a leaf; 0: all on one bridge")
    parser.add_argument("--mbit", type=float, default=10.0, help="of a good link, each way")
    parser.add_argument("--sample", type=float, default=0.4, help="seconds that one takes at that rate")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--launcher", choices=["mpirun", "srun", "ranks"], default="mpirun")
    parser.add_argument("--least", type=float, default=0.1, help="the smallest share that is lost, and looked for")
    parser.add_argument("--library", type=Path, help="an NCCL that measures through its own network, with --engine")
    parser.add_argument("--engine", type=Path, help="busbw-engine")
    parser.add_argument("--size", default="4M", help="bytes of a call of the library")
    parser.add_argument("--cut", type=int, default=0, help="how many more nodes have no cable")
    parser.add_argument("--delays", type=int, default=0, help="how many more links are late")
    parser.add_argument("--delay-ms", type=float, default=8.0, help="the least delay, each way")
    parser.add_argument("--trial-limit", type=float, default=120.0, help="seconds after which a group hangs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
