"""`busbw all_reduce ...` and the other collectives: the engine with the same words, and a record kept by default."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from busbw.base.errors import UserError
from busbw.cli.arguments.measuring import Measurement, understand
from busbw.cli.kept_record import destination_for, explain_named, own_rank, report
from busbw.launch.engine import find_engine

WATCHED = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_words(verb: str, words: Sequence[str]) -> int:
    """Measure one collective in this process's place, or as many ranks where the words ask for a launch."""
    return measure(understand(verb, words))


def measure(asked: Measurement) -> int:
    """Show help, measure several libraries in turn, start ranks, or become the engine."""
    if asked.has("help"):
        from busbw.cli.arguments.help import measuring_help

        print(measuring_help(asked.collective), end="")
        return 0
    if len(asked.texts("library")) > 1:
        from busbw.cli import libraries

        return libraries.run(asked)
    if asked.starts_ranks:
        from busbw.cli.launching import launch
        from busbw.launch.request import Program

        program = Program(find_engine(), (asked.collective, *asked.engine_words), asked.ranks_per_process)
        return launch(asked.launch, program, asked.record)
    return _here(asked)


def _here(asked: Measurement) -> int:
    choice = asked.record
    argv = [str(find_engine()), asked.collective, *asked.engine_words]
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
