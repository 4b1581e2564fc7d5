"""Where a replay's buffers lie: in host memory, or on a GPU with a stream for each lane."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

from busbw.watch.gpu_memory import Gpu


class Buffer(Protocol):
    """Bytes that the library reads or writes."""

    size: int

    def at(self, offset: int) -> ctypes.c_void_p:
        """As the library takes it."""

    def fill(self, element: bytes) -> None:
        """The same element over and over."""

    def clear(self) -> None:
        """Zeros."""

    def read(self, offset: int, size: int) -> bytes:
        """What is there when all earlier calls are done."""


class Memory(Protocol):
    """What a lane needs of the device."""

    stream: ctypes.c_void_p | None

    def begin(self) -> None:
        """First of all, in the thread that calls the library."""

    def buffer(self, size: int) -> Buffer:
        """Kept until the process ends."""

    def wait(self) -> None:
        """Until all calls of the lane are done."""


class HostBuffer:
    """In this process."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._bytes = ctypes.create_string_buffer(size)

    def at(self, offset: int) -> ctypes.c_void_p:
        """As the library takes it."""
        return ctypes.c_void_p(ctypes.addressof(self._bytes) + offset)

    def fill(self, element: bytes) -> None:
        """The same element over and over."""
        elements = self.size // len(element)
        ctypes.memmove(self._bytes, element * elements, elements * len(element))

    def clear(self) -> None:
        """Zeros."""
        ctypes.memset(self._bytes, 0, self.size)

    def read(self, offset: int, size: int) -> bytes:
        """Calls in host memory are done when they return."""
        return ctypes.string_at(ctypes.addressof(self._bytes) + offset, size)


class HostMemory:
    """Calls are done when they return."""

    stream: Any = None

    def begin(self) -> None:
        """Nothing to do."""

    def buffer(self, size: int) -> HostBuffer:
        """Kept until the process ends."""
        return HostBuffer(size)

    def wait(self) -> None:
        """Nothing to wait for."""


class GpuBuffer:
    """On the GPU; everything goes through the lane's stream."""

    def __init__(self, gpu: Gpu, stream: ctypes.c_void_p, size: int) -> None:
        self.size = size
        self._gpu, self._stream = gpu, stream
        self._address = gpu.allocate(size)
        self.clear()

    def at(self, offset: int) -> ctypes.c_void_p:
        """As the library takes it."""
        return ctypes.c_void_p(self._address + offset)

    def fill(self, element: bytes) -> None:
        """The same element over and over."""
        self._gpu.write(self._address, element * (self.size // len(element)), self._stream)

    def clear(self) -> None:
        """Zeros."""
        self._gpu.clear(self._address, self.size, self._stream)

    def read(self, offset: int, size: int) -> bytes:
        """What is there when all earlier calls are done."""
        return self._gpu.read(self._address + offset, size, self._stream)


class GpuMemory:
    """A stream of its own on a GPU."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.stream: ctypes.c_void_p | None = gpu.stream()

    def begin(self) -> None:
        """The GPU is a thread's own."""
        self._gpu.use()

    def buffer(self, size: int) -> GpuBuffer:
        """Kept until the process ends."""
        assert self.stream is not None
        return GpuBuffer(self._gpu, self.stream, size)

    def wait(self) -> None:
        """Until all calls of the lane are done."""
        assert self.stream is not None
        self._gpu.wait(self.stream)
