"""Every algorithm, protocol and shape at every size, in graphs: the material of which a table of choices is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gpu_library.contest import Outcome, Player, as_json, play, scratch
from gpu_library.figures import plain
from gpu_library.peers import OURS, Band, Peer, engine_argv, engine_environment
from gpu_library.program import Command
from gpu_library.session import Result, Session
from gpu_library.sizes import within

TOGETHER = 8
"""So many shapes are alive at once and take turns: one start-up for all of them."""

_KI, _MI, _GI = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Kernel:
    """An algorithm with its protocol, the sizes at which it can be the best, and the shapes to try there."""

    collective: str
    name: str
    first: int
    last: int
    channels: tuple[int, ...]
    threads: tuple[int, ...]


SMALL, LARGE = (1, 2, 4, 8, 16, 32), (16, 32, 64, 128)
NARROW, WIDE = (128, 256, 512), (256, 512)

KERNELS = (
    Kernel("all_reduce", "one_shot/ll", _KI, _MI, SMALL, NARROW),
    Kernel("all_reduce", "two_shot/ll", 16 * _KI, 4 * _MI, (4, 8, 16, 32, 64), NARROW),
    Kernel("all_reduce", "two_shot/sentinel", 32 * _KI, 64 * _MI, (8, 16, 32, 64, 128), WIDE),
    Kernel("all_reduce", "two_shot/simple", 256 * _KI, _GI, LARGE, WIDE),
    Kernel("all_gather", "direct/ll", _KI, 4 * _MI, SMALL, NARROW),
    Kernel("all_gather", "direct/simple", 64 * _KI, _GI, LARGE, WIDE),
    Kernel("reduce_scatter", "direct/ll", _KI, 4 * _MI, SMALL, NARROW),
    Kernel("reduce_scatter", "direct/simple", 64 * _KI, _GI, LARGE, WIDE),
    Kernel("alltoall", "direct/ll", _KI, 4 * _MI, SMALL, NARROW),
    Kernel("alltoall", "direct/simple", 64 * _KI, _GI, LARGE, WIDE),
    Kernel("broadcast", "direct/ll", _KI, 4 * _MI, SMALL, NARROW),
    Kernel("broadcast", "scatter_forward/simple", 128 * _KI, _GI, LARGE, WIDE),
)


@dataclass(frozen=True)
class Trial:
    """One kernel in one shape; `use` is what BUSBW_ALGORITHM takes."""

    kernel: Kernel
    channels: int
    threads: int
    gpus: int

    @property
    def use(self) -> str:
        return f"{self.kernel.name}@{self.channels}x{self.threads}"

    @property
    def forced(self) -> str:
        # The library calls alltoall by its whole name.
        collective = {"alltoall": "all_to_all"}.get(self.kernel.collective, self.kernel.collective)
        return f"{collective}={self.use}"


def trials(collectives: Sequence[str], counts: Sequence[int]) -> list[Trial]:
    """All shapes, by collective and GPUs, so that neighbours can be measured together."""
    return [
        Trial(kernel, channels, threads, gpus)
        for gpus in sorted(counts, reverse=True)
        for collective in collectives
        for kernel in KERNELS
        if kernel.collective == collective
        for channels in kernel.channels
        for threads in kernel.threads
    ]


def batches(found: Sequence[Trial]) -> Iterator[tuple[Trial, ...]]:
    """Trials of one kernel on as many GPUs, at most TOGETHER at a time."""
    groups: dict[tuple[Kernel, int], list[Trial]] = {}
    for trial in found:
        groups.setdefault((trial.kernel, trial.gpus), []).append(trial)
    for group in groups.values():
        rest = iter(group)
        while batch := tuple(islice(rest, TOGETHER)):
            yield batch


def bands(kernel: Kernel, smallest: int, largest: int, graphs: bool) -> list[Band]:
    """The sizes of a kernel that were asked for: small ones called often, large ones seldom."""
    found = []
    for first, last, iterations, launches in ((0, 16 * _MI, 20, 10), (32 * _MI, 4 * _GI, 4, 3)):
        part = within(max(kernel.first, first), min(kernel.last, last), smallest, largest)
        if part:
            found.append(Band("sweep", *part, factor=2, iterations=iterations, warmup=2,
                              graph_launches=launches if graphs else 0))  # fmt: skip
    return found


def winners(results: Sequence[Result]) -> list[tuple[str, int, int, str, float, str, float]]:
    """By collective, GPUs and size: the fastest use and its time, the fastest of another kernel and its time."""
    times: dict[tuple[str, int, int], list[tuple[float, str]]] = {}
    for result in results:
        for sample in result["samples"]:
            if sample["placement"] == "out_of_place" and not sample.get("wrong"):
                key = (result["collective"], result["gpus"], sample["bytes"])
                times.setdefault(key, []).append((sample["us"], result["use"]))
    found = []
    for key, candidates in sorted(times.items()):
        us, use = min(candidates)
        others = [each for each in candidates if each[1].split("@")[0] != use.split("@")[0]]
        second_us, second = min(others, default=(float("nan"), "none"))
        found.append((*key, use, us, second, second_us))
    return found


def stage(session: Session) -> list[Result]:
    results: list[Result] = []
    wanted, machine = session.wanted, session.machine
    for batch in batches(trials(wanted.collectives, machine.counts)):
        kernel = batch[0].kernel
        for band in bands(kernel, wanted.smallest, wanted.largest, graphs=not machine.host):
            label = f"sweep {kernel.collective} {kernel.name}, {batch[0].gpus} GPUs, from {band.first}"
            if not session.fits(label, 12):
                continue
            results += _measure(session, batch, band, label)
    return results


def _measure(session: Session, batch: Sequence[Trial], band: Band, label: str) -> list[Result]:
    left = session.deadline.left()
    with scratch() as folder:
        players = [_player(session, trial, band, Path(folder) / f"{n}.jsonl") for n, trial in enumerate(batch)]
        outcomes = play(players, session.deadline.limit(session.wanted.per_run_limit_s), session.log, label)
    seconds = left - session.deadline.left()
    session.deadline.took(label, seconds)
    print(f"{label}: {sum(bool(o.samples) for o in outcomes)} of {len(outcomes)}, {seconds:.1f} s", flush=True)
    return [_result(trial, outcome) for trial, outcome in zip(batch, outcomes, strict=True)]


def _player(session: Session, trial: Trial, band: Band, record: Path) -> Player:
    machine = session.machine
    peer = Peer(OURS, str(machine.ours))
    words = ("-T", "20", "-c", "1", *band.words())
    argv = engine_argv(machine, peer, trial.kernel.collective, trial.gpus, words, str(record))
    changes = {"BUSBW_REAL_NCCL": str(machine.nccl), "BUSBW_ALGORITHM": trial.forced}
    environment = session.environment(engine_environment(machine, session.base), changes)
    return Player(trial.use, Command(argv, environment), record)


def _result(trial: Trial, outcome: Outcome) -> Result:
    return {"collective": trial.kernel.collective, "gpus": trial.gpus, "use": trial.use, **as_json(outcome),
            "samples": [plain(s) for s in outcome.samples if s.placement == "out_of_place"]}  # fmt: skip
