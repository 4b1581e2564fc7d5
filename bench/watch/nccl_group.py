"""A process group of PyTorch over any library of the NCCL API in host memory: its jobs can be tried without GPUs.

PyTorch's own NCCL backend needs CUDA. This one makes its communicator with the first call, as that does, and calls by
ctypes. Calls are complete when they return.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from communicators import UniqueId, join
from torch import distributed
from torch._C._distributed_c10d import _create_work_from_future
from torch.futures import Future

NAME = "nccl_in_host_memory"
_TYPES = {
    torch.int8: 0, torch.uint8: 1, torch.bool: 1, torch.int32: 2, torch.int64: 4, torch.float16: 6, torch.float32: 7,
    torch.float64: 8, torch.bfloat16: 9,
}  # fmt: skip
_OPERATORS = {"SUM": 0, "PRODUCT": 1, "MAX": 2, "MIN": 3, "AVG": 4}


def _operator(wanted: Any) -> int:
    """NCCL's number of one of PyTorch's operators, which compare equal only one way round."""
    return next(number for name, number in _OPERATORS.items() if wanted == getattr(distributed.ReduceOp, name))


def _done(result: Any) -> Any:
    future: Any = Future()
    future.set_result(result)
    return _create_work_from_future(future)


class Group(distributed.ProcessGroup):
    """Of each call of PyTorch the one of NCCL that its own backend makes."""

    def __init__(self, path: str, store: Any, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._nccl, self._store, self._rank, self._size = ctypes.CDLL(path), store, rank, size
        self._made: ctypes.c_void_p | None = None

    def getBackendName(self) -> str:
        return NAME

    @property
    def group_name(self) -> str:
        """Meshes look groups up by it."""
        return str(distributed.distributed_c10d._world.pg_names[self])

    def shutdown(self) -> None:
        if self._made is not None:
            self._nccl.ncclCommDestroy(self._made)
            self._made = None

    def _comm(self) -> ctypes.c_void_p:
        if self._made is None:
            unique = UniqueId()
            if self._rank == 0:
                self._check(self._nccl.ncclGetUniqueId(ctypes.byref(unique)))
                self._store.set("unique", bytes(unique).hex())
            else:
                unique = UniqueId.from_buffer_copy(bytes.fromhex(self._store.get("unique").decode()))
            code, comm = join(self._nccl, self._size, self._rank, unique)
            self._check(code)
            self._made = comm
        return self._made

    def _check(self, code: int) -> None:
        if code != 0:
            self._nccl.ncclGetLastError.restype = ctypes.c_char_p
            raise RuntimeError(f"NCCL error {code}: {self._nccl.ncclGetLastError(None).decode(errors='replace')}")

    def _call(self, name: str, *words: Any) -> None:
        """Addresses of tensors, then numbers; the stream is none."""
        made = [ctypes.c_void_p(each.data_ptr()) if isinstance(each, torch.Tensor) else each for each in words]
        self._check(getattr(self._nccl, name)(*made, self._comm(), None))

    def _collective(self, name: str, mine: torch.Tensor, into: torch.Tensor, count: int, *more: int) -> None:
        whole = into if into.is_contiguous() else into.contiguous()
        self._call(name, mine.contiguous(), whole, ctypes.c_size_t(count), _TYPES[mine.dtype], *more)
        if whole is not into:
            into.copy_(whole)

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        operator = _operator(opts.reduceOp) if opts is not None else 0
        for each in tensors:
            self._collective("ncclAllReduce", each.detach(), each.detach(), each.numel(), operator)
        return _done(tensors)

    allreduce_coalesced = allreduce

    def barrier(self, opts: Any = None) -> Any:
        """As PyTorch's own backend does it."""
        return self.allreduce([torch.zeros(1)])

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> Any:
        for each in tensors:
            self._collective("ncclBroadcast", each.detach(), each.detach(), each.numel(), opts.rootRank)
        return _done(tensors)

    def all_gather_single(self, into: torch.Tensor, mine: torch.Tensor, opts: Any = None) -> Any:
        self._collective("ncclAllGather", mine.detach(), into.detach(), mine.numel())
        return _done(into)

    _allgather_base = all_gather_single

    def allgather(self, into: list[list[torch.Tensor]], mine: list[torch.Tensor], opts: Any = None) -> Any:
        whole = torch.empty((self._size, mine[0].numel()), dtype=mine[0].dtype)
        self._collective("ncclAllGather", mine[0].detach(), whole, mine[0].numel())
        for number, each in enumerate(into[0]):
            each.detach().copy_(whole[number][: each.numel()].view(each.shape))
        return _done(into)

    def reduce_scatter_single(self, into: torch.Tensor, mine: torch.Tensor, opts: Any = None) -> Any:
        operator = _operator(opts.reduceOp) if opts is not None else 0
        self._collective("ncclReduceScatter", mine.detach(), into.detach(), into.numel(), operator)
        return _done(into)

    _reduce_scatter_base = reduce_scatter_single

    def send(self, tensors: list[torch.Tensor], peer: int, _tag: int = 0) -> Any:
        self._message("ncclSend", tensors[0].contiguous(), peer)
        return _done(tensors)

    def recv(self, tensors: list[torch.Tensor], peer: int, _tag: int = 0) -> Any:
        self._message("ncclRecv", tensors[0], peer)
        return _done(tensors)

    def _message(self, name: str, tensor: torch.Tensor, peer: int) -> None:
        self._call(name, tensor.detach(), ctypes.c_size_t(tensor.numel()), _TYPES[tensor.dtype], peer)

    def gather(self, into: list[list[torch.Tensor]], mine: list[torch.Tensor], opts: Any) -> Any:
        """Messages in one group too; the root has its own by one to itself."""
        self._grouped([(opts.rootRank, mine[0].contiguous())], list(enumerate(into[0] if into else [])))
        return _done(into)

    def scatter(self, into: list[torch.Tensor], mine: list[list[torch.Tensor]], opts: Any) -> Any:
        ours = [(peer, each.contiguous()) for peer, each in enumerate(mine[0] if mine else [])]
        self._grouped(ours, [(opts.rootRank, into[0])])
        return _done(into)

    def _grouped(self, sent: list[tuple[int, torch.Tensor]], received: list[tuple[int, torch.Tensor]]) -> None:
        self._comm()
        self._check(self._nccl.ncclGroupStart())
        for peer, each in sent:
            self._message("ncclSend", each, peer)
        for peer, each in received:
            self._message("ncclRecv", each, peer)
        self._check(self._nccl.ncclGroupEnd())

    def all_to_all_single(
        self, into: torch.Tensor, mine: torch.Tensor, of_into: list[int], of_mine: list[int], opts: Any = None
    ) -> Any:
        """Messages in one group, as PyTorch's own backend sends them."""
        theirs = list(into.split(of_into or into.size(0) // self._size))
        ours = list(mine.contiguous().split(of_mine or mine.size(0) // self._size))
        self._grouped(list(enumerate(ours)), list(enumerate(theirs)))
        return _done(into)

    alltoall_base = all_to_all_single


def register(path: str) -> str:
    """The backend's name for init_process_group."""

    def made(store: Any, rank: int, size: int, _timeout: Any) -> Group:
        return Group(path, store, rank, size)

    distributed.Backend.register_backend(NAME, made, devices=["cpu"])
    return NAME
