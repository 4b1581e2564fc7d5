"""Each call of NCCL that a recording keeps: how the job of two ranks makes it, and what must stand there then.

One row for both, in the order of the calls. library/tests/gpu/nccl_calls.txt names all functions that are kept.
"""

from __future__ import annotations

from ctypes import c_size_t
from dataclasses import dataclass
from typing import Any

INT8, INT32, FLOAT16, FLOAT32, FLOAT64, BFLOAT16 = 0, 2, 6, 7, 8, 9
SUM, PROD, MAX, MIN, AVG = range(5)


@dataclass(frozen=True)
class Row:
    """Of the words "send", "recv", "memory", "operator", "other" and "comm" are what the job has under these names."""

    function: str
    words: tuple[Any, ...]
    line: str
    when: str = "plain"
    """Plain, or the part of the job that makes it."""


def _n(count: int) -> c_size_t:
    return c_size_t(count)


_END = "comm", None
_CONFIG = "comm", None, None
ROWS = (
    Row("ncclAllReduce", ("send", "recv", _n(11), FLOAT32, SUM, *_END), "all_reduce of 11 float32, sum"),
    Row("ncclAllReduce", ("recv", "recv", _n(12), FLOAT64, PROD, *_END), "all_reduce of 12 float64, prod, in place"),
    Row("ncclAllGather", ("send", "recv", _n(13), INT8, *_END), "all_gather of 13 int8"),
    Row("ncclReduceScatter", ("send", "recv", _n(14), INT32, MAX, *_END), "reduce_scatter of 14 int32, max"),
    Row("ncclBroadcast", ("send", "recv", _n(15), FLOAT16, 1, *_END), "broadcast of 15 float16, root 1"),
    Row("ncclBcast", ("recv", _n(16), BFLOAT16, 1, *_END), "broadcast of 16 bfloat16, root 1"),
    Row("ncclReduce", ("send", "recv", _n(17), FLOAT32, MIN, 1, *_END), "reduce of 17 float32, min, root 1"),
    Row("ncclAlltoAll", ("send", "recv", _n(18), FLOAT32, *_END), "alltoall of 18 float32"),
    Row("ncclGather", ("send", "recv", _n(19), FLOAT32, 1, *_END), "gather of 19 float32, root 1"),
    Row("ncclScatter", ("send", "recv", _n(20), FLOAT32, 1, *_END), "scatter of 20 float32, root 1"),
    Row("ncclAllReduceConfig", ("send", "recv", _n(21), FLOAT32, AVG, *_CONFIG),
        "all_reduce of 21 float32, avg, configured"),
    Row("ncclAllGatherConfig", ("send", "recv", _n(22), FLOAT32, *_CONFIG), "all_gather of 22 float32, configured"),
    Row("ncclReduceScatterConfig", ("send", "recv", _n(23), FLOAT32, SUM, *_CONFIG),
        "reduce_scatter of 23 float32, sum, configured"),
    Row("ncclBroadcastConfig", ("send", "recv", _n(24), FLOAT32, 1, *_CONFIG),
        "broadcast of 24 float32, root 1, configured"),
    Row("ncclReduceConfig", ("send", "recv", _n(25), FLOAT32, SUM, 1, *_CONFIG),
        "reduce of 25 float32, sum, root 1, configured"),
    Row("ncclAlltoAllConfig", ("send", "recv", _n(26), FLOAT32, *_CONFIG), "alltoall of 26 float32, configured"),
    Row("ncclGatherConfig", ("send", "recv", _n(27), FLOAT32, 1, *_CONFIG),
        "gather of 27 float32, root 1, configured"),
    Row("ncclScatterConfig", ("send", "recv", _n(28), FLOAT32, 1, *_CONFIG),
        "scatter of 28 float32, root 1, configured"),
    Row("ncclAllReduce", ("send", "recv", _n(31), FLOAT32, "operator", *_END),
        "all_reduce of 31 float32, an operator of the program", "with an operator of its own"),
    Row("ncclSend", ("send", _n(41), INT8, "other", *_END), "send of 41 int8, peer {other}, group", "in a group"),
    Row("ncclRecv", ("recv", _n(41), INT8, "other", *_END), "recv of 41 int8, peer {other}, group", "in one within it"),
    Row("ncclAllReduce", ("send", "recv", _n(42), FLOAT32, SUM, *_END),
        "all_reduce of 42 float32, sum, group, failed", "simulated"),
    Row("ncclAllReduce", ("memory", "memory", _n(61), FLOAT32, SUM, *_END),
        "all_reduce of 61 float32, sum, in place", "in registered memory"),
    # What host memory has not, and what no library takes.
    Row("ncclPutSignal", ("send", _n(51), FLOAT32, "other", None, _n(0), 0, 0, 0, *_END),
        "put_signal of 51 float32, peer {other}, failed", "refused"),
    Row("ncclSignal", ("other", 0, 0, 0, *_END), "signal of 0 int8, peer {other}, failed", "refused"),
    Row("ncclWaitSignal", (3, None, *_END), "wait_signal of 3 int8, failed", "refused"),
    Row("ncclReduce", ("send", "recv", _n(52), FLOAT32, SUM, 99, *_END),
        "reduce of 52 float32, sum, root 99, failed", "refused"),
)  # fmt: skip
