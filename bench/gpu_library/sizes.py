"""Message sizes: as people write them, and the list of one sweep."""

from __future__ import annotations

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_size(text: str) -> int:
    """Bytes of `64K`, `1M` or `512`. Raises ValueError for anything else."""
    digits = text.rstrip("KMGkmg")
    unit = text[len(digits) :].upper()
    if not digits.isdigit() or unit not in _UNITS:
        raise ValueError(f"'{text}' is no size; write bytes, or a number with K, M or G")
    return int(digits) * _UNITS[unit]


def words(size: int) -> str:
    """For people: `64 KiB`."""
    for unit in ("GiB", "MiB", "KiB"):
        factor = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}[unit]
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} B"


def within(first: int, last: int, low: int, high: int) -> tuple[int, int] | None:
    """The part of `first` to `last` that lies in `low` to `high`; none where they do not meet."""
    least, most = max(first, low), min(last, high)
    return (least, most) if least <= most else None
