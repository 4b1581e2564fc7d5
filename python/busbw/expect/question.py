"""What is asked of the model and what it answers, and the two sums that every part of it needs."""

from __future__ import annotations

from dataclasses import dataclass

from busbw.expect.bandwidth import Algorithm
from busbw.expect.span import Span
from busbw.records import Collective
from busbw.records.bandwidth import bus_factor, busbw_GBps


@dataclass(frozen=True)
class Question:
    """A collective of `bytes` (nccl-tests' size) on `gpus` in each of `nodes`."""

    collective: Collective
    bytes: int
    gpus: int
    nodes: int = 1
    multicast: bool = True
    driven: int = 1
    """GPUs that one process drives (nccl-tests -g): it launches on one after the other."""

    @property
    def ranks(self) -> int:
        return self.gpus * self.nodes


@dataclass(frozen=True)
class Prediction:
    """Time in microseconds and bus bandwidth in GB/s, each with its range (about 95 of 100 well-run machines)."""

    question: Question
    time_us: Span
    busbw_GBps: Span
    algorithm: Algorithm
    protocol: str


def transfer_us(question: Question, bandwidth: float) -> float:
    """How long the transfer takes at a bus bandwidth, us."""
    return question.bytes * (bus_factor(question.collective, question.ranks) or 1.0) / (bandwidth * 1e3)


def busbw_of(question: Question, time: Span) -> Span:
    """The bus bandwidth of a time."""

    def rate(time_us: float) -> float:
        return busbw_GBps(question.collective, question.bytes, time_us, question.ranks) or 0.0

    return Span(rate(time.value), rate(time.high), rate(time.low))
