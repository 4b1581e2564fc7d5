"""The one exception that reaches people: a full sentence, without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from busbw.base.sentences import bounded_sentence


class UserError(Exception):
    """What was wrong, where, and what to try, in one sentence; `busbw` prints it on stderr and exits non-zero."""

    def __init__(self, sentence: str, *, exit_code: int = 1) -> None:
        super().__init__(bounded_sentence(sentence))
        self.exit_code = exit_code


class UsageError(UserError):
    """The command line itself cannot be understood."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, exit_code=2)


class PackageError(UserError):
    """A package of Python that is not there, and the command that brings it to the Python that runs busbw."""

    def __init__(self, what: str, package: str, instead: str = "") -> None:
        instead = f"; {instead}" if instead else ""
        python = sys.executable or "python3"
        super().__init__(f"{what} needs {package}, which is not installed: {python} -m pip install {package}{instead}")


@contextmanager
def exiting_with(code: int) -> Iterator[None]:
    """What goes wrong within ends busbw with this code: where 1 is a verdict, a script must tell the two apart."""
    try:
        yield
    except UserError as problem:
        # Another code than 1 says something of its own, such as that a budget has passed.
        raise UserError(str(problem), exit_code=code if problem.exit_code == 1 else problem.exit_code) from problem
