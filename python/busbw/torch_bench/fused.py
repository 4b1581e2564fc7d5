"""PyTorch's custom op for all-reduce, residual and RMSNorm in one kernel of busbw's GPU library.

    import busbw.torch_bench.fused as fused
    fused.register()
    output, residual = torch.ops.busbw.all_reduce_rms_norm(x, residual, weight, 1e-6, "default group's name")

The process needs the library in front of its NCCL (LD_PRELOAD, or `busbw with`). PyTorch's and this op's calls on the
group's communicator follow each other; the op may be captured in a CUDA graph. include/busbw/busbw_gpu.h says what it
computes.
"""

from __future__ import annotations

import ctypes
from typing import Any

from busbw.base.errors import UserError

FUNCTION = "busbwAllReduceRmsNorm"
NCCL_TYPES = {"torch.float16": 6, "torch.float32": 7, "torch.bfloat16": 9}
"""NCCL's numbers of the types that the kernel takes."""


def function(library: str | None = None) -> Any:
    """The library's function: of this process, or of the file `library`. Raises UserError where there is none."""
    try:
        found = getattr(ctypes.CDLL(library), FUNCTION)
    except OSError as error:
        raise UserError(f"{library} cannot be opened: {error}") from error
    except AttributeError as error:
        raise UserError(
            f"{library or 'this process'} has no {FUNCTION}; set LD_PRELOAD=libbusbw_gpu.so or start it by busbw with"
        ) from error
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    found.argtypes = [pointer, pointer, pointer, ctypes.c_float, size, size, ctypes.c_int, *[pointer] * 4]
    found.restype = ctypes.c_int
    return found


def last_error(library: str | None = None) -> str:
    """NCCL's sentence about the last failure of this thread."""
    ask = ctypes.CDLL(library).ncclGetLastError
    ask.argtypes, ask.restype = [ctypes.c_void_p], ctypes.c_char_p
    return bytes(ask(None) or b"").decode(errors="replace")


def communicator(group_name: str) -> int:
    """The address of the ncclComm_t of a process group. Raises UserError where PyTorch does not tell it."""
    import torch
    from torch.distributed import distributed_c10d as c10d

    group = c10d._resolve_process_group(group_name)
    backend = group._get_backend(torch.device("cuda"))
    if not hasattr(backend, "_comm_ptr"):
        raise UserError(f"PyTorch {torch.__version__} does not tell a group's communicator; it takes 2.6 or newer")
    address = int(backend._comm_ptr())
    if address == 0:
        raise UserError(
            f"the group {group_name} has no communicator yet; make it with device_id, or call one collective"
        )
    return address


def register(library: str | None = None) -> Any:
    """Defines torch.ops.busbw.all_reduce_rms_norm(x, residual, weight, epsilon, group_name) -> (output, residual)."""
    import torch

    call = function(library)

    def run(x: Any, residual: Any, weight: Any, epsilon: float, group_name: str) -> tuple[Any, Any]:
        kind = NCCL_TYPES.get(str(x.dtype))
        if kind is None or residual.dtype != x.dtype or weight.dtype != x.dtype:
            raise UserError(f"the types are {x.dtype}, {residual.dtype} and {weight.dtype}; all must be one of half, "
                            "bfloat16 and float")  # fmt: skip
        if residual.shape != x.shape or weight.shape != x.shape[-1:]:
            raise UserError(f"the shapes are {tuple(x.shape)}, {tuple(residual.shape)} and {tuple(weight.shape)}; the "
                            "residual has the input's and the weight its last")  # fmt: skip
        x, residual, weight = x.contiguous(), residual.contiguous(), weight.contiguous()
        output, residual_out = torch.empty_like(x), torch.empty_like(x)
        hidden = x.shape[-1]
        code = call(
            x.data_ptr(), residual.data_ptr(), weight.data_ptr(), epsilon, x.numel() // max(1, hidden), hidden, kind,
            output.data_ptr(), residual_out.data_ptr(), communicator(group_name),
            torch.cuda.current_stream(x.device).cuda_stream,
        )  # fmt: skip
        if code != 0:
            raise UserError(last_error(library) or f"{FUNCTION} gave {code}")
        return output, residual_out

    run.__annotations__ = {
        "x": torch.Tensor, "residual": torch.Tensor, "weight": torch.Tensor, "epsilon": float, "group_name": str,
        "return": tuple[torch.Tensor, torch.Tensor],
    }  # fmt: skip
    op = torch.library.custom_op("busbw::all_reduce_rms_norm", run, mutates_args=())

    def shapes(x: Any, residual: Any, weight: Any, epsilon: float, group_name: str) -> tuple[Any, Any]:
        return torch.empty_like(x), torch.empty_like(x)

    op.register_fake(shapes)
    return op
