"""Quantities as people write them on a command line: sizes, times, shares, lists of them."""

from __future__ import annotations

import re
from math import isfinite

_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([kmgtpe]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(us|ms|s|m|min|h)?", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,3})-)?(\d{1,3}):(\d{2}):(\d{2})", re.ASCII)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600}

Range = tuple[int, int]
"""First and last size in bytes, both inclusive."""


def parse_bytes(text: str) -> int:
    """Reads "1K", "64KiB", "1.5 MiB" or "4096"; units are powers of 1024 as in nccl-tests."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is no size; write it as 4096, 64K, 1MiB or 8G")
    power = "bkmgtpe".index(match[2].lower() or "b")
    return round(float(match[1]) * float(1 << 10 * power))


def parse_seconds(text: str) -> float:
    """Seconds of `90`, `90s`, `200us`, `5ms`, `20m`, `2h`, `HH:MM:SS` or `D-HH:MM:SS`; more than 0."""
    found = 0.0
    if match := _TIME.fullmatch(text.strip()):
        found = float(match[1]) * _SECONDS[match[2] or "s"]
    elif match := _CLOCK.fullmatch(text.strip()):
        days, hours, minutes, rest = (int(part or 0) for part in match.groups())
        found = float(((days * 24 + hours) * 60 + minutes) * 60 + rest)
    else:
        raise ValueError(f"'{text}' is no time; write it as 90s, 20m, 2h or HH:MM:SS")
    if not found > 0:
        raise ValueError(f"a time must be more than 0 seconds, not {text}")
    return found


_LARGEST, _SMALLEST = 1e30, 1e-30


def measurable(value: float) -> float | None:
    """A figure that somebody may have measured: None beyond 10^30 and for nan, 0 below 10^-30.

    What is computed of it (a rate, a ratio, a square) then stays within what a float can hold.
    """
    if not abs(value) <= _LARGEST:
        return None
    return value if abs(value) >= _SMALLEST else 0.0


def parse_whole(text: str, *, octal: bool = False) -> int:
    """A whole number as the engine reads it: ASCII digits with nothing between them; `octal` after a leading 0."""
    digits = re.fullmatch(r"\s*([-+]?)(0[xX][0-9a-fA-F]+|[0-9]+)\s*", text)
    if digits is None or len(digits[2]) > 40:
        raise ValueError(f"it takes a whole number, not '{text}'")
    base = 16 if "x" in digits[2].lower() else 8 if octal and digits[2][0] == "0" else 10
    value = int(digits[1] + digits[2], base)
    if abs(value) >= 1 << 63:
        raise ValueError(f"'{text}' has too many digits")
    return value


def parse_number(text: str) -> float:
    """A finite number in ASCII."""
    if not re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?", text) or not isfinite(float(text)):
        raise ValueError(f"it takes a number, not '{text}'")
    return float(text)


def parse_percent(text: str) -> float:
    """The share of `2` or `2%`: 0.02."""
    value = parse_number(text.removesuffix("%"))
    if not 0 < value < 100:
        raise ValueError(f"it lies between 0 and 100 percent, not at {text}")
    return value / 100


def parse_ranges(text: str) -> tuple[Range, ...]:
    """`1M,64M` names sizes, `1M-1G` a range; either end of a range may be missing."""
    return tuple(_range(part) for part in text.split(","))


def _range(text: str) -> Range:
    low, dash, high = text.partition("-")
    first = parse_bytes(low) if low or not dash else 0
    last = (parse_bytes(high) if high else 2**63) if dash else first
    if last < first:
        raise ValueError(f"'{text}' ends before it begins")
    return first, last


def within(size: int, ranges: tuple[Range, ...] | None) -> bool:
    """Whether a size is among those that were asked for; every size is where none were."""
    return ranges is None or any(first <= size <= last for first, last in ranges)
