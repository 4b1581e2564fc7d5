"""Work and calls on two queues of a rank: what a step takes, and how much of its communication is exposed.

A task begins when the one before it in its queue has ended and everything that it needs has. While work and a call run
together, each is slowed down by its factor (`busbw overlap` measures them). Exposed is the time in which no work runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """`needs` are indexes of tasks that came before it in the list."""

    name: str
    us: float
    call: bool = False
    needs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Slowdown:
    """Time beside the other over time alone; 1 is none."""

    work: float = 1.0
    calls: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """Microseconds: of the whole, of work and of calls by themselves, and of the whole in which no work runs."""

    step_us: float
    work_us: float
    calls_us: float
    exposed_us: float


def simulate(tasks: Sequence[Task], slowdown: Slowdown | None = None) -> Outcome:
    """From the start of the first task to the end of the last; in the order of the list on each queue."""
    slow = slowdown or Slowdown()
    queues = [[i for i, task in enumerate(tasks) if task.call is call] for call in (False, True)]
    heads, left = [0, 0], [task.us for task in tasks]
    done: set[int] = set()
    now = exposed = 0.0
    while any(heads[q] < len(queues[q]) for q in (0, 1)):
        running = [
            queues[q][heads[q]] if heads[q] < len(queues[q]) and done.issuperset(tasks[queues[q][heads[q]]].needs)
            else None for q in (0, 1)
        ]  # fmt: skip
        if running == [None, None]:
            raise ValueError("tasks wait for each other for ever")
        both = None not in running
        rates = (1 / slow.work, 1 / slow.calls) if both else (1.0, 1.0)
        ends = [left[task] / rate if task is not None else math.inf for task, rate in zip(running, rates, strict=True)]
        passed = min(ends)
        now += passed
        exposed += passed if running[0] is None else 0.0
        for q, task in enumerate(running):
            if task is None:
                continue
            left[task] -= passed * rates[q]
            if ends[q] <= passed:
                done.add(task)
                heads[q] += 1
    total = [math.fsum(task.us for task in tasks if task.call is call) for call in (False, True)]
    return Outcome(now, total[0], total[1], exposed)
