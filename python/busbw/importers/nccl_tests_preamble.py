"""What nccl-tests and mscclpp-test print before and after a table: versions, parameters, ranks, failures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from busbw.importers.values import version_of_code
from busbw.records import Device, End, Library, Rank, Tool

MAX_RANKS = 100_000
MAX_REMEMBERED = 400

_PARAMETERS = re.compile(
    r"#\s*(?:nThreads?:? (?P<nthreads>\d+) nGpus:? (?P<ngpus>\d+) )?minBytes:? (?P<minbytes>\d+) "
    r"maxBytes:? (?P<maxbytes>\d+) step: (?P<step>\d+)\((?P<kind>factor|bytes)\) warmup iters: (?P<warmup_iters>\d+) "
    r"iters: (?P<iters>\d+)(?: agg iters: (?P<agg_iters>\d+))?(?: validation: (?P<check>\d+))?"
    r"(?: graph: (?P<cudagraph>\d+))?(?: kernel num: (?P<kernel_num>\d+))?(?: unalign: (?P<unalign>\d+))?"
)
_RANK = re.compile(
    r"#\s+Rank\s+(?P<rank>\d{1,7})(?:\s+Group\s+(?P<group>\d{1,7}))?(?:\s+Pid\s+(?P<pid>\d{1,10}))?"
    r"\s+on\s+(?P<host>\S{1,255})\s+device\s+(?P<device>\d{1,5})\s+\[(?P<bus>[0-9a-fA-Fx:.]{1,20})\]\s*(?P<name>.{0,200})"
)
RANK_STARTS = ("# Rank", "#  Rank", "#   Rank", "#    Rank", "#\tRank")
_VERSION = re.compile(r"#\s*nccl-tests version (\S{1,40})(?: nccl-headers=(\d{1,9}) nccl-library=(\d{1,9}))?")
_COMPILED = re.compile(r"#\s*NCCL Tests compiled with NCCL (\S{1,40})")
_STARTING = re.compile(r"#\s*Collective test starting: (\S{1,100})")
OUT_OF_BOUNDS = re.compile(r"\s*#?\s*Out of bounds values\s*: (\d{1,15})")
AVERAGE = re.compile(r"\s*#?\s*Avg bus bandwidth\s*: (\S{1,40})")
FAILURE = re.compile(r"\S+: Test (?:NCCL|CUDA) failure .{1,500}|\S+: Test timeout .{1,200}")
RCCL_VERSION = re.compile(r"#?\s*rccl-tests: Version (\S{1,60})")
_SILENT = ("# Using devices", "#        (B)", "# Reducing maxBytes", "# Setting up", "# Initializing MSCCL")
WITHOUT_HASH = ("nThread", "Rank ", "Out of bounds", "Avg bus", "out-of-place", "size ", "in-place ",
                "nccl-tests version", "Collective test")  # fmt: skip
"""Pages that show Markdown swallow the # that starts a line."""


@dataclass
class Preamble:
    """What was said before the table."""

    line: int = 0
    options: dict[str, Any] | None = None
    program: str | None = None
    version: str | None = None
    library_code: int | None = None
    ranks: list[Rank] | None = None
    is_mscclpp: bool = False
    is_rccl: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said that only a program's start says."""
        return self.options is None and not self.ranks

    def parameters(self, match: re.Match[str]) -> None:
        """The line of parameters."""
        self.options = dict(_options_of(match[0]))
        self.is_mscclpp = match["kernel_num"] is not None

    def takes_rank(self, comment: str) -> bool:
        """Whether a line belongs to the list of ranks, where most lines around tables do."""
        match = _RANK.match(comment) if comment.startswith(RANK_STARTS) else None
        if match is None:
            return False
        if self.ranks is None:
            self.ranks = []
        if len(self.ranks) < MAX_RANKS:
            self.ranks.append(_rank_of(*match.groups()))
        return True

    def ranks_follow(self, lines: list[str], at: int) -> int:
        """Take the lines of the list of ranks from `at` on, or one that says nothing, and return where they end."""
        if lines[at] == "#":
            return at + 1
        ranks = self.ranks if self.ranks is not None else []
        while at < len(lines) and len(ranks) < MAX_RANKS:
            line = lines[at]
            # What a launcher or NCCL put into a line is not ours to take off.
            rank = rank_of_line(line)
            if rank is None:
                break
            ranks.append(rank)
            at += 1
        self.ranks = ranks or None
        return at

    def takes_usual(self, comment: str) -> bool:
        """Whether a line is one of those that most comments before a table are: ranks, and lines that say nothing."""
        return self.takes_rank(comment) or (len(comment) <= MAX_REMEMBERED and kind_of(comment)[0] == "silent")

    @property
    def tool(self) -> Tool:
        """What measured."""
        return Tool("mscclpp-test" if self.is_mscclpp else "rccl-tests" if self.is_rccl else "nccl-tests", self.version)

    @property
    def library(self) -> Library | None:
        """The library that was measured."""
        name = "RCCL" if self.is_rccl else "NCCL"
        if self.library_code:
            return Library(name, version=version_of_code(self.library_code), version_code=self.library_code)
        return Library("MSCCL++") if self.is_mscclpp else Library("RCCL") if self.is_rccl else None

    @property
    def processes(self) -> int | None:
        """How many processes there were, where the list of ranks fits the parameters."""
        options, ranks = self.options or {}, self.ranks or []
        per_process = options.get("nthreads", 1) * options.get("ngpus", 1)
        if not ranks or "ngpus" not in options or not per_process or len(ranks) % per_process:
            return None
        return len(ranks) // int(per_process)


_BEFORE_TABLE = (
    ("parameters", _PARAMETERS), ("version", _VERSION), ("starting", _STARTING),
    ("compiled", _COMPILED),
)  # fmt: skip


@lru_cache(maxsize=4096)
def kind_of(comment: str) -> tuple[str, re.Match[str] | None]:
    """What a comment line is, and what it says; the sweeps of one log repeat most of theirs."""
    if "busbw" in comment and "algbw" in comment:
        return "header", None
    if "out-of-place" in comment or "in-place" in comment:
        return "above", None
    if OUT_OF_BOUNDS.match(comment) or AVERAGE.match(comment):
        return "footer", None
    if comment.startswith(_SILENT) or comment.rstrip() == "#":
        return "silent", None
    for kind, pattern in _BEFORE_TABLE:
        match = pattern.match(comment)
        if match:
            return kind, match
    return "other", None


@lru_cache(maxsize=64)
def _options_of(parameters: str) -> dict[str, Any]:
    """What the line of parameters says; the sweeps of one log repeat it."""
    match = _PARAMETERS.match(parameters)
    assert match is not None
    found = match.groupdict()
    step, kind = found.pop("step"), found.pop("kind")
    options = {name: int(value) for name, value in found.items() if value and len(value) <= 20}
    if len(step) <= 20:
        options["stepfactor" if kind == "factor" else "stepbytes"] = int(step)
    return options


def rank_of_line(line: str) -> Rank | None:
    """The rank that a line of the list names; None for any other line."""
    return _rank_in(line) if line.startswith(RANK_STARTS) and len(line) <= MAX_REMEMBERED else None


@lru_cache(maxsize=4096)
def _rank_in(line: str) -> Rank | None:
    """The rank that a line of the list names, where nothing else is in it; programs of one script repeat them."""
    match = _RANK.match(line)
    return None if match is None or "] NCCL " in line or "]<std" in line else _rank_of(*match.groups())


def _rank_of(rank: str, group: str | None, pid: str | None, host: str, device: str, bus: str, name: str) -> Rank:  # noqa: PLR0913, PLR0917 - the groups of _RANK
    """The rank that a line names."""
    return Rank(
        rank=int(rank),
        host=host,
        group=int(group) if group else None,
        pid=int(pid) if pid else None,
        device=_device_of(device, bus, name),
    )


@lru_cache(maxsize=4096)
def _device_of(index: str, bus: str, name: str) -> Device:
    """A rank's device; the sweeps of one log name the same ones, with other processes."""
    name = name.strip()
    kind: Literal["cpu", "gpu"] = "cpu" if "CPU" in name.split() else "gpu"
    return Device(kind, int(index), name, bus)


def end_of(failure: str | None, out_of_bounds: int | None, average: float | None, *, saw_footer: bool) -> End:
    """How a table ended."""
    if failure:
        outcome: Literal["timed_out", "failed"] = "timed_out" if "Test timeout" in failure else "failed"
        return End("", outcome, 0, reason=failure, out_of_bounds=out_of_bounds)
    if not saw_footer:
        return End("", "interrupted", 0, reason="the log holds no closing line of this table")
    reason = f"{out_of_bounds} checks failed" if out_of_bounds else None
    return End("", "failed" if reason else "completed", 0, reason=reason, out_of_bounds=out_of_bounds,
               average_busbw_GBps=average)  # fmt: skip
