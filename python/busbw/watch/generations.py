"""Attempts of a job that was begun anew: processes that share communicators, one group after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busbw.watch.processes import EXITED, GONE, Process
from busbw.watch.recording import Communicator


@dataclass
class _Part:
    """Processes that share communicators, directly or through others; when they made the first and called the last."""

    processes: list[Process]
    identities: set[int]
    first_ns: int
    last_ns: int


def generations(processes: Sequence[Process]) -> list[list[Process]]:
    """The newest first. A new one begins where all processes before have ended, and had called their last before.

    What has no communicator belongs to the newest one.
    """
    parts = sorted(_parts([each for each in processes if _rows(each)]), key=lambda part: part.first_ns)
    found: list[list[Process]] = []
    last_ns = 0
    for part in parts:
        is_over = all(each.state in {EXITED, GONE} for former in found for each in former)
        if found and (part.first_ns <= last_ns or not is_over):
            found[-1] += part.processes
        else:
            found.append(part.processes)
        last_ns = max(last_ns, part.last_ns)
    alone = [each for each in processes if not _rows(each)]
    if alone:
        found = [*found[:-1], [*(found[-1] if found else []), *alone]]
    return found[::-1]


def _rows(process: Process) -> tuple[Communicator, ...]:
    return (*process.communicators, *process.over)


def _parts(processes: Sequence[Process]) -> list[_Part]:
    parts: list[_Part] = []
    for process in processes:
        rows = _rows(process)
        part = _Part(
            [process],
            {row.identity for row in rows},
            min(row.made_ns for row in rows),
            max(max(row.made_ns, row.entered_ns, row.returned_ns) for row in rows),
        )
        joined = [each for each in parts if not each.identities.isdisjoint(part.identities)]
        for each in joined:
            part.processes = [*each.processes, *part.processes]
            part.identities |= each.identities
            part.first_ns = min(part.first_ns, each.first_ns)
            part.last_ns = max(part.last_ns, each.last_ns)
        parts = [*(each for each in parts if all(each is not one for one in joined)), part]
    return parts
