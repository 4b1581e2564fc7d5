"""Carries out a LaunchPlan: makes its meeting place and its secret, and hands its processes to the supervisor."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

from busbw.base.scratch import scratch_folder
from busbw.launch.plan import LaunchPlan, ProcessPlan
from busbw.launch.supervise import TIMED_OUT, Child, Patience, Rules, Supervisor

__all__ = ["SECRET", "TIMED_OUT", "Patience", "execute", "prepare"]

SECRET = "BUSBW_SECRET"


def execute(
    plan: LaunchPlan, *, timeout: float | None = None, patience: Patience | None = None, messages: IO[str] | None = None
) -> int:
    """Run the plan to its end and return the exit code of the first process that failed, or 0."""
    rules = Rules(timeout, patience or Patience(after_terminate=plan.grace), messages=messages or sys.stderr)
    with ExitStack() as stack:
        children, listener = prepare(plan, stack)
        # Once all are started only rank 0 has the socket: a caller that comes too late is refused and does not wait.
        return Supervisor(children, rules).run(started=listener.close if listener else None)


def prepare(plan: LaunchPlan, stack: ExitStack) -> tuple[list[Child], socket.socket | None]:
    """The processes to start, with their secret and their folder, and the socket to close once all are started."""
    listener = stack.enter_context(_meeting_place()) if plan.meets else None
    meeting = _meeting_environment(listener) if listener else {}
    if plan.secret and not os.environ.get(SECRET):
        meeting[SECRET] = secrets.token_hex(16)
    if plan.scratch and not os.environ.get(plan.scratch):
        meeting[plan.scratch] = str(stack.enter_context(scratch_folder("busbw-launch-")))
    return [_child(number, process, listener, meeting) for number, process in enumerate(plan.processes)], listener


def _child(number: int, plan: ProcessPlan, listener: socket.socket | None, meeting: dict[str, str]) -> Child:
    environment = {**os.environ, **plan.environment, **meeting}
    inherited: tuple[int, ...] = ()
    if plan.listens and listener:
        inherited = (listener.fileno(),)
        environment["BUSBW_LISTEN_FD"] = str(listener.fileno())
    # The first one's output is the job's output; the others speak with their names before each line.
    return Child(plan.name, plan.argv, environment, labelled=number > 0, cpus=plan.cpus, inherits=inherited,
                 loud=plan.loud)  # fmt: skip


@contextmanager
def _meeting_place() -> Iterator[socket.socket]:
    """A listening socket on this machine that rank 0 inherits, so that nobody can take its port in between."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(socket.SOMAXCONN)
        yield listener


def _meeting_environment(listener: socket.socket) -> dict[str, str]:
    host, port = listener.getsockname()
    return {"BUSBW_ADDRESS": f"{host}:{port}", SECRET: secrets.token_hex(16)}
