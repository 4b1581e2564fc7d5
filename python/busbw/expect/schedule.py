"""Work and calls on queues of a rank, one for its work and one for each group: what a step takes, what is exposed.

A task begins when the one before it in its queue has ended and everything that it needs has. While work and a call run
together, each is slowed down by its factor (`busbw overlap` measures them). Exposed is the time in which no work runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """`needs` are indexes of tasks that came before it in the list; calls of a `lane` run one after the other."""

    name: str
    us: float
    call: bool = False
    needs: tuple[int, ...] = ()
    lane: str = ""


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
    lanes = sorted({task.lane for task in tasks if task.call})
    queues = [[i for i, task in enumerate(tasks) if not task.call]]
    queues += [[i for i, task in enumerate(tasks) if task.call and task.lane == lane] for lane in lanes]
    heads, left = [0] * len(queues), [task.us for task in tasks]
    done: set[int] = set()
    now = exposed = 0.0
    while any(head < len(queue) for head, queue in zip(heads, queues, strict=True)):
        running = {
            q: queue[heads[q]] for q, queue in enumerate(queues)
            if heads[q] < len(queue) and done.issuperset(tasks[queue[heads[q]]].needs)
        }  # fmt: skip
        if not running:
            raise ValueError("tasks wait for each other for ever")
        both = 0 in running and len(running) > 1
        rates = {q: (1 / (slow.calls if q else slow.work) if both else 1.0) for q in running}
        ends = {q: left[task] / rates[q] for q, task in running.items()}
        passed = min(ends.values())
        now += passed
        exposed += 0.0 if 0 in running else passed
        for q, task in running.items():
            left[task] -= passed * rates[q]
            if ends[q] <= passed:
                done.add(task)
                heads[q] += 1
    total = [math.fsum(task.us for task in tasks if task.call is call) for call in (False, True)]
    return Outcome(now, total[0], total[1], exposed)
