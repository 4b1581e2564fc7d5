"""What processes do while nothing moves: the processor that they use, and connections that do not get on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from busbw.watch.links import links_of
from busbw.watch.processes import RUNNING, Process, monotonic_ns, processor_s, turns

_Key = tuple[str, int, int]


class Rest:
    """Since a moment that is noted, of processes of this host."""

    def __init__(self) -> None:
        self._used: dict[_Key, tuple[int, float]] = {}
        """Processor time of each in s, and when that was."""
        self._turns: dict[_Key, tuple[float, int]] = {}
        """What `turns` said of each a while later."""

    def begin(self, processes: Iterable[Process], now_ns: int) -> None:
        """Nothing moves from here on."""
        self._turns = {}
        self._used = {each.key: (now_ns, used) for each in processes
                      if each.is_here and (used := processor_s(each.pid)) is not None}  # fmt: skip

    def note_turns(self, processes: Iterable[Process]) -> None:
        """A while later, when nobody uses a processor for what came before."""
        self._turns = {each.key: found for each in processes if each.is_here and (found := turns(each.pid))}

    def seen(self, process: Process) -> Process:
        """With what it does meanwhile."""
        now_ns, used = monotonic_ns(), processor_s(process.pid) if process.is_here else None
        lasts = process.state == RUNNING or process.is_leaving
        if used is None or not lasts or process.key not in self._used:
            return process
        since_ns, before = self._used[process.key]
        busy = max(0.0, used - before) / max((now_ns - since_ns) / 1e9, 1e-3)
        return replace(process, busy=busy, turn_s=self._turn_s(process), links=links_of(process.pid))

    def _turn_s(self, process: Process) -> float | None:
        before, now = self._turns.get(process.key), turns(process.pid)
        if before is None or now is None:
            return None
        return max(0.0, now[0] - before[0]) / max(1, now[1] - before[1])
