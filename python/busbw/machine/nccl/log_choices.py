"""Gathers what the tuner chose, of all ranks and of each by itself: all ranks of a communicator must choose alike."""

from __future__ import annotations

import re

from busbw.machine.nccl.log_lines import Line
from busbw.machine.nccl.log_model import Choice

MAX_KEPT = 100_000


class Choices:
    """The tuner's choices while a log is read."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, int], Choice] = {}
        self._of: dict[tuple[str, str], dict[tuple[str, int, str, str], Choice]] = {}
        self._kept = 0

    def add(self, line: Line, found: re.Match[str], communicator: str) -> None:
        """`AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE ...` of a rank of that communicator."""
        channels = (int(found["low"]), int(found["high"])) if found["low"] else None
        choice = Choice(
            found["what"] or "?", int(found["bytes"]), found["algo"].lower(), found["proto"].lower(), channels,
            line.number,
        )  # fmt: skip
        if len(self._first) < MAX_KEPT:
            self._first.setdefault((choice.collective, choice.bytes), choice)
        if line.pid and self._kept < MAX_KEPT:
            mine = self._of.setdefault((f"{line.host}:{line.pid}", communicator), {})
            key = (choice.collective, choice.bytes, choice.algorithm, choice.protocol)
            self._kept += key not in mine
            mine.setdefault(key, choice)

    @property
    def first(self) -> tuple[Choice, ...]:
        """Of each collective and size the first one."""
        return tuple(self._first.values())

    @property
    def of_each(self) -> dict[tuple[str, str], tuple[Choice, ...]]:
        """By process and communicator, each choice once."""
        return {who: tuple(choices.values()) for who, choices in self._of.items()}
