"""The record of rank 0, written line by line as it is measured, and the environment that may stand in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from busbw.base.acting import belongs_in_record
from busbw.base.errors import UserError
from busbw.base.secrets import hide_random, shortened
from busbw.records import Case, End, Run, to_json

_LONGEST = 4096
_LONGEST_VERSION = 100


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that belong in a record."""
    return {
        name: hide_random(shortened(value, _LONGEST))
        for name, value in sorted(environ.items())
        if belongs_in_record(name)
    }


def system(driver: Path = Path("/sys/module/nvidia/version")) -> dict[str, str]:
    """The kernel and the GPU driver of this host, as the engine has them."""
    said = {"kernel": os.uname().release}
    with suppress(OSError, UnicodeDecodeError), driver.open(encoding="ascii") as stream:
        said["driver"] = (stream.read(_LONGEST_VERSION).split() or [""])[0]
    return {name: value for name, value in said.items() if value.isprintable() and value}


class Output:
    """A record, or nothing where this rank keeps none."""

    def __init__(self, path: str | None) -> None:
        self._stream: TextIO | None = None
        if path:
            try:
                self._stream = Path(path).open("x", encoding="utf-8")  # noqa: SIM115 - kept open from case to case
            except OSError as problem:
                reason = problem.strerror or problem
                raise UserError(f"the record {path} cannot be written: {reason}; name another with --runs") from None

    def line(self, line: Run | Case | End) -> None:
        """One line, on the disk before the next case begins."""
        if self._stream:
            self._stream.write(to_json(line) + "\n")
            self._stream.flush()
