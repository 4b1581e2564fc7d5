"""The collectives of torch.distributed as cases: buffers, call and expected result, sized as nccl-tests sizes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from busbw.records import Collective, Placement

Tensor = Any  # torch is untyped where it is not installed
DTYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "int32": torch.int32,
    "int64": torch.int64,
    "uint8": torch.uint8,
}
_OPS = {
    "sum": dist.ReduceOp.SUM,
    "prod": dist.ReduceOp.PRODUCT,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
    "avg": dist.ReduceOp.AVG,
}
# torch 2.13 renamed them and warns of the old names.
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
_ALIGNED_BYTES = 16  # nccl-tests gives each rank a part that ends on this boundary
CHUNK = 1 << 24  # elements
SHARED = frozenset({"all_gather", "reduce_scatter", "alltoall"})  # their payload is in parts, one for each rank
REDUCING = frozenset({"all_reduce", "reduce_scatter"})


@dataclass(frozen=True)
class Spec:
    """One measurement: `count` elements a rank, as nccl-tests' count column has it."""

    collective: Collective
    type: str
    op: str
    root: int
    rank: int
    size: int
    count: int
    device: Any

    @property
    def bytes(self) -> int:
        """Size column: the bytes of the whole payload."""
        return self.count * itemsize(self.type) * (self.size if self.collective in SHARED else 1)

    @property
    def placement(self) -> Placement:
        """torch reduces and broadcasts within one tensor; the others have two."""
        return "in_place" if self.collective in {"all_reduce", "broadcast"} else "out_of_place"


def elements(collective: str, payload: int, type_: str, size: int) -> int:
    """Elements a rank, of a payload of so many bytes."""
    each = itemsize(type_)
    if collective not in SHARED:
        return payload // each
    return payload // each // size & -(_ALIGNED_BYTES // each)


def itemsize(type_: str) -> int:
    """Bytes of one element."""
    return int(DTYPES[type_].itemsize)


class Case:
    """Buffers of one measurement and the call that is timed."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        whole = spec.count * (spec.size if spec.collective in SHARED else 1)
        self._send: Tensor = self._buffer(spec.count if spec.collective == "all_gather" else whole)
        self._receive: Tensor = self._send
        if spec.placement == "out_of_place":
            self._receive = self._buffer(spec.count if spec.collective in {"reduce_scatter", "sendrecv"} else whole)
        self.refresh()

    def call(self) -> Any:
        """Enqueue the collective once and return what can be waited for."""
        return _CALLS[self.spec.collective](self)

    def refresh(self) -> None:
        """Give the buffers their first content again: in place, reductions grow from call to call."""
        for start, stop in _chunks(self._send.numel()):
            self._send[start:stop] = self._pattern(self.spec.rank, start, stop)

    def first_element(self) -> float:
        """An element of the result on the host, for which a GPU must have finished."""
        return float(self._receive[0].item())

    def wrong(self) -> int:
        """Elements that differ from what they should be after one call on fresh buffers."""
        count, found = self.spec.count, 0
        for part in range(self._receive.numel() // count):
            for start, stop in _chunks(count):
                received = self._receive[part * count + start : part * count + stop]
                found += int(self._differs(received, self._expected(part, start, stop)).sum().item())
        return found

    def _differs(self, received: Tensor, expected: Tensor) -> Tensor:
        if self.spec.op == "avg" and self.spec.collective in REDUCING and received.is_floating_point():
            # NCCL multiplies by 1/n before it adds: each of the n products is rounded.
            steps = self.spec.size * float(torch.finfo(received.dtype).eps)
            return ~torch.isclose(received, expected, rtol=steps, atol=steps)
        return received != expected

    def _buffer(self, count: int) -> Tensor:
        return torch.zeros(count, dtype=DTYPES[self.spec.type], device=self.spec.device)

    # Small whole numbers: every type holds them and every order of reducing them gives the same.
    def _pattern(self, rank: int, start: int, stop: int) -> Tensor:
        spec = self.spec
        index = torch.arange(start, stop, device=spec.device, dtype=torch.int64)
        if spec.op == "prod" and spec.collective in REDUCING:
            values = 1 + (index % spec.size == rank).to(torch.int64)
        else:
            values = index % 3 + rank % 4
        return values.to(DTYPES[spec.type])

    def _reduced(self, start: int, stop: int) -> Tensor:
        total = self._pattern(0, start, stop).to(torch.float64)
        for rank in range(1, self.spec.size):
            total = _REDUCED[self.spec.op](total, self._pattern(rank, start, stop).to(torch.float64))
        if self.spec.op == "avg":
            total = total / self.spec.size
        return total.to(DTYPES[self.spec.type])

    def _expected(self, part: int, start: int, stop: int) -> Tensor:
        """Elements start to stop of one part of the receive buffer."""
        spec = self.spec
        own = spec.rank * spec.count  # where this rank's part lies in every rank's payload
        match spec.collective:
            case "all_reduce":
                return self._reduced(start, stop)
            case "reduce_scatter":
                return self._reduced(own + start, own + stop)
            case "all_gather":
                return self._pattern(part, start, stop)
            case "alltoall":
                return self._pattern(part, own + start, own + stop)
            case "broadcast":
                return self._pattern(spec.root, start, stop)
            case _:
                return self._pattern((spec.rank - 1) % spec.size, start, stop)

    # --- the calls -----------------------------------------------------------------------------------------------

    def _all_reduce(self) -> Any:
        return dist.all_reduce(self._send, op=_OPS[self.spec.op], async_op=True)

    def _all_gather(self) -> Any:
        return all_gather(self._receive, self._send, async_op=True)

    def _reduce_scatter(self) -> Any:
        return reduce_scatter(self._receive, self._send, op=_OPS[self.spec.op], async_op=True)

    def _alltoall(self) -> Any:
        return dist.all_to_all_single(self._receive, self._send, async_op=True)

    def _broadcast(self) -> Any:
        return dist.broadcast(self._send, self.spec.root, async_op=True)

    def _sendrecv(self) -> Any:
        to, by = (self.spec.rank + 1) % self.spec.size, (self.spec.rank - 1) % self.spec.size
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, self._send, to), dist.P2POp(dist.irecv, self._receive, by)]
        )
        return _Several(works)


class _Several:
    """Several works waited for as one."""

    def __init__(self, works: list[Any]) -> None:
        self._works = works

    def wait(self) -> None:
        for work in self._works:
            work.wait()


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    """Filling and checking need several times the memory of what they look at: they look at a little at a time."""
    for start in range(0, count, CHUNK):
        yield start, min(start + CHUNK, count)


_CALLS: dict[str, Callable[[Case], Any]] = {
    "all_reduce": Case._all_reduce,
    "all_gather": Case._all_gather,
    "reduce_scatter": Case._reduce_scatter,
    "alltoall": Case._alltoall,
    "broadcast": Case._broadcast,
    "sendrecv": Case._sendrecv,
}
_REDUCED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": torch.add,
    "avg": torch.add,
    "prod": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
}
