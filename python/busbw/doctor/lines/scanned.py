"""What was found in one log, once all its lines went by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from busbw.doctor.lines.beside import Beside
from busbw.doctor.lines.calls import Calls
from busbw.doctor.lines.course import Course
from busbw.doctor.lines.first_failure import Failed
from busbw.doctor.lines.hit import Hit


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found in one log. `kinds` counts lines by who writes such lines: nccl, torch, kernel.

    Of nccl-tests: headers of tables, rows, last lines, and starts after which another one came before any row. `steps`
    counts kinds of lines by which a job shows that it goes on, `alive` is the last of these, `ended` that by which it
    says that it ended as it should, `strange` are the first lines that speak of an error nobody knows, `odd` those with
    words that may be of one, `began` is the last line of ranks that look for each other, `thrown` the traceback that
    the log ends in, before it names its exception, `retried` the last line of something that is tried again, `given`
    the variables that commands in it set, with the line, `calls` the last calls of NCCL, `cut` whether the log is what
    could be unpacked of a file that was cut off, `beside` what stands around errors, `parts` where hosts' parts begin.
    """

    source: str
    lines: int
    hits: Mapping[str, Hit]
    kinds: Mapping[str, int]
    alive: int = 0
    ended: int = 0
    strange: tuple[tuple[int, str], ...] = ()
    odd: tuple[tuple[int, str], ...] = ()
    began: tuple[int, str] = (0, "")
    thrown: tuple[int, str] = (0, "")
    retried: tuple[int, str] = (0, "")
    given: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    calls: Calls = field(default_factory=lambda: Calls({}))
    cut: bool = False
    passed_over: str = ""
    """Which lines were not looked at, and why."""
    unread: int = 0
    """How many of `lines` these are."""
    beside: Mapping[int, Beside] = field(default_factory=dict)
    last_errors: frozenset[str] = frozenset()
    """Signatures of what NCCL names as its last error, where a call of it failed."""
    first_failed: frozenset[Failed] = frozenset()
    """The ranks that summaries of torchrun name as the first that failed."""
    parts: Sequence[tuple[int, str]] = ()
    newest: float | None = None
    """The latest time in front of a line of a new kind (`busbw.doctor.lines.moments`)."""
    unused_ports: int = 0
    """Lines that call a port down which nothing uses."""
    course: Course = field(default_factory=Course)
