"""`busbw replay FOLDER`: issues the recorded calls again, over a library of the NCCL API, in host or GPU memory."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from busbw.base.errors import UserError
from busbw.base.files import whole
from busbw.base.programs import with_this_package
from busbw.base.text import columns
from busbw.base.words import Args

EPILOG = """\
examples:
  busbw watch --output recordings -- python train.py
  busbw replay recordings                      as fast as it goes
  busbw replay recordings --gaps               with the recorded pauses
  busbw replay recordings --ranks 2            with the first two ranks alone
  busbw replay recordings --gaps --library ./libnccl.so.2     on GPUs
"""
_GRACE_S = 60.0
_TIMES = 20


@dataclass(frozen=True)
class Library:
    """What the calls are issued over."""

    path: Path
    is_on_gpus: bool
    is_ours: bool
    """Stands in front of NCCL itself."""


def run(args: Args) -> int:
    """Plan, start the ranks, compare; 1 where a result was wrong."""
    from busbw.watch.given import recordings_in
    from busbw.watch.recording import Recording
    from busbw.watch.replay import plan
    from busbw.watch.replay_gpu import transfers
    from busbw.watch.replay_times import times_of

    paths = recordings_in(Path(args.folder))
    library = _library(args.library)
    with ExitStack() as stack:
        recordings = [stack.enter_context(Recording(path)) for path in paths]
        made = plan(recordings, args.ranks)
        if library.is_on_gpus:
            made.ranks[0].recorded_ns = transfers(recordings, {each: at for at, each in enumerate(made.identities)})
    for why, calls in made.left_out.items():
        print(f"busbw replay: {calls:,} {why} are left out", file=sys.stderr)
    for note in made.notes:
        print(f"busbw replay: {note}", file=sys.stderr)
    limit = _GRACE_S + _TIMES * made.span_ns / 1e9
    gpus = [number if library.is_on_gpus else None for number in range(len(made.ranks))]
    results = _start(
        library,
        [
            {
                "communicators": each.communicators,
                "steps": each.steps,
                "gaps": args.gaps,
                "gpu": gpu,
                "number": number,
                "ranks": len(made.ranks),
            }
            for number, (each, gpu) in enumerate(zip(made.ranks, gpus, strict=True))
        ],
        limit,
        Path(args.output) if args.output else None,
    )
    wrong = sum(result["wrong"] for result in results)
    print(_table([each.recorded_ns for each in made.ranks], [each.communicators for each in made.ranks], results))
    if groups := [ns for result in results for ns in result["groups"]]:
        middle = median(groups) / 1000
        print(f"{len(groups):,} groups, the median one in {middle:.1f} us; recordings have no time of a group")
    if (lanes := max(result["lanes"] for result in results)) > 1:
        print(f"up to {lanes} streams of a rank ran beside each other")
    if args.times:
        _write(Path(args.times), times_of(made, results))
    took = max(result["took_ns"] for result in results) / 1e9
    checks = sum(result["checks"] for result in results)
    print(f"{sum(len(each.steps) for each in made.ranks):,} calls of {len(made.ranks)} ranks in {took:.3g} s, "
          f"recorded over {made.span_ns / 1e9:.3g} s; {wrong} wrong of {3 * checks:,} elements looked at")  # fmt: skip
    return 1 if wrong else 0


def _write(file: Path, times: dict[str, Any]) -> None:
    try:
        with whole(file) as part:
            part.write_text(json.dumps(times, indent=1) + "\n")
    except OSError as error:
        raise UserError(f"--times {file}: {error.strerror}") from error


def _library(name: str | None) -> Library:
    """A file with the NCCL API."""
    from busbw.launch.engine import find_engine

    if name in (None, "cpu"):
        found = find_engine().parent.parent / "lib" / "libbusbw_cpu.so"
        path = found if found.exists() else find_engine().parent / "libbusbw_cpu.so"
    else:
        path = Path(str(name)).absolute()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise UserError(f"--library {name or 'cpu'}: {error}") from error
    if not hasattr(library, "ncclAllReduce"):
        raise UserError(f"{path} has no ncclAllReduce; give a library of the NCCL API with --library")
    if not hasattr(library, "busbwLibraryName"):
        return Library(path, is_on_gpus=True, is_ours=False)
    library.busbwLibraryName.restype = ctypes.c_char_p
    on_gpus = b"CPU" not in library.busbwLibraryName()
    return Library(path, is_on_gpus=on_gpus, is_ours=on_gpus)


def _start(library: Library, plans: list[dict[str, Any]], limit_s: float, keep: Path | None) -> list[dict[str, Any]]:
    """A process for each rank; when one fails or the time is over, all end."""
    from busbw.base.scratch import scratch_folder
    from busbw.launch.in_front import find_front
    from busbw.launch.supervise import Child, Patience, Rules, Supervisor
    from busbw.watch import replay_host
    from busbw.watch.replay_gpu import environment, put, replayed

    with scratch_folder("busbw-replay-") as folder:
        children, results = [], []
        called, environ = library.path, with_this_package(os.environ)
        if library.is_on_gpus:
            called = find_front("recorder", "preload").library
            environ = environment(environ, library.path, folder, is_ours=library.is_ours)
        else:
            called = find_front("recorder", "preload").library
            most = max(len(plan["steps"]) for plan in plans)
            environ = replay_host.environment(environ, library.path, folder, most)
        for number, plan in enumerate(plans):
            given, out = folder / f"plan{number}", folder / f"out{number}"
            given.write_text(json.dumps(plan))
            words = [sys.executable, "-m", "busbw.watch.replay_rank", str(called), str(folder), str(given), str(out)]
            children.append(Child(f"rank {number}", words, {**environ, "RANK": str(number)}))
            results.append(out)
        supervisor = Supervisor(children, Rules(limit_s, Patience(to_stop=0.0), speaker="busbw replay", quiet=True))
        code = supervisor.run()
        if supervisor.interrupted:
            raise SystemExit(128 + supervisor.interrupted)
        if supervisor.timed_out:
            raise UserError(
                f"the replay took longer than {limit_s:.0f} s and was ended; where a job sends before it receives, "
                "host memory may need what its streams did beside each other"
            )
        if code != 0:
            failed = next(each for each in supervisor.processes if each.code == code)
            raise UserError(f"{failed.name} of the replay ended with code {code}; the others were ended")
        if keep:
            _keep(folder, keep)
        read = [json.loads(out.read_text()) for out in results]
        if library.is_on_gpus:
            found, missed = replayed(folder, [plan["communicators"] for plan in plans])
            put(read, found)
            if missed:
                print(f"busbw replay: {missed:,} calls have no time on the GPU", file=sys.stderr)
        else:
            replay_host.put(folder, [plan["communicators"] for plan in plans], read)
        return read


def _keep(folder: Path, into: Path) -> None:
    """What the recorder in front of the replay wrote, for this user alone as all recordings."""
    from busbw.watch.recording import find

    try:
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in find(folder):
            made = os.open(into / path.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(made, "wb") as copy:
                copy.write(path.read_bytes())
    except OSError as error:
        raise UserError(f"--output {into}: {error.strerror}") from error


def _table(
    recorded: list[dict[tuple[int, str, int, int], list[int]]],
    communicators: list[list[tuple[int, int]]],
    results: list[dict[str, Any]],
) -> str:
    """By collective, count and type: the median call of all ranks, recorded and replayed."""
    from busbw.watch.recording import TYPES

    keys = dict.fromkeys(key for result in results for key in result["times"])
    head = ("collective", "count", "type", "ranks", "recorded us", "replayed us", "ratio")
    rows = []
    for key in keys:
        place, kind, count, type_ = key.split()
        number = (int(place), kind, int(count), int(type_))
        before = [ns for each in recorded for ns in each.get(number, [])]
        after = [ns for result in results for ns in result["times"].get(key, [])]
        size = max(each[number[0]][0] for each in communicators)
        was, is_ = median(before) / 1000 if before else None, median(after) / 1000 if after else None
        ratio = f"{is_ / was:.3f}" if was and is_ else "-"
        rows.append((kind, f"{number[2]:,}", TYPES[number[3]], str(size), _us(was), _us(is_), ratio))
    return "\n".join(columns(head, rows, left=(0,)))


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
