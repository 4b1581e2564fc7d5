"""The time of a training step from its layers: DDP, FSDP, tensor, pipeline and expert parallelism as two queues.

Work of a layer is the longer of its operations and its memory traffic (roofline: Williams, Waterman, Patterson,
Communications of the ACM 52(4), 2009); backward is twice forward where nothing else is said, since each product has two
gradients. What is called when:

ddp   gradients are summed bucket by bucket in backward, 25 MB each (Li et al., "PyTorch Distributed", VLDB 2020).
fsdp  parameters are gathered before forward and again before backward, one layer ahead, and gradients scattered behind
      backward (Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023).
tp    two all-reduces of the activations in forward and two in backward, which work waits for (Shoeybi et al.,
      "Megatron-LM", 2019).
pp    m microbatches through p stages: (m + p - 1) times one microbatch, the bubble being (p - 1) / (m + p - 1)
      (Huang et al., "GPipe", 2019; Narayanan et al., "Efficient Large-Scale Language Model Training", SC 2021). Where
      sends go behind work, a flow shop of equal jobs: the slower of work and a send, once a microbatch, and each stage
      and each link once (Baker, "Introduction to Sequencing and Scheduling", 1974). Where a message moves once both
      sides are there, as NCCL's do, the receiver waits: a flow shop whose stages but the first take a send more.
ep    two all-to-alls in forward and two in backward, which work waits for (Lepikhin et al., "GShard", ICLR 2021).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from busbw.expect.schedule import Outcome, Slowdown, Task, simulate
from busbw.expect.spread import Spread

SENDS = ("waited", "behind", "met")
"""Work waits for a send and its receive; neither waits; the receiver waits alone, as its side comes after its work."""
KINDS = ("ddp", "fsdp", "tp", "pp", "ep")
BUCKET = 25 << 20
"""PyTorch's bucket_cap_mb, in bytes."""
FIRST_BUCKET = 1 << 20
"""PyTorch's first bucket (kDefaultFirstBucketBytes), so that communication begins early."""

TimeOf = Callable[[str, int], float]
"""Microseconds of a collective of so many bytes, as nccl-tests counts them."""


@dataclass(frozen=True)
class Layer:
    """Times of work in microseconds; bytes of its parameters (and gradients) on one rank, and of its activations.

    `calls` are collectives with sizes that stand in the file: they are waited for, in forward (False) or backward.
    """

    name: str
    forward_us: float
    backward_us: float
    parameter_bytes: int = 0
    activation_bytes: int = 0
    calls: tuple[tuple[bool, str, int], ...] = ()
    tensors: tuple[int, ...] = ()  # the bytes of each parameter, where they are known


@dataclass(frozen=True)
class Step:
    """A step of `kind` on `ranks`; the layers are those of one rank (of one stage under pp)."""

    kind: str
    layers: tuple[Layer, ...]
    bucket_bytes: int = BUCKET
    first_bucket_bytes: int = FIRST_BUCKET
    microbatches: int = 1
    stages: int = 1
    optimizer_us: float = 0.0
    spread: Spread | None = None  # of several kinds at once, which expect/mixed.py predicts
    wait_us: float = 0.0
    """Of each call that work waits for: until ranks are awake and the slowest one has come."""
    sends: str = "waited"
    """Of a pipeline's stages, one of SENDS."""


@dataclass(frozen=True)
class Predicted:
    """A step's time and its parts in microseconds; `bubble_us` is what stages of a pipeline wait for each other."""

    step_us: float
    work_us: float
    calls_us: float
    exposed_us: float
    bubble_us: float = 0.0


class _Tasks:
    """A list of tasks that grows; each piece of work needs what blocks it."""

    def __init__(self, time_of: TimeOf) -> None:
        self.tasks: list[Task] = []
        self._time_of = time_of
        self.last_work: int | None = None

    def work(self, name: str, us: float, *needs: int | None) -> int:
        self.last_work = self._add(Task(name, us, False, tuple(each for each in needs if each is not None)))
        return self.last_work

    def call(self, name: str, size: int, *needs: int | None, more_us: float = 0.0) -> int:
        us = self._time_of(name, size) + more_us if size else 0.0
        return self._add(Task(name, us, True, tuple(each for each in needs if each is not None)))

    def blocking(self, name: str, size: int, more_us: float = 0.0) -> int:
        """A call that needs the work before it; the work after it has to name it."""
        return self.call(name, size, self.last_work, more_us=more_us)

    def _add(self, task: Task) -> int:
        self.tasks.append(task)
        return len(self.tasks) - 1


def predict(step: Step, time_of: TimeOf, slowdown: Slowdown | None = None) -> Predicted:
    """What the step takes."""
    tasks = _Tasks(time_of)
    if step.kind == "pp":
        return _pipeline(step, time_of, slowdown)
    {"ddp": _ddp, "fsdp": _fsdp, "tp": _waited, "ep": _waited}[step.kind](step, tasks)
    if step.optimizer_us:
        tasks.work("optimizer", step.optimizer_us, *range(len(tasks.tasks)))
    return _predicted(simulate(tasks.tasks, slowdown))


def _predicted(found: Outcome) -> Predicted:
    return Predicted(found.step_us, found.work_us, found.calls_us, found.exposed_us)


def _said_calls(tasks: _Tasks, layer: Layer, *, backward: bool) -> list[int]:
    return [tasks.blocking(name, size) for when, name, size in layer.calls if when is backward]


def _ddp(step: Step, tasks: _Tasks) -> None:
    waits: list[int] = []
    for layer in step.layers:
        tasks.work(layer.name, layer.forward_us, *waits)
        waits = _said_calls(tasks, layer, backward=False)
    for layer, full in zip(reversed(step.layers), buckets(step), strict=True):
        ready = tasks.work(layer.name, layer.backward_us, *waits)
        waits = _said_calls(tasks, layer, backward=True)
        for size in full:
            tasks.call("all_reduce", size, ready)


def buckets(step: Step) -> list[list[int]]:
    """Of each layer in backward the bytes of the buckets that it fills; behind the last one also what is left.

    PyTorch closes a bucket behind the tensor that fills it (c10d's reducer.cpp): none is cut. A layer whose tensors are
    not known is taken for many small ones.
    """
    found: list[list[int]] = []
    bucket, full = 0, step.first_bucket_bytes
    for layer in reversed(step.layers):
        found.append([])
        for size in layer.tensors or _pieces(layer.parameter_bytes, bucket, full, step.bucket_bytes):
            bucket += size
            if bucket >= full:
                found[-1].append(bucket)
                bucket, full = 0, step.bucket_bytes
    if bucket:
        found[-1].append(bucket)
    return found


def _pieces(size: int, bucket: int, full: int, next_full: int) -> Iterator[int]:
    """A layer's bytes so that each bucket is full exactly; what is left is the last piece."""
    room = full - bucket
    while size >= room:
        yield room
        size, room = size - room, next_full
    yield size


def _fsdp(step: Step, tasks: _Tasks) -> None:
    """One gather ahead: that of layer i + 1 may begin when layer i does, whose own gather is done by then."""
    for backward in (False, True):
        layers = list(reversed(step.layers)) if backward else list(step.layers)
        gathers = [tasks.call("all_gather", layers[0].parameter_bytes, tasks.last_work)] if layers else []
        waits: list[int] = []
        scatter: tuple[int, int] | None = None
        for number, layer in enumerate(layers):
            if number + 1 < len(layers):
                gathers.append(tasks.call("all_gather", layers[number + 1].parameter_bytes, tasks.last_work))
            if scatter is not None:
                tasks.call("reduce_scatter", *scatter)
            work = tasks.work(layer.name, layer.backward_us if backward else layer.forward_us, gathers[number], *waits)
            waits = _said_calls(tasks, layer, backward=backward)
            scatter = (layer.parameter_bytes, work) if backward else None
        if scatter is not None:
            tasks.call("reduce_scatter", *scatter)


def _waited(step: Step, tasks: _Tasks) -> None:
    """Two calls in forward and two in backward, each between halves of the layer's work."""
    name = "all_reduce" if step.kind == "tp" else "alltoall"
    waits: list[int] = []
    for backward in (False, True):
        for layer in reversed(step.layers) if backward else step.layers:
            us = layer.backward_us if backward else layer.forward_us
            for _ in range(2):
                tasks.work(layer.name, us / 2, *waits)
                waits = [tasks.blocking(name, layer.activation_bytes, step.wait_us)]
            waits += _said_calls(tasks, layer, backward=backward)


def _pipeline(step: Step, time_of: TimeOf, slowdown: Slowdown | None) -> Predicted:
    """The slowest stage sets the pace; activations go from stage to stage, and their gradients back."""
    size = step.layers[-1].activation_bytes if step.layers else 0
    sent = time_of("sendrecv", size) if step.stages > 1 and size else 0.0
    ways = [simulate(_microbatch(step, time_of, backward=backward), slowdown) for backward in (False, True)]
    m, p = step.microbatches, step.stages
    each = sum(one.step_us for one in ways) + 2 * sent
    bubble = (p - 1) * each
    work = m * sum(one.work_us for one in ways)
    if step.sends != "waited":
        order = _behind if step.sends == "behind" else _met
        behind = [order(one, sent, m, p, slowdown or Slowdown()) for one in ways]
        whole, exposed = sum(us for us, _ in behind), sum(us for _, us in behind)
        bubble = max(0.0, whole - exposed - work)
    else:
        whole = m * each + bubble
        exposed = m * (sum(one.exposed_us for one in ways) + 2 * sent)
    calls = m * (sum(one.calls_us for one in ways) + 2 * sent)
    return Predicted(whole + step.optimizer_us, work + step.optimizer_us, calls, exposed, bubble)


def _microbatch(step: Step, time_of: TimeOf, *, backward: bool) -> list[Task]:
    tasks = _Tasks(time_of)
    waits: list[int] = []
    for layer in reversed(step.layers) if backward else step.layers:
        tasks.work(layer.name, layer.backward_us if backward else layer.forward_us, *waits)
        waits = _said_calls(tasks, layer, backward=backward)
    return tasks.tasks


def _behind(one: Outcome, sent: float, m: int, p: int, slow: Slowdown) -> tuple[float, float]:
    """One direction of a pipeline whose sends go behind work: how long it takes, and what a rank waits beside that."""
    beside = min(sent * slow.calls, one.step_us * slow.work)
    work, send = one.step_us + beside * (1 - 1 / slow.work), sent + beside * (1 - 1 / slow.calls)
    pace = max(work, send)
    whole = p * one.step_us + (p - 1) * sent + (m - 1) * pace
    return whole, m * one.exposed_us + (m - 1) * (pace - one.step_us)


def _met(one: Outcome, sent: float, m: int, p: int, slow: Slowdown) -> tuple[float, float]:
    """The same where a message moves once both sides are there: all stages but the first wait for each of theirs."""
    if p == 1:
        return m * one.step_us, m * one.exposed_us
    beside = min(sent * slow.calls, one.step_us * slow.work)
    sent += beside * (1 - 1 / slow.calls)
    return one.step_us + (m + p - 2) * (one.step_us + sent), m * (one.exposed_us + sent)


def table_times(points: Sequence[tuple[str, int, float]]) -> TimeOf:
    """Measured times by collective and bytes: between two sizes on a straight line, beyond the largest in proportion.

    Below the smallest size its own time; KeyError for a collective that was not measured.
    """
    by: dict[str, list[tuple[int, float]]] = {}
    for name, size, us in sorted(points):
        by.setdefault(name, []).append((size, us))

    def time_of(name: str, size: int) -> float:
        known = by[name]
        if size <= known[0][0]:
            return known[0][1]
        for (low, first), (high, last) in itertools.pairwise(known):
            if size <= high:
                return first + (last - first) * (size - low) / max(1, high - low)
        return known[-1][1] * size / known[-1][0]

    return time_of
