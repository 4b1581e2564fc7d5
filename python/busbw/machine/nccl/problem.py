"""A fault in a file that NCCL reads: the line, what is wrong, and whether NCCL fails on it or merely misjudges."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """`fatal`: NCCL refuses the file, or searches on a machine that cannot exist; else it goes on with a wrong idea of
    the machine, which is `slow` where that makes it count on less than the machine has.
    """

    line: int
    text: str
    fatal: bool = False
    slow: bool = False
