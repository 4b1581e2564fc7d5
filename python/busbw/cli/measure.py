"""`busbw all_reduce ...` and the other collectives: the engine with the same words, and a record kept by default."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from busbw.base.errors import UserError
from busbw.cli.kept_record import destination_for, explain_named, own_rank, report
from busbw.launch.engine import find_engine
from busbw.launch.options import LaunchWords, split
from busbw.runs.destination import split_record_options

WATCHED = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_words(verb: str, words: Sequence[str]) -> int:
    """Measure one collective in this process's place, or as many ranks where the words ask for a launch."""
    if asks_for_several(words):
        from busbw.cli import libraries

        return libraries.run((verb,), words)
    split_words = split(words)
    if split_words.launch:
        return _launch(verb, split_words)
    engine = find_engine()
    choice = split_record_options(words)
    argv = [str(engine), verb, *choice.words]
    destination = destination_for(choice, os.environ)
    if destination is None:
        if choice.named and own_rank(os.environ) == 0:
            code = _spawn(argv, os.environ)
            explain_named(Path(choice.named))
            return code
        _exec(argv)
    destination.create()
    code = _spawn([*argv, "--record", str(destination.record)], {**os.environ, "BUSBW_RUN_ID": destination.run_id})
    report(destination)
    return code


def asks_for_several(words: Sequence[str]) -> bool:
    """Whether the words name more than one library; one or none is the engine's own affair."""
    return sum(word == "--library" or word.startswith("--library=") for word in words) > 1


def _launch(verb: str, words: LaunchWords) -> int:
    from busbw.cli.launching import launch, ranks_per_process, understand
    from busbw.launch.request import Program

    choice = split_record_options(words.rest)
    args = understand(verb, words.launch)
    program = Program(find_engine(), (verb, *choice.words), ranks_per_process(choice.words))
    return launch(args, program, choice)


def _exec(argv: list[str]) -> NoReturn:
    sys.stdout.flush()
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        raise UserError(f"{argv[0]} cannot be started: {error.strerror}") from None


def _spawn(argv: list[str], environment: Mapping[str, str]) -> int:
    """Run the engine and wait; a signal sent to us alone is passed on, so that the engine can end its record."""
    sys.stdout.flush()
    signal.signal(signal.SIGCHLD, lambda *_: None)  # where it was ignored, the engine's exit code would be lost
    mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    try:
        pid = os.posix_spawn(argv[0], argv, environment, setsigmask=mask_before)
        code = _wait(pid)
    except OSError as error:
        raise UserError(f"{argv[0]} cannot be started: {error.strerror}") from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)
    if code < 0:
        print(f"busbw: {Path(argv[0]).name} was killed by {signal.Signals(-code).name}", file=sys.stderr)
        return 128 - code
    return code


def _wait(pid: int) -> int:
    """The engine's exit code, or minus the signal that killed it."""
    while True:
        received = signal.sigwaitinfo(WATCHED)
        if received.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        elif received.si_code <= 0:  # from a process; what the terminal sends (Ctrl-C) has reached the engine too
            os.kill(pid, received.si_signo)
