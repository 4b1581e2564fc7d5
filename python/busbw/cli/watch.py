"""`busbw watch -- PROGRAM ...`: records every call of NCCL in a job, and says which rank holds it up when it hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.base.errors import UsageError, UserError
from busbw.base.lifeline import outlive_shell
from busbw.base.words import Args
from busbw.watch.screen import Screen

if TYPE_CHECKING:
    from busbw.watch.following import Wishes
    from busbw.watch.live import Watcher

EPILOG = """\
examples:
  busbw watch -- torchrun --nproc-per-node 8 train.py
  busbw watch --hang-after 60 --on-hang abort -- python train.py
  busbw watch --output recordings -- all_reduce_perf -b 8 -e 1G -f 2
  busbw watch --live --output recordings -- python train.py
  srun busbw watch --share /shared/me/job -- torchrun ... train.py
  busbw watch --read recordings
  busbw watch --read recordings --live
"""
HUNG = 124
_POLL_S = 0.2
_KEPT, _WATCHED = 1 << 20, 1 << 18
"""Calls of a ring: of a recording that is kept, and of one that goes with the job and takes 9 MiB at most."""
_GRACE_S, _SOON_S = 5.0, 0.02


def run(args: Args) -> int:
    """Start the program with the recorder in front of NCCL and watch it, or read recordings."""
    words, follows = list(args.rest), bool(args.live)
    if args.live and not Screen.fits(sys.stderr):
        more = ", but the job is followed" if args.read else ""
        print(
            f"busbw watch: --live needs a terminal of 12 lines or more on stderr; no table is drawn{more}",
            file=sys.stderr,
        )
        args.live = False
    if args.read:
        if args.share:
            raise UsageError("--share is for the watchers of a job's hosts, each with the program that it starts")
        if words:
            raise UsageError("--read summarises recordings, and starts no program")
        return _follow(args, Path(args.read)) if follows else _read(args, Path(args.read))
    if not words:
        raise UsageError("say which program to start, after --; `busbw watch --help` has examples")
    with _folder(args.output) as folder:
        return _watch(args, words, folder)


def _read(args: Args, folder: Path) -> int:
    from busbw.watch.given import recordings_in

    paths = recordings_in(folder)
    print(_summary(paths, args.late))
    _pictures(args, paths)
    return 0


def _pictures(args: Args, paths: Iterable[Path]) -> None:
    """What was asked for besides the summary."""
    if args.trace:
        _trace(paths, Path(args.trace))
    if args.timeline:
        _timeline(paths, Path(args.timeline))


def _timeline(paths: Iterable[Path], file: Path) -> None:
    """The page for a browser."""
    from busbw.watch.recording import Recording
    from busbw.watch.timeline import write_timeline

    with ExitStack() as stack:
        written, left_out = write_timeline([stack.enter_context(Recording(path)) for path in paths], file)
    more = f", {left_out:,} further ones are left out" if left_out else ""
    print(f"busbw watch: {written:,} calls are in {file}{more}; a browser opens it", file=sys.stderr)


def _trace(paths: Iterable[Path], file: Path) -> None:
    """The timeline for Perfetto or chrome://tracing."""
    from busbw.watch.recording import Recording
    from busbw.watch.trace import write_trace

    with ExitStack() as stack:
        written, left_out = write_trace([stack.enter_context(Recording(path)) for path in paths], file)
    more = f", {left_out:,} further ones are left out" if left_out else ""
    print(f"busbw watch: {written:,} calls and waits are in {file}{more}; ui.perfetto.dev opens it", file=sys.stderr)


def _summary(paths: Iterable[Path], late_s: float) -> str:
    """What was called, and who waited for whom."""
    from busbw.watch.gpu_times import sums_of
    from busbw.watch.meetings import who_came_late
    from busbw.watch.recording import Recording
    from busbw.watch.summary import summarise, who_waits

    paths = list(paths)
    text = summarise(paths).text()
    with ExitStack() as stack:
        recordings = [stack.enter_context(Recording(path)) for path in paths]
        late = who_waits(*who_came_late(recordings, late_s))
        gpu = sums_of(recordings).text()
    return "\n".join(filter(None, [text, late, gpu]))


def _follow(args: Args, folder: Path) -> int:
    """The live table of a job that somebody else started, until its processes have ended."""
    from busbw.watch.following import Watching
    from busbw.watch.live import Watcher
    from busbw.watch.processes import EXITED, GONE, state_now

    with suppress(KeyboardInterrupt), Watching(_wishes(args), Watcher(folder, args.hang_after)) as watching:
        while True:
            watching.look()
            headers = [recording.header() for recording in watching.watcher.recordings.values()]
            states = [state_now(each) for each in headers]
            if all(each in {EXITED, GONE} for each in states):
                break
            time.sleep(_POLL_S)
        # Its exit code is not known here: a process that ended without a word, or an error of NCCL, tells.
        has_failed = GONE in states or watching.watcher.has_seen_errors()
        if has_failed and (verdict := watching.watcher.after_the_end()):
            how = "failed" if GONE in states else "has ended, and NCCL failed in it"
            print(f"busbw watch: the job {how}. {verdict.text}", file=sys.stderr)
            watching.tell_of_hardware(verdict)
    return _read(args, folder)


def _wishes(args: Args) -> Wishes:
    from busbw.watch.following import Wishes

    metrics = Path(args.prometheus) if args.prometheus else None
    port = args.prometheus_port
    return Wishes(args.late, bool(args.live), args.on_hang == "signal", metrics, port, args.otlp)


@contextmanager
def _folder(out: str | None) -> Iterator[Path]:
    if out is None:
        from busbw.base.scratch import scratch_folder

        with scratch_folder("busbw-watch-") as made:
            yield made
        return
    folder = Path(out)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        what = "is no folder" if isinstance(error, FileExistsError) else error.strerror
        raise UserError(f"--output {out}: {what}; name a folder that can be made or written") from error
    try:
        # Before the job begins: else each of its processes would say so, and go on without a recording.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(f"--output {out} cannot be written: {error.strerror}; name another folder") from error
    yield folder.absolute()


def _watch(args: Args, words: list[str], folder: Path) -> int:
    from busbw.watch.containers import begun_at
    from busbw.watch.following import Watching
    from busbw.watch.live import Watcher
    from busbw.watch.processes import left_behind
    from busbw.watch.recording import find
    from busbw.watch.shared_folder import SharedFolder

    environ = _environment(args, words, folder)
    before = set(find(folder))
    watcher = Watcher(folder, args.hang_after)
    watcher.leave_former()
    # A port that is taken or a package that is missing is told before the job begins, which would run unwatched.
    watching = Watching(_wishes(args), watcher)
    outlive_shell()  # one that has not begun has nobody who waits for it
    share = SharedFolder(Path(args.share)) if args.share else None
    try:
        job = subprocess.Popen(words, env=environ)
    except OSError as error:
        if share:
            share.close(keep=False)
        raise UserError(f"{words[0]} cannot be started: {error.strerror}") from error
    watcher.share = share
    # The folder may have been another job's, whose daemons go on.
    since, hung = begun_at(job.pid) or 0, False
    with _signals_for(job), watching:
        while job.poll() is None:
            verdict = watching.look()
            # Who stays alone may serve what was trained: that ends only where the user has said how long is too long.
            if verdict and args.on_hang == "abort" and (verdict.cause != "stays" or args.hang_after):
                hung = True
                watching.hear_out()
                _end(job, watcher, since)
                break
            _wait(job)
        code = job.wait()
        watcher.look_once_more()
        # A shell that waits for its ranks hides how they ended.
        if not hung and (code != 0 or watcher.has_seen_errors()) and (verdict := watcher.after_the_end()):
            how = "failed" if code != 0 else "ended with code 0, but NCCL failed in it"
            print(f"busbw watch: the job {how}. {verdict.text}", file=sys.stderr)
            watching.tell_of_hardware(verdict)
    watcher.look_once_more()
    seen = [path for path in watcher.recordings if path not in before]
    watcher.close(keep=code != 0)
    if others := left_behind(folder, since):
        where = (
            f"are recorded in {folder} still" if args.output else "are recorded no longer; --output FOLDER keeps them"
        )
        print(
            f"busbw watch: {len(others)} processes of the program go on after its end. Their calls {where}",
            file=sys.stderr,
        )
    _tell_of_all(args, [path for path in find(folder) if path not in before], seen, [
        *watcher.refused.values(), *(share.refused.values() if share else ())])  # fmt: skip
    if hung:
        return HUNG
    return code if code >= 0 else 128 - code


def _tell_of_all(args: Args, paths: list[Path], seen: Sequence[Path], refused: Sequence[str]) -> None:
    """When the job has ended: what was called, and what of it could not be read."""
    kept, lost = _kept(paths, seen)
    if kept or not lost:
        print(_summary(kept, args.late), file=sys.stderr)
    _pictures(args, kept)
    for reason in [*lost, *refused]:
        print(f"busbw watch: {reason}", file=sys.stderr)


def _kept(paths: list[Path], seen: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Recordings that can be read when the job has ended, and what became of the others, as a log's rotation does."""
    from busbw.watch.recording import Recording

    kept, lost = [], []
    for path in paths:
        try:
            Recording(path).close()
            kept.append(path)
        except UserError as error:
            if path in seen:
                lost.append(f"{error}: it was one while the job ran, and is left out")
    gone = [path for path in seen if path not in paths]
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        lost.append(f"{gone[0]}{more} was moved or deleted while the job ran, and is left out")
    return kept, lost


def _environment(args: Args, words: list[str], folder: Path) -> dict[str, str]:
    from busbw.launch import in_front

    program = in_front.resolve_program(words[0], os.environ)
    front = in_front.find_front("recorder", args.by)
    in_front.check(program, front.library, os.environ)
    environ = in_front.environment(front, os.environ, in_front.check_nccl(args.nccl) if args.nccl else None)
    environ["BUSBW_RECORD_DIR"] = str(folder)
    environ.setdefault("BUSBW_WITH_QUIET", "1")
    environ["BUSBW_RECORD_CALLS"] = str(args.calls or (_KEPT if args.output else _WATCHED))
    if args.library:
        environ["BUSBW_RECORD_OVER"] = str(in_front.find_front(args.library, "preload").library)
    return environ


@contextmanager
def _signals_for(job: subprocess.Popen[bytes]) -> Iterator[None]:
    """The job decides what a signal means; from a terminal it has had Ctrl-C already."""

    def hand_on(number: int, _: object) -> None:
        job.send_signal(number)

    handlers = {number: signal.signal(number, hand_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # _wait looks who sent it
    try:
        yield
    finally:
        signal.sigtimedwait({signal.SIGINT}, 0)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _wait(job: subprocess.Popen[bytes]) -> None:
    with suppress(subprocess.TimeoutExpired):
        job.wait(_POLL_S)
    sent = signal.sigtimedwait({signal.SIGINT}, 0)
    if sent is not None and sent.si_code <= 0:  # by a process, to us alone; the terminal sends it to the job too
        job.send_signal(signal.SIGINT)


def _end(job: subprocess.Popen[bytes], watcher: Watcher, since: int) -> None:
    """Ends the program, every process that records for it, and what those have started, and nothing else."""
    from busbw.watch.processes import GONE, is_here, left_behind, state_of

    headers = [header for recording in watcher.recordings.values() if is_here(header := recording.header())]
    mine = {header.pid: header.process_start for header in headers}
    mine |= left_behind(watcher.folder, since)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid, start in mine.items():
            if state_of(pid, start) != GONE:
                try:
                    os.kill(pid, number)
                    os.kill(pid, signal.SIGCONT)
                except OSError:
                    continue
        if job.poll() is None:
            job.send_signal(number)
        end = time.monotonic() + _GRACE_S
        while time.monotonic() < end:
            if job.poll() is not None and all(state_of(pid, start) == GONE for pid, start in mine.items()):
                return
            time.sleep(_SOON_S)
