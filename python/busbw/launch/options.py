"""The words that say how ranks are started, one table for every verb that measures; no parser is imported for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from busbw.base.errors import UsageError


@dataclass(frozen=True)
class LaunchOption:
    """One option; `launchers` are those to which it means something, none for every launcher."""

    name: str
    help: str
    value: str | None = None  # what its value is called; None: it has none
    group: str = "ranks"
    launchers: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    repeats: bool = False
    number: bool = False

    @property
    def key(self) -> str:
        """Its name as an attribute."""
        return self.name.removeprefix("--").replace("-", "_")


_MPI = ("mpirun", "hydra")
_SLURM = ("slurm", "srun", "sbatch")
_KUBERNETES = ("k8s",)

OPTIONS: tuple[LaunchOption, ...] = (
    LaunchOption("--launcher", "how ranks are started (default local)", "NAME"),
    LaunchOption("--dry-run", "print what would be started and start nothing"),
    LaunchOption("--ranks", "how many processes", "N", number=True),
    LaunchOption("--nodes", "over how many nodes (default 1)", "N", number=True),
    LaunchOption("--gpus-per-node", "GPUs of each node; one rank each unless told otherwise", "N", number=True),
    LaunchOption("--ranks-per-node", "processes of each node", "N", number=True),
    LaunchOption(
        "--bind",
        "cores: each rank its own processors; gpu: those next to its GPU; none (default): as the system likes",
        "HOW",
        choices=("none", "cores", "gpu"),
    ),
    LaunchOption("--topology", "`nvidia-smi topo -m` or NCCL's topology XML of a node; means --bind gpu", "FILE"),
    LaunchOption("--cpus-per-node", "processors of a node, where --topology leaves them open", "N", number=True),
    LaunchOption("--env", "give the ranks this variable; without a value, ours", "NAME[=VALUE]", repeats=True),
    LaunchOption("--time-limit", "end the ranks after 90s, 20m, 2h or HH:MM:SS, with exit code 124", "TIME"),
    LaunchOption("--job-name", "name in the queue (default busbw)", "NAME"),
    LaunchOption("--launcher-program", "the launcher's own program, where another than the one on PATH", "PATH"),
    LaunchOption("--launcher-arg", "one more word for the launcher, as it is", "WORD", repeats=True),
    LaunchOption("--hosts", "where ranks run: a:8,b:8", "HOSTS", "several hosts", _MPI),
    LaunchOption("--hostfile", "a host a line: `a slots=8` or `a:8`", "FILE", "several hosts", _MPI),
    LaunchOption("--rdzv-endpoint", "where the hosts' torchruns meet", "HOST:PORT", "several hosts", ("torchrun",)),
    LaunchOption("--node-rank", "number of this host", "N", "several hosts", ("torchrun",), number=True),
    LaunchOption("--partition", "partition of the cluster", "NAME", "Slurm", _SLURM),
    LaunchOption("--nodelist", "these nodes", "NODES", "Slurm", _SLURM),
    LaunchOption("--account", "who pays", "NAME", "Slurm", _SLURM),
    LaunchOption("--exclusive", "share no node", None, "Slurm", _SLURM),
    LaunchOption("--mpi", "srun's plugin: none (default), pmix, pmi2", "NAME", "Slurm", _SLURM),
    LaunchOption("--container-image", "run in this image (pyxis)", "IMAGE", "Slurm", _SLURM),
    LaunchOption("--container-mounts", "folders for it (pyxis)", "FROM:TO,...", "Slurm", _SLURM),
    LaunchOption("--image", "container image with busbw in it", "IMAGE", "Kubernetes", _KUBERNETES),
    LaunchOption("--namespace", "namespace (default default)", "NAME", "Kubernetes", _KUBERNETES),
    LaunchOption(
        "--kind",
        "job (default): an Indexed Job; mpijob: Kubeflow's",
        "KIND",
        "Kubernetes",
        _KUBERNETES,
        choices=("job", "mpijob"),
    ),
    LaunchOption(
        "--image-engine",
        "the engine's place in the image (default busbw-engine on PATH)",
        "PATH",
        "Kubernetes",
        _KUBERNETES,
    ),
)
SHORT = {option.name: option for option in OPTIONS}


@dataclass(frozen=True)
class LaunchWords:
    """Words meant for the launch, and the rest."""

    launch: tuple[str, ...]
    rest: tuple[str, ...]


def split(words: Sequence[str]) -> LaunchWords:
    """Take the launcher's options out of the words of a measuring verb; -- ends them."""
    launch: list[str] = []
    rest: list[str] = []
    remaining = iter(words)
    for word in remaining:
        if word == "--":
            rest.extend(remaining)
            break
        name, equals, _ = word.partition("=")
        option = SHORT.get(name)
        if option is None:
            rest.append(word)
        else:
            launch.append(word)
            if option.value and not equals:
                launch.append(_value(name, remaining))
    return LaunchWords(tuple(launch), tuple(rest))


def _value(name: str, remaining: Iterator[str]) -> str:
    value = next(remaining, None)
    if value is None:
        raise UsageError(f"{name} needs a value")
    return value
