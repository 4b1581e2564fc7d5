"""A step whose ranks are spread in several ways at once: tensor, expert, pipeline and data parallelism together.

Ranks are numbered as Megatron-LM does it: those of a tensor group follow each other, then data parallel ranks, then
stages. Experts are spread over data parallel ranks. Calls of different groups run beside each other; those of
one group in their order. m microbatches go through p stages in (m + p - 1) times one, and the last one also reduces the
gradients (Narayanan et al., "Efficient Large-Scale Language Model Training", SC 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from busbw.expect.schedule import Slowdown, Task, simulate
from busbw.expect.spread import GROUP_OF, Spread
from busbw.expect.step import Layer, Predicted, Step, TimeOf, buckets

WAITED = {"tp": "all_reduce", "ep": "alltoall"}


def predict(step: Step, spread: Spread, times: Mapping[str, TimeOf], slowdown: Slowdown | None = None) -> Predicted:
    """What the step takes; `times` by group (tp, ep, dp, pp)."""
    one, last = (simulate(_microbatch(step, spread, times, last=each), slowdown) for each in (False, True))
    size = step.layers[-1].activation_bytes if step.layers else 0
    sent = 2 * times["pp"]("sendrecv", size) if spread.pp > 1 and size else 0.0
    m, p = step.microbatches, spread.pp
    bubble = (p - 1) * (one.step_us + sent)
    optimizer = step.optimizer_us
    return Predicted(
        (m - 1) * one.step_us + last.step_us + m * sent + bubble + optimizer,
        (m - 1) * one.work_us + last.work_us + optimizer,
        (m - 1) * one.calls_us + last.calls_us + m * sent,
        (m - 1) * one.exposed_us + last.exposed_us + m * sent,
        bubble,
    )


class _Queues:
    """Tasks of one microbatch; each piece of work waits for what blocks it."""

    def __init__(self, spread: Spread, times: Mapping[str, TimeOf]) -> None:
        self.tasks: list[Task] = []
        self._spread, self._times = spread, times
        self.last: int | None = None
        self.waits: list[int] = []

    def work(self, name: str, us: float, *needs: int) -> None:
        self.last = self._add(Task(name, us, False, (*self.waits, *needs)))
        self.waits = []

    def call(self, group: str, name: str, size: int) -> int:
        """Behind the work so far; nothing where the group is one rank."""
        alone = self._spread.ranks_of(group) < 2 or not size
        us = 0.0 if alone else self._times[group](name, size)
        return self._add(Task(name, us, True, () if self.last is None else (self.last,), group))

    def waited(self, group: str, name: str, size: int) -> None:
        """A call that the next work waits for."""
        self.waits.append(self.call(group, name, size))

    def _add(self, task: Task) -> int:
        self.tasks.append(task)
        return len(self.tasks) - 1


def _microbatch(step: Step, spread: Spread, times: Mapping[str, TimeOf], *, last: bool) -> list[Task]:
    queues = _Queues(spread, times)
    reductions = iter(buckets(step)) if last and "ddp" in spread.kinds else iter(())
    for backward in (False, True):
        layers = list(reversed(step.layers)) if backward else list(step.layers)
        gather = _gather(queues, spread, layers[0]) if layers else None
        scatter: Callable[[], int] | None = None
        for number, layer in enumerate(layers):
            needs = [] if gather is None else [gather]
            gather = _gather(queues, spread, layers[number + 1]) if number + 1 < len(layers) else None
            if scatter is not None:
                scatter()
            _layer(queues, spread, layer, needs, backward=backward)
            scatter = _scatter(queues, spread, layer) if backward else None
            if backward:
                for size in next(reductions, ()):
                    queues.call("dp", "all_reduce", size)
        if scatter is not None:
            scatter()
    return queues.tasks


def _layer(queues: _Queues, spread: Spread, layer: Layer, needs: list[int], *, backward: bool) -> None:
    """Both halves of its work, each with the calls that the next work waits for."""
    us = layer.backward_us if backward else layer.forward_us
    waited = [kind for kind in WAITED if kind in spread.kinds]
    for _ in range(2 if waited else 1):
        queues.work(layer.name, us / 2 if waited else us, *needs)
        for kind in waited:
            queues.waited(kind, WAITED[kind], layer.activation_bytes)
    for when, name, size in layer.calls:
        if when is backward:
            queues.waited(GROUP_OF[spread.kinds[0]], name, size)


def _gather(queues: _Queues, spread: Spread, layer: Layer) -> int | None:
    return queues.call("dp", "all_gather", layer.parameter_bytes) if "fsdp" in spread.kinds else None


def _scatter(queues: _Queues, spread: Spread, layer: Layer) -> Callable[[], int] | None:
    """The reduction behind this layer's work, which is called when the next one's has been asked for."""
    if "fsdp" not in spread.kinds:
        return None
    behind = queues.last

    def do() -> int:
        now, queues.last = queues.last, behind
        found = queues.call("dp", "reduce_scatter", layer.parameter_bytes)
        queues.last = now
        return found

    return do
