"""Runs one engine in our place: in the foreground of the terminal, with our own descriptors, its exit code ours."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from busbw.base.errors import UserError
from busbw.base.lifeline import refuse_orphans, setting

WATCHED = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def replace_by(argv: list[str]) -> NoReturn:
    """Become the engine."""
    sys.stdout.flush()
    # A Ctrl-C that Python had noted, and not yet acted upon, would be lost: it is raised here, or deadly from here on.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        os.execv(argv[0], argv)
    except OSError as error:
        raise UserError(f"{argv[0]} cannot be started: {error.strerror}") from None


def spawn(argv: list[str], environment: Mapping[str, str]) -> int:
    """Run the engine and wait; a signal sent to us alone is passed on, so that the engine can end its record.

    The engine watches us (BUSBW_PARENT), so that it ends with us when nobody can pass anything on.
    """
    sys.stdout.flush()
    refuse_orphans()
    signal.signal(signal.SIGCHLD, lambda *_: None)  # where it was ignored, the engine's exit code would be lost
    mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    try:
        pid = os.posix_spawn(argv[0], argv, {**environment, **setting(os.environ)}, setsigmask=mask_before)
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
