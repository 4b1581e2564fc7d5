"""`busbw watch -- PROGRAM ...`: records every call of NCCL in a job, and says which rank holds it up when it hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.words import Args

if TYPE_CHECKING:
    from busbw.watch.live import Watcher

EPILOG = """\
examples:
  busbw watch -- torchrun --nproc-per-node 8 train.py
  busbw watch --hang-after 60 --on-hang abort -- python train.py
  busbw watch --output recordings -- all_reduce_perf -b 8 -e 1G -f 2
  busbw watch --read recordings
"""
HUNG = 124
_POLL_S = 0.2
_GRACE_S = 5.0


def run(args: Args) -> int:
    """Start the program with the recorder in front of NCCL and watch it, or read recordings."""
    words = list(args.rest)
    if args.read:
        if words:
            raise UsageError("--read summarises recordings, and starts no program")
        return _read(Path(args.read))
    if not words:
        raise UsageError("say which program to start, after --; `busbw watch --help` has examples")
    with _folder(args.output) as folder:
        return _watch(args, words, folder)


def _read(folder: Path) -> int:
    from busbw.watch.recording import find
    from busbw.watch.summary import summarise

    paths = find(folder)
    if not paths:
        raise UserError(f"{folder} holds no recording; `busbw watch --output {folder} -- PROGRAM` makes them")
    print(summarise(paths).text())
    return 0


@contextmanager
def _folder(out: str | None) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory(prefix="busbw-watch-", ignore_cleanup_errors=True) as made:
            yield Path(made)
        return
    folder = Path(out)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--output {out}: {error.strerror}") from error
    yield folder.absolute()


def _watch(args: Args, words: list[str], folder: Path) -> int:
    from busbw.watch.live import Watcher
    from busbw.watch.recording import find
    from busbw.watch.summary import summarise

    environ = _environment(args, words, folder)
    before = set(find(folder))
    try:
        job = subprocess.Popen(words, env=environ)
    except OSError as error:
        raise UserError(f"{words[0]} cannot be started: {error.strerror}") from error
    watcher = Watcher(folder, args.hang_after)
    hung = False
    with _signals_for(job):
        while job.poll() is None:
            verdict = watcher.poll(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
            if verdict:
                print(
                    f"busbw watch: no progress for {watcher.threshold_s():g} s. {verdict.text}",
                    file=sys.stderr,
                    flush=True,
                )
                if args.on_hang == "abort":
                    hung = True
                    _end(job, watcher)
                    break
            _wait(job)
        code = job.wait()
    if code != 0 and not hung and (verdict := watcher.after_the_end()):
        print(f"busbw watch: the job failed. {verdict.text}", file=sys.stderr)
    watcher.close()
    print(summarise(path for path in find(folder) if path not in before).text(), file=sys.stderr)
    for reason in watcher.refused.values():
        print(f"busbw watch: {reason}", file=sys.stderr)
    if hung:
        return HUNG
    return code if code >= 0 else 128 - code


def _environment(args: Args, words: list[str], folder: Path) -> dict[str, str]:
    from busbw.launch import in_front

    program = in_front.resolve_program(words[0], os.environ)
    front = in_front.find_front("recorder", args.by)
    in_front.check(program, front.library, os.environ)
    environ = in_front.environment(front, os.environ, in_front.check_nccl(args.nccl) if args.nccl else None)
    environ["BUSBW_RECORD_DIR"] = str(folder)
    environ.setdefault("BUSBW_WITH_QUIET", "1")
    environ["BUSBW_RECORD_CALLS"] = str(args.calls)
    if args.library:
        environ["BUSBW_RECORD_OVER"] = str(in_front.find_front(args.library, "preload").library)
    return environ


@contextmanager
def _signals_for(job: subprocess.Popen[bytes]) -> Iterator[None]:
    """The job decides what a signal means; from a terminal it has had Ctrl-C already."""

    def hand_on(number: int, _: object) -> None:
        job.send_signal(number)

    handlers = {number: signal.signal(number, hand_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    handlers[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _wait(job: subprocess.Popen[bytes]) -> None:
    with suppress(subprocess.TimeoutExpired):
        job.wait(_POLL_S)


def _end(job: subprocess.Popen[bytes], watcher: Watcher) -> None:
    """Ends the program and every process that records for it, and nothing else."""
    from busbw.watch.verdict import GONE, state_of

    mine = [recording.header() for recording in watcher.recordings.values()]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for header in mine:
            if header.host == os.uname().nodename and state_of(header.pid, header.process_start) != GONE:
                try:
                    os.kill(header.pid, number)
                    os.kill(header.pid, signal.SIGCONT)
                except OSError:
                    continue
        if job.poll() is None:
            job.send_signal(number)
        try:
            job.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        if all(state_of(header.pid, header.process_start) == GONE for header in mine):
            return
