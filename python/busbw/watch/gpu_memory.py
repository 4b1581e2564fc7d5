"""Memory, streams and kernels of a GPU by the CUDA driver alone, for programs of ours that call NCCL from Python."""

from __future__ import annotations

import ctypes
from typing import Any

_DRIVER = "libcuda.so.1"
_NON_BLOCKING = 1
_FUNCTIONS = {
    "cuInit": (ctypes.c_uint,),
    "cuDeviceGetCount": (ctypes.c_void_p,),
    "cuDeviceGet": (ctypes.c_void_p, ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (ctypes.c_void_p, ctypes.c_int),
    "cuCtxSetCurrent": (ctypes.c_void_p,),
    "cuMemAlloc_v2": (ctypes.c_void_p, ctypes.c_size_t),
    "cuMemsetD8Async": (ctypes.c_ulonglong, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p),
    "cuMemcpyHtoDAsync_v2": (ctypes.c_ulonglong, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p),
    "cuMemcpyDtoHAsync_v2": (ctypes.c_void_p, ctypes.c_ulonglong, ctypes.c_size_t, ctypes.c_void_p),
    "cuStreamCreate": (ctypes.c_void_p, ctypes.c_uint),
    "cuStreamSynchronize": (ctypes.c_void_p,),
    "cuModuleLoadData": (ctypes.c_void_p, ctypes.c_char_p),
    "cuModuleGetFunction": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p),
    "cuLaunchKernel": (ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
}


class GpuError(RuntimeError):
    """What the driver refused, in one sentence."""


class Gpu:
    """The primary context of one GPU, which NCCL shares; each thread says `use` before it calls anything."""

    def __init__(self, number: int) -> None:
        """`number` is taken modulo the GPUs that this process sees."""
        try:
            self._driver: Any = ctypes.CDLL(_DRIVER)
        except OSError as error:
            raise GpuError(f"the CUDA driver cannot be loaded: {error}") from error
        for name, words in _FUNCTIONS.items():
            getattr(self._driver, name).argtypes = words
        self.call("cuInit", 0)
        count, device, self._context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        if count.value < 1:
            raise GpuError("the CUDA driver sees no GPU; see CUDA_VISIBLE_DEVICES")
        self.number = number % count.value
        self.call("cuDeviceGet", ctypes.byref(device), self.number)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self.use()

    def call(self, name: str, *words: Any) -> None:
        """One function of the driver; GpuError where it refuses."""
        if result := getattr(self._driver, name)(*words):
            raise GpuError(f"{name} returned {result}")

    def use(self) -> None:
        """Make it the calling thread's current GPU."""
        self.call("cuCtxSetCurrent", self._context)

    def allocate(self, size: int) -> int:
        """The address of so many bytes, kept until the process ends."""
        address = ctypes.c_ulonglong()
        self.call("cuMemAlloc_v2", ctypes.byref(address), max(size, 16))
        return int(address.value)

    def stream(self) -> ctypes.c_void_p:
        """A stream of its own, beside the NULL stream."""
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        return stream

    def wait(self, stream: ctypes.c_void_p) -> None:
        """Until all work of the stream is done."""
        self.call("cuStreamSynchronize", stream)

    def clear(self, address: int, size: int, stream: ctypes.c_void_p) -> None:
        """Zeros, in the stream's order."""
        self.call("cuMemsetD8Async", address, 0, size, stream)

    def write(self, address: int, data: bytes, stream: ctypes.c_void_p) -> None:
        """From the host; returns when it is there."""
        self.call("cuMemcpyHtoDAsync_v2", address, data, len(data), stream)
        self.wait(stream)

    def read(self, address: int, size: int, stream: ctypes.c_void_p) -> bytes:
        """To the host, once all earlier work of the stream is done."""
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoHAsync_v2", data, address, size, stream)
        self.wait(stream)
        return data.raw

    def launch(self, ptx: bytes, name: bytes, stream: ctypes.c_void_p) -> None:
        """One thread of a kernel without parameters, from its PTX."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ptx)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name)
        self.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, None, None)
