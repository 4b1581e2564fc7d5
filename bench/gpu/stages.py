"""The stages of the comparison: each starts programs, keeps what they printed, and decides nothing."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import launches
import timeline
from launches import Launch, Setup, Sweep
from table import parse_rows

from busbw.launch.supervise import Child, Rules, Supervisor

Result = dict[str, Any]
UNTIL_PRECISE = ("--precision", "2%")


class Deadline:
    """The time that the whole call may take; a run that would not end in time is not started."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._longest: dict[str, float] = {}

    def left(self) -> float:
        return self._end - time.monotonic()

    def allows(self, kind: str) -> bool:
        return self.left() > self._longest.get(kind, 5.0) * 1.1

    def took(self, kind: str, seconds: float) -> None:
        self._longest[kind] = max(seconds, self._longest.get(kind, 0.0))


@dataclass
class Bench:
    setup: Setup
    sweep: Sweep
    deadline: Deadline
    out: Path
    per_run_limit: float
    scratch: str = ""  # a folder for what `busbw` keeps
    turn: int = 0  # rounds so far: every other one goes backwards

    def run(self, launch: Launch, about: Mapping[str, object], keep: str | None = None) -> Result:
        """Starts one program and waits for it. What it printed goes to the log, lines with `keep` to the result."""
        label = " ".join(str(value) for value in about.values())
        begin = time.monotonic()
        limit = max(1.0, min(self.per_run_limit, self.deadline.left()))
        with tempfile.TemporaryFile() as output:
            supervisor = Supervisor([Child(label, launch.argv, launch.environment, output=output)],
                                    Rules(limit, quiet=True))  # fmt: skip
            code = supervisor.run()
            output.seek(0)
            text = output.read().decode(errors="replace")
        if supervisor.timed_out:
            text += f"\n# stopped after {limit:.0f} s\n"
        if supervisor.interrupted:
            raise KeyboardInterrupt
        seconds = time.monotonic() - begin
        with (self.out / "log.txt").open("a") as log:
            log.write(f"\n==== {label}: exit {code}, {seconds:.1f} s\n$ {' '.join(launch.argv)}\n{text}")
        rows = parse_rows(text)
        print(f"{label}: exit {code}, {len(rows)} rows, {seconds:.1f} s", flush=True)
        if code != 0:
            print("    " + "\n    ".join(text.strip().splitlines()[-6:]), flush=True)
        result = {**about, "exit": code, "seconds": round(seconds, 3), "rows": [row.plain() for row in rows]}
        if keep is not None:
            result["lines"] = [line for line in text.splitlines() if keep in line]
        return result

    def rounds(self, plans: Sequence[tuple[Mapping[str, object], Launch]], runs: int) -> Iterator[Result]:
        """Every plan once a round, in an order that turns round, so that drift meets all of them alike."""
        for number in range(runs):
            self.turn += 1
            for about, launch in plans if self.turn % 2 == 1 else list(reversed(plans)):
                kind = json.dumps(about)
                if not self.deadline.allows(kind):
                    print(f"no time left for {kind}, run {number}", flush=True)
                    continue
                result = self.run(launch, {**about, "run": number})
                self.deadline.took(kind, result["seconds"])
                yield result


def compare(bench: Bench, collectives: Sequence[str], modes: Sequence[str], runs: int) -> list[Result]:
    """nccl-tests and busbw on the same library, interleaved."""
    base = dict(os.environ)
    plans: list[tuple[Mapping[str, object], Launch]] = []
    for collective in collectives:
        for mode in modes:
            for tool, make in (("nccl-tests", launches.nccl_tests), ("busbw", launches.busbw)):
                about = {"tool": tool, "collective": collective, "mode": mode}
                plans.append((about, make(bench.setup, collective, mode, bench.sweep, base)))
    return list(bench.rounds(plans, runs))


def precision(bench: Bench, collectives: Sequence[str], modes: Sequence[str], runs: int) -> list[Result]:
    """The whole sweep of nccl-tests against busbw's, which stops each case when 2 % is reached."""
    base = dict(os.environ)
    collectives = [each for each in collectives if each in launches.PRECISE] or collectives
    modes = [mode for mode in modes if not mode.endswith("-graph")] or modes
    until = replace(bench.sweep, extra=(*bench.sweep.extra, *UNTIL_PRECISE))
    plans: list[tuple[Mapping[str, object], Launch]] = []
    for collective in collectives:
        for mode in modes:
            about = {"collective": collective, "mode": mode}
            plans.append(
                ({"tool": "nccl-tests", **about}, launches.nccl_tests(bench.setup, collective, mode, bench.sweep, base))
            )
            plans.append(({"tool": "busbw 2%", **about}, launches.busbw(bench.setup, collective, mode, until, base)))
    return list(bench.rounds(plans, runs))


def context(bench: Bench, _collectives: Sequence[str], _modes: Sequence[str], _runs: int) -> list[Result]:
    """What the GPUs told and where the time went; then beside another run, which must be said."""
    results = []
    for mode, extra in (("threads", ()), ("threads", UNTIL_PRECISE), ("processes", UNTIL_PRECISE)):
        sweep = replace(bench.sweep, extra=("--context", *extra))
        about = {"tool": "busbw", "mode": mode, "options": " ".join(sweep.extra)}
        launch = launches.busbw(bench.setup, "all_reduce", mode, sweep, os.environ)
        results.append(bench.run(launch, about, keep="# "))
    with _neighbour(bench):
        sweep = replace(bench.sweep, largest="16K", factor=4, iterations=5, extra=("--context",))
        about = {"tool": "busbw", "mode": "threads", "options": "--context, beside another run on GPU 0"}
        launch = launches.busbw(bench.setup, "all_reduce", "threads", sweep, os.environ)
        results.append(bench.run(launch, about, keep="# "))
    return results


@contextlib.contextmanager
def _neighbour(bench: Bench) -> Iterator[None]:
    """Somebody else on the first GPU: one rank, which waits for nobody."""
    sweep = replace(bench.sweep, smallest="1M", largest="1M", extra=("-N", "0"))
    alone = launches.busbw(replace(bench.setup, gpus=1), "all_reduce", "threads", sweep, os.environ)
    started = subprocess.Popen(alone.argv, env=alone.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(3)  # until it has its context
        yield
    finally:
        started.kill()
        started.wait()


def start_up(bench: Bench, _collectives: Sequence[str], _modes: Sequence[str], runs: int) -> list[Result]:
    """Both programs with one call of the largest size: what is left is start-up, buffers and the end."""
    base = dict(os.environ)
    sweep = replace(bench.sweep, smallest=bench.sweep.largest, iterations=1, warmup=0, extra=("-c", "0"))
    plans: list[tuple[Mapping[str, object], Launch]] = []
    for mode in ("processes", "threads"):
        for tool, make in (("nccl-tests", launches.nccl_tests), ("busbw", launches.busbw)):
            plans.append(({"tool": tool, "mode": mode}, make(bench.setup, "all_reduce", mode, sweep, base)))
    return list(bench.rounds(plans, runs))


def together(bench: Bench, _collectives: Sequence[str], _modes: Sequence[str], _runs: int) -> list[Result]:
    """Two NCCL versions in one command, in turn case by case, with its own verdict per size."""
    words = ("all_reduce", *launches.flags(replace(bench.sweep, factor=4), "threads", bench.setup.gpus))
    words += ("--library", "system", "--library", bench.setup.library)
    launch = launches.busbw_command(bench.setup, words, os.environ, bench.scratch)
    return [bench.run(launch, {"tool": "busbw", "libraries": f"system, {bench.setup.library}"}, keep="")]


def launchers(bench: Bench, _collectives: Sequence[str], _modes: Sequence[str], runs: int) -> list[Result]:
    """One process per GPU by every way to start them on one host: the figures must be the same."""
    sweep = replace(bench.sweep, largest="64M", factor=8)
    plans: list[tuple[Mapping[str, object], Launch]] = []
    for launcher in ("mpirun", "local", "torchrun"):
        launch = launches.started_by(bench.setup, launcher, "all_reduce", sweep, os.environ, bench.scratch)
        plans.append(({"tool": launcher, "collective": "all_reduce", "mode": "processes"}, launch))
    return list(bench.rounds(plans, runs))


def torch(bench: Bench, _collectives: Sequence[str], _modes: Sequence[str], _runs: int) -> list[Result]:
    """torch.distributed on the same GPUs, in the same table."""
    words = ("torch-bench", "all_reduce", "-b", "1K", "-e", "256M", "-f", "64", "--ranks", str(bench.setup.gpus))
    launch = launches.busbw_command(bench.setup, (*words, "--no-record"), os.environ, bench.scratch)
    about = {"tool": "torch.distributed", "collective": "all_reduce"}
    return [replace(bench, per_run_limit=min(bench.per_run_limit, 40)).run(launch, about, keep="")]


def threads(bench: Bench, collectives: Sequence[str], _modes: Sequence[str], runs: int) -> list[Result]:
    """The part of `compare` with a thread per GPU, eager."""
    return compare(bench, collectives, ("threads",), runs)


def processes(bench: Bench, collectives: Sequence[str], _modes: Sequence[str], runs: int) -> list[Result]:
    """The part of `compare` with a process per GPU, eager."""
    return compare(bench, collectives, ("processes",), runs)


def large_graphs(bench: Bench, collectives: Sequence[str], _modes: Sequence[str], runs: int) -> list[Result]:
    """`-G` from 128 MiB up, with graphs of one call: 400 calls of 4 GiB take half a minute, launching them nothing."""
    sweep = replace(bench.sweep, smallest="128M", iterations=1, warmup=1)
    return compare(replace(bench, sweep=sweep), collectives, ("processes-graph", "threads-graph"), runs)


def types(bench: Bench, collectives: Sequence[str], _modes: Sequence[str], _runs: int) -> list[Result]:
    """Every type and operation of every collective on 2 GPUs and on all of them, checked."""
    sweep = replace(
        bench.sweep,
        smallest="8",
        largest="2M",
        factor=512,
        iterations=1,
        warmup=0,
        extra=("-d", "all", "-o", "all"),
    )
    plans: list[tuple[Mapping[str, object], Launch]] = []
    for gpus in sorted({2, bench.setup.gpus}):
        setup = replace(bench.setup, gpus=gpus)
        for collective in launches.EVERY_COLLECTIVE if collectives == launches.COLLECTIVES else collectives:
            about = {"tool": "busbw", "collective": collective, "gpus": gpus}
            plans.append((about, launches.busbw(setup, collective, "threads", sweep, os.environ)))
    return list(bench.rounds(plans, 1))


def corrupt(bench: Bench, _collectives: Sequence[str], _modes: Sequence[str], _runs: int) -> list[Result]:
    """A library that spoils a known number of elements after every all-reduce."""
    wrapper = bench.setup.busbw.parent / "lib" / "libbusbw_test_corrupting_gpu.so"
    sweep = replace(bench.sweep, smallest="4K", largest="16M", factor=64, iterations=2, warmup=1)
    results = []
    for elements in (1, 7, 1000):
        base = {**os.environ, "BUSBW_TEST_INNER": bench.setup.library, "BUSBW_TEST_ELEMENTS": str(elements)}
        launch = launches.busbw(bench.setup, "all_reduce", "threads", sweep, base, library=str(wrapper))
        results.append(bench.run(launch, {"tool": "busbw", "collective": "all_reduce", "planted": elements}))
    return results


def libraries(bench: Bench, collectives: Sequence[str], modes: Sequence[str], runs: int) -> list[Result]:
    """Two NCCL versions, interleaved: the loader's and PyTorch's."""
    plans: list[tuple[Mapping[str, object], Launch]] = []
    for collective in collectives:
        for mode in modes:
            for library in ("system", bench.setup.library):
                about = {"tool": "busbw", "collective": collective, "mode": mode, "library": library}
                launch = launches.busbw(bench.setup, collective, mode, bench.sweep, os.environ, library=library)
                plans.append((about, launch))
    return list(bench.rounds(plans, runs))


def graph_file(bench: Bench, _collectives: Sequence[str], _modes: Sequence[str], runs: int) -> list[Result]:
    """What a graph file of another machine costs two GPUs."""
    file = os.environ.get("BUSBW_GRAPH_FILE", "peers/nc48v4-graph.xml")
    if not Path(file).is_file():
        raise SystemExit(f"bench/gpu: no graph file at {file}; set BUSBW_GRAPH_FILE")
    setup = replace(bench.setup, gpus=2)
    sweep = replace(bench.sweep, smallest="1G", largest="1G")
    base = {**os.environ, "CUDA_VISIBLE_DEVICES": "0,1"}
    plans: list[tuple[Mapping[str, object], Launch]] = []
    for setting, changes in (("none", {}), ("NCCL_GRAPH_FILE", {"NCCL_GRAPH_FILE": str(Path(file).resolve())})):
        about = {"tool": "busbw", "collective": "all_reduce", "setting": setting}
        plans.append((about, launches.busbw(setup, "all_reduce", "threads", sweep, {**base, **changes})))
    return list(bench.rounds(plans, min(runs, 3)))


def timelines(bench: Bench, _collectives: Sequence[str], _modes: Sequence[str], runs: int) -> list[Result]:
    """When the ranks of both programs start, launch and poll: what a few microseconds a batch are made of."""
    sweep = replace(bench.sweep, largest="4M", factor=8, extra=("-c", "0"))
    library = bench.setup.busbw.parent / "lib" / "libbusbw_test_timeline.so"
    results = []
    for number in range(runs):
        for mode in ("threads", "processes"):
            for tool, make in (("nccl-tests", launches.nccl_tests), ("busbw", launches.busbw)):
                file = bench.out / f"timeline-{mode}-{tool}-{number}.txt"
                file.unlink(missing_ok=True)
                base = {**os.environ, "LD_PRELOAD": str(library), "BUSBW_TIMELINE": str(file.resolve())}
                launch = make(bench.setup, "all_reduce", mode, sweep, base)
                result = bench.run(launch, {"tool": tool, "mode": mode, "run": number})
                if file.exists():
                    with file.open() as lines:
                        result["timeline"] = timeline.summary(timeline.read(lines), sweep.iterations)
                    file.unlink()
                results.append(result)
    return results


Stage = Callable[[Bench, Sequence[str], Sequence[str], int], list[Result]]
STAGES: dict[str, Stage] = {
    "compare": compare,
    "precision": precision,
    "types": types,
    "corrupt": corrupt,
    "libraries": libraries,
    "graph_file": graph_file,
    "context": context,
    "start_up": start_up,
    "together": together,
    "launchers": launchers,
    "torch": torch,
    "threads": threads,
    "processes": processes,
    "large_graphs": large_graphs,
    "timelines": timelines,
}

# Whose results are rows of another stage's table.
PARTS = {"threads": "compare", "processes": "compare", "large_graphs": "compare"}

# What the time of one rented machine is best spent on, in this order, until it is up: one round of each step.
_ROUND = ("threads", "precision")
REST = (
    *("context", *_ROUND, "together", "launchers", *_ROUND, "large_graphs", "start_up"),
    *(*_ROUND, "torch", "processes", "start_up", *_ROUND, "processes", *_ROUND),
    *("large_graphs", "launchers", "processes", "large_graphs"),
)
