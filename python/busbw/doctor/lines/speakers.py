"""Who says a line: the rank, or the host and device, that stands in front of it or that it names itself."""

from __future__ import annotations

import re

MAX_LOOK = 600
"""Characters of a line in which a rank is looked for."""
_IN_FRONT = (
    r"\[(?:default(?!\d{1,7}\]: ?\[rank)|rank ?|Rank |RANK:|PG .{0,60}Rank )(\d{1,7})\]"
    r"|^\s{0,6}(\d{1,7}): (?!.{0,20}\[(?:rank|default)\d)|\[\d{1,6},(?:mpirank:)?(\d{1,7})(?:,[\w-]{1,60})?\]<std"
)
"""As torchrun, PyTorch, srun -l, mpirun --tag-output and SageMaker write it.

torchrun's `default` counts the ranks of one host, and srun's label the launchers: PyTorch's own number behind them is
that of the job.
"""
_RANK = re.compile(_IN_FRONT, re.ASCII)
_RANK_OR_WORKER = re.compile(
    _IN_FRONT + r"|^\W{0,3}(?:global )?rank[ =:]{1,2}(\d{1,7})\b|\bTP(\d{1,4})\b[^\n\]]{0,20}\]", re.ASCII
)
_NAMED = re.compile(r"\brank\W{1,3}(\d{1,7})\b", re.IGNORECASE)
_BY_WORD = re.compile(r"\brank\W{0,3}(\d{1,6})\b", re.IGNORECASE)
_HOST = re.compile(r"([A-Za-z0-9][\w.-]{0,254}):\d{1,10}:\d{1,10} \[(-?\d{1,4})\]")
_PREFIX = re.compile(
    r"^(?:\W{0,3}\[(?:rank|default)\d{1,7}\]: ?|\s{0,6}\d{1,7}: "
    r"|\[\d{1,6},(?:mpirank:)?\d{1,7}(?:,[\w-]{1,60})?\]<\w+>:"
    r"|\(\w[^)\n]{0,60}pid=\d{1,8}[^)\n]{0,60}\) ?)"
)


def speaker(line: str) -> str:
    """The rank or the host and device that a line comes from; "" where nothing says it."""
    if rank := _first(_RANK.search(line)):
        return f"rank {rank}"
    if found := _HOST.search(line):
        return f"{found[1]} GPU {found[2]}"
    return ""


def words_of_rank(line: str) -> str:
    """The words by which a launcher or PyTorch names the rank of a line, as they stand there; "" without them."""
    found = _RANK.search(line)
    return found[0].strip() if found else ""


def rank_of(line: str) -> str:
    """The rank that a line names as the one who says it, in words of programs too; "" where it names none."""
    rank = _first(_RANK_OR_WORKER.search(line[:MAX_LOOK]))
    return str(int(rank)) if rank else ""


def rank_by_words(line: str) -> str:
    """As `rank_of`, else the number behind the first word "rank": how programs name themselves in their own lines."""
    if rank := rank_of(line):
        return rank
    found = _BY_WORD.search(line)
    return str(int(found[1])) if found else ""


def named_rank(line: str) -> str:
    """The first rank that a line speaks of, whoever says it; "" where it names none."""
    found = _NAMED.search(line[:MAX_LOOK])
    return f"rank {found[1]}" if found else ""


def prefix_of(line: str) -> str:
    """What a launcher writes in front of all lines of one process, as it stands there; "" without it."""
    found = _PREFIX.match(line)
    return found[0].strip() if found else ""


def _first(found: re.Match[str] | None) -> str:
    return next((each for each in found.groups() if each), "") if found else ""
