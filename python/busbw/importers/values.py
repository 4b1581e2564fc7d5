"""Numbers, sizes, element types and names as benchmarks print them."""

from __future__ import annotations

import re

from busbw.base.quantities import measurable
from busbw.records import Collective

MAX_DIGITS = 20
"""More digits than any size in bytes has; longer runs of digits are noise."""

_SIZE = re.compile(r"(\d{1,20}(?:\.\d{1,6})?)\s*(?:([KMGT])(i?B|B|i)?|B|bytes?)?", re.IGNORECASE)
_POWER = re.compile(r"2(?:\^|\*\*)\{?(\d{1,2})\}?\s*(?:B|bytes?)?")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

ELEMENT_BYTES = {
    "int8": 1, "uint8": 1, "char": 1, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "half": 2, "bfloat16": 2,
    "int32": 4, "uint32": 4, "int": 4, "float": 4, "int64": 8, "uint64": 8, "double": 8,
}  # fmt: skip

_TYPE_NAMES = {"int": "int32", "char": "int8", "fp8_e4m3": "f8e4m3", "fp8_e5m2": "f8e5m2"}

_COLLECTIVES: dict[str, Collective] = {
    "allreduce": "all_reduce", "allgather": "all_gather", "allgatherbase": "all_gather",
    "reducescatter": "reduce_scatter", "reducescatterblock": "reduce_scatter", "broadcast": "broadcast",
    "bcast": "broadcast", "reduce": "reduce", "alltoall": "alltoall", "alltoallv": "alltoallv", "gather": "gather",
    "scatter": "scatter", "sendrecv": "sendrecv", "hypercube": "hypercube", "barrier": "barrier",
}  # fmt: skip


def collective_named(name: str) -> Collective | None:
    """The collective that a tool calls `name`, however it writes it (AllReduce, all_reduce, allreduce)."""
    return _COLLECTIVES.get(re.sub(r"[^a-z]", "", name.lower()))


def type_named(name: str | None) -> str | None:
    """nccl-tests' present name of an element type."""
    return None if name is None else _TYPE_NAMES.get(name, name)


def number(text: str) -> float | None:
    """A number that can be a figure, or None for N/A, nan, inf and what is no number."""
    try:
        return measurable(float(text))
    except ValueError:
        return None


def whole(text: str) -> int | None:
    """A whole number without sign, or None; bounded, since digits may come from anywhere."""
    if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS:
        return int(text)
    return None


def size_in_bytes(text: str) -> int | None:
    """A size with a unit of powers of 1024, such as 1K, 32KiB, 4.0 GB or 1024; None where it is none."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        power = _POWER.fullmatch(text.strip())
        return 1 << int(power[1]) if power and int(power[1]) < 50 else None
    factor = _UNITS[match[2].upper()] if match[2] else 1
    size = float(match[1]) * factor
    return int(size) if size == int(size) else None


def version_of_code(code: int) -> str:
    """NCCL's version for people from what ncclGetVersion returns; the coding changed at 2.9."""
    if code < 10000:
        return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


_WITH_COMMAS = re.compile(r"\s{0,40}(?:\d{1,20}\s|# ?Avg bus bandwidth)[^.]{0,400}\d,\d{1,6}(?:\s|$)")
_COMMA = re.compile(r"(?<=\d),(?=\d{1,6}(?:\s|$))")


def with_points(line: str) -> str:
    """A row of a table with points for decimal commas, which stand there where the language of a host has them."""
    return _COMMA.sub(".", line) if "." not in line and _WITH_COMMAS.match(line) else line
