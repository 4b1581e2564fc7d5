"""PyTorch's names of collectives and element types, as its profiler, its flight recorder and PARAM write them."""

from __future__ import annotations

import re

from busbw.importers.values import collective_named
from busbw.records import Collective

_SUFFIXES = re.compile(r"(?:_(?:base|coalesced|into|tensor|single|out|v|p|block|async|uneven|object|list))+$")
_TYPES = {
    "float": "float", "float32": "float", "half": "half", "float16": "half", "bfloat16": "bfloat16", "double": "double",
    "float64": "double", "int": "int32", "int32": "int32", "long": "int64", "int64": "int64", "char": "int8",
    "int8": "int8", "byte": "uint8", "uint8": "uint8", "bool": "uint8", "short": "int16", "int16": "int16",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "float8_e4m3fnuz": "f8e4m3", "float8_e5m2fnuz": "f8e5m2",
    "bf16": "bfloat16", "fp16": "half", "fp32": "float", "fp64": "double", "uint16": "uint16", "uint32": "uint32",
}  # fmt: skip
ELEMENT = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int32": 4, "uint32": 4, "int64": 8, "int8": 1,
           "uint8": 1, "int16": 2, "uint16": 2, "f8e4m3": 1, "f8e5m2": 1}  # fmt: skip
"""Bytes of an element by nccl-tests' name of the type."""


def torch_collective(name: str) -> Collective | None:
    """The collective of a name such as nccl:all_reduce, _allgather_base or reduce_scatter_tensor_coalesced."""
    plain = name.lower().rsplit(":", 1)[-1].strip("_ ")
    if plain in ("all_to_allv", "alltoallv", "all_to_all_v", "alltoall_v"):
        return "alltoallv"
    return collective_named(plain) or collective_named(_SUFFIXES.sub("", plain))


def torch_type(name: str) -> str | None:
    """nccl-tests' name of an element type; None for one that is not known."""
    return _TYPES.get(name.lower().rsplit(".", 1)[-1])
