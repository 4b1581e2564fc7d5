"""Asks other programs what they know: a short question with an answer, bounded in time, that leaves nothing running."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from busbw.base.lifeline import ends_with_parent

KILL_PATIENCE_S = 5.0
"""A killed process is collected within this; one that hangs in the kernel (on a dead file server) is left to it."""


def with_this_package(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a Python that is to find the package that runs now, wherever it was started from."""
    package = str(Path(__file__).resolve().parents[2])
    return {**environ, "PYTHONPATH": os.pathsep.join(filter(None, (package, environ.get("PYTHONPATH", ""))))}


def ask(
    argv: Sequence[str], limit_s: float, text: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program that answers soon; whatever it started ends with the limit. Exit code 1 says why in stderr."""
    try:
        popen = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            env=environment, start_new_session=True, preexec_fn=ends_with_parent(),  # noqa: PLW1509 - it takes no lock
        )  # fmt: skip
    except OSError as problem:
        return subprocess.CompletedProcess(argv, 1, "", f"{argv[0]} cannot be started: {problem.strerror}")
    try:
        out, err = popen.communicate(text, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 1, "", f"{argv[0]} did not answer within {limit_s:g} s")
    finally:
        if popen.returncode is None:  # with all that it has started, which would hold its pipes
            with suppress(OSError):
                os.killpg(popen.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                popen.wait(KILL_PATIENCE_S)
            for stream in (popen.stdin, popen.stdout, popen.stderr):
                if stream:
                    with suppress(OSError):
                        stream.close()
    return subprocess.CompletedProcess(argv, popen.returncode, out, err)
